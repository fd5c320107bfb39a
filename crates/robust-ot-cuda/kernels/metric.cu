// h(V) and the metric that attains it, in double precision, by one block.

// The numbers of DeviceSet::new in src/arguments.rs.
#define SET_W2 0
#define SET_P 1
#define SET_P_POWER 2
#define SET_KL 3
#define SET_DS 4
#define SET_FEATURES 5
#define SET_SRW 6
#define SET_RKP 7

#define LARGEST_EXPONENT 600.0
#define ROW_SUM_TOLERANCE 1e-13
#define ROW_SUM_LIMIT 1e-12
#define MOST_SCALINGS 2000
#define PATIENCE 50

// Faults of a kernel; the host turns them into messages.
#define FAULT_LOGIT 1u
#define FAULT_OVERFLOW 2u
#define FAULT_SCALING 3u
#define FAULT_LOSS 4u
#define FAULT_WEIGHT 5u
#define FAULT_RANGE 6u

struct Set {
    int kind;
    int k;
    // ρ for rkp.
    double lambda;
    // r × r, for kl and ds.
    const double *prior;
};

// Reports a fault as step, code, value. The first fault wins, and within a step and code the largest value, whatever the
// order in which blocks run.
__device__ inline void report(u64 *fault, u32 step, u32 code, float value) {
    atomicMin(fault, ((u64)step << 40) | ((u64)code << 32) | (u64)~__float_as_uint(value));
}

__device__ inline double power(double x, int n) {
    double result = 1.0;
    for (; n > 0; n >>= 1, x *= x) {
        if (n & 1) result *= x;
    }
    return result;
}

// M*_ab = exp(L_ab + u_a + u_b) with row sums one, by u ← ½(u − ln Σ_b e^{L_ab + u_b}); see metric/scaling.rs.
// `scratch` holds r² + 3r numbers. Returns h; reports a fault if the scaling does not converge.
__device__ double doubly_stochastic(Set set, int r, const double *V, double *M, double *scratch, double *room, u64 *fault, u32 step) {
    double *L = scratch, *u = scratch + r * r, *best = u + r, *sums = best + r;
    int tid = threadIdx.x, lane = tid % LANES, warp = tid / LANES, warps = blockDim.x / LANES;
    for (int at = tid; at < r * r; at += blockDim.x) {
        int a = at / r, b = at % r;
        L[at] = log(set.prior[at]) + (V[at] - 0.5 * (V[a * r + a] + V[b * r + b])) / set.lambda;
    }
    __syncthreads();
    for (int a = tid; a < r; a += blockDim.x) best[a] = u[a] = -0.5 * L[a * r + a];
    __syncthreads();
    double least = INF64;
    int since_best = 0;
    for (int iteration = 0; iteration < MOST_SCALINGS; iteration++) {
        for (int a = warp; a < r; a += warps) {
            double top = -INF64;
            for (int b = lane; b < r; b += LANES) top = fmax(top, L[a * r + b] + u[b]);
            top = warp_max(top);
            double sum = 0.0;
            for (int b = lane; b < r; b += LANES) sum += exp(L[a * r + b] + u[b] - top);
            sum = warp_sum(sum);
            if (lane == 0) sums[a] = top + log(sum);
        }
        __syncthreads();
        double residual = 0.0;
        for (int a = tid; a < r; a += blockDim.x) residual = fmax(residual, fabs(expm1(u[a] + sums[a])));
        residual = block_max(residual, room);
        bool better = residual < least;
        if (better) {
            least = residual;
            since_best = 0;
        } else {
            since_best++;
        }
        bool done = residual <= ROW_SUM_TOLERANCE || since_best > PATIENCE;
        for (int a = tid; a < r; a += blockDim.x) {
            if (better) best[a] = u[a];
            if (!done) u[a] = 0.5 * (u[a] - sums[a]);
        }
        __syncthreads();
        if (done) break;
    }
    if (!(least <= ROW_SUM_LIMIT)) {
        if (tid == 0) report(fault, step, FAULT_SCALING, (float)least);
        return 0.0;
    }
    double value = 0.0;
    for (int at = tid; at < r * r; at += blockDim.x) {
        int a = at / r, b = at % r;
        M[at] = exp(L[at] + best[a] + best[b]);
        value += set.lambda * (M[at] - set.prior[at]);
        if (a == b) value += V[at] - 2.0 * set.lambda * best[a];
    }
    return block_sum(value, room);
}

// Returns h(V) to every thread and writes M* to M. `scratch` is as above; `room` holds one number per warp. The spectral
// sets overwrite V.
__device__ double worst_case(Set set, int r, double *V, double *M, double *scratch, double *room, u64 *fault, u32 step) {
    int tid = threadIdx.x, size = r * r;
    double value = 0.0;
    if (set.kind == SET_W2) {
        for (int at = tid; at < size; at += blockDim.x) {
            bool own = at / r == at % r;
            M[at] = own ? 1.0 : 0.0;
            if (own) value += V[at];
        }
        value = block_sum(value, room);
    } else if (set.kind == SET_P) {
        double largest = 0.0;
        for (int at = tid; at < size; at += blockDim.x) largest = fmax(largest, fabs(V[at]));
        largest = block_max(largest, room);
        double sum = 0.0;
        if (largest > 0.0) {
            for (int at = tid; at < size; at += blockDim.x) sum += power(V[at] / largest, 2 * set.k);
        }
        sum = block_sum(sum, room);
        value = largest > 0.0 ? largest * (set.k == 1 ? sqrt(sum) : pow(sum, 1.0 / (2 * set.k))) : 0.0;
        for (int at = tid; at < size; at += blockDim.x) M[at] = value > 0.0 ? power(V[at] / value, 2 * set.k - 1) : 0.0;
    } else if (set.kind == SET_P_POWER) {
        double largest = 0.0;
        for (int at = tid; at < size; at += blockDim.x) {
            double odd = power(V[at], 2 * set.k - 1);
            M[at] = 2 * set.k * odd;
            value += odd * V[at];
            largest = fmax(largest, fabs(V[at]));
        }
        value = block_sum(value, room);
        largest = block_max(largest, room);
        if (!isfinite(value) && tid == 0) report(fault, step, FAULT_RANGE, (float)largest);
    } else if (set.kind == SET_KL) {
        for (int at = tid; at < size; at += blockDim.x) {
            double weight = set.prior[at], exponent = V[at] / set.lambda;
            if (weight != 0.0 && exponent > LARGEST_EXPONENT) report(fault, step, FAULT_OVERFLOW, (float)V[at]);
            M[at] = weight == 0.0 ? 0.0 : weight * exp(exponent);
            value += weight == 0.0 ? 0.0 : set.lambda * weight * expm1(exponent);
        }
        value = block_sum(value, room);
    } else if (set.kind == SET_FEATURES) {
        double largest = -INF64;
        for (int a = tid; a < r; a += blockDim.x) largest = fmax(largest, V[a * r + a]);
        largest = block_max(largest, room);
        double sum = 0.0;
        for (int a = tid; a < r; a += blockDim.x) sum += exp((V[a * r + a] - largest) / set.lambda);
        sum = block_sum(sum, room);
        for (int at = tid; at < size; at += blockDim.x) {
            M[at] = at / r == at % r ? exp((V[at] - largest) / set.lambda) / sum : 0.0;
        }
        value = largest + set.lambda * log(sum) - set.lambda * (r - 1.0);
    } else if (set.kind == SET_SRW) {
        value = largest_eigenvalues(set.k, r, V, M, scratch, room);
    } else if (set.kind == SET_RKP) {
        value = schatten(set.lambda, r, V, M, scratch, room);
    } else {
        value = doubly_stochastic(set, r, V, M, scratch, room, fault, step);
    }
    __syncthreads();
    return value;
}
