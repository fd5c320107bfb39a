// The robust loss between predictions and true labels; see loss/mod.rs. One block per row throughout.

#define LARGEST_STEP 60.0
#define PLAIN 10
#define LARGEST_NEWTON_STEP 10.0
#define HALVINGS 5
#define RIDGE 1e-12
// The most true labels of a row for which Newton steps are taken.
#define NEWTON_LABELS 32
// The most columns that are kept in registers.
#define FEW 8

// Gathers l_q M of the first metric, for every line.
extern "C" __global__ void gather_labels(const float *vectors, Truth truth, u32 dim, float *lines) {
    Row row = row_of(truth, blockIdx.x);
    for (u32 at = threadIdx.x; at < row.count * dim; at += blockDim.x) {
        lines[(u64)row.line * dim + at] = vectors[(u64)row.labels[at / dim] * dim + at % dim];
    }
}

// The problem of one row. Costs are C_qp, or own_p − 2 C_qp if `own` is set; they are stored by lines, or by labels if
// `labels` is set.
struct Columns {
    u32 width;
    u32 count;
    const float *h;
    const float *costs;
    const u32 *labels;
    const float *own;
    float inverse;
    float *shares;
    float *logs;
    float *potentials;
    double *masses;
};

__device__ inline float cost_of(const Columns &c, u32 q, u32 p) {
    float cost = c.costs[(u64)(c.labels ? c.labels[q] : q) * c.width + p];
    return c.own ? c.own[p] - 2.0f * cost : cost;
}

// Computes the masses of the columns at the current potentials; `keep` also stores the shares and their logarithms.
__device__ void update_columns(const Columns &c, bool keep, double *warp_room) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    if (c.count <= FEW) {
        float sums[FEW] = {0};
        for (u32 p = threadIdx.x; p < c.width; p += blockDim.x) {
            float exponents[FEW], top = -INF, sum = 0.0f;
#pragma unroll
            for (int q = 0; q < FEW; q++) {
                exponents[q] = q < c.count ? c.potentials[q] - cost_of(c, q, p) * c.inverse : -INF;
                top = fmaxf(top, exponents[q]);
            }
            float powers[FEW];
#pragma unroll
            for (int q = 0; q < FEW; q++) {
                powers[q] = expf(exponents[q] - top);
                sum += powers[q];
            }
            float h = c.h[p], scale = 1.0f / sum, shift = top + logf(sum);
#pragma unroll
            for (int q = 0; q < FEW; q++) {
                if (q >= c.count) break;
                float share = powers[q] * scale;
                sums[q] += h * share;
                if (keep) {
                    c.shares[(u64)q * c.width + p] = share;
                    c.logs[(u64)q * c.width + p] = exponents[q] - shift;
                }
            }
        }
#pragma unroll
        for (int q = 0; q < FEW; q++) {
            if (q >= c.count) break;
            double sum = warp_sum((double)sums[q]);
            if (lane == 0) warp_room[q * LANES + warp] = sum;
        }
        __syncthreads();
        for (u32 q = threadIdx.x; q < c.count; q += blockDim.x) {
            double mass = 0.0;
            for (int w = 0; w < warps; w++) mass += warp_room[q * LANES + w];
            c.masses[q] = mass;
        }
        __syncthreads();
        return;
    }
    for (u32 p = threadIdx.x; p < c.width; p += blockDim.x) {
        float top = -INF, sum = 0.0f;
        for (u32 q = 0; q < c.count; q++) top = fmaxf(top, c.potentials[q] - cost_of(c, q, p) * c.inverse);
        for (u32 q = 0; q < c.count; q++) sum += expf(c.potentials[q] - cost_of(c, q, p) * c.inverse - top);
        float shift = top + logf(sum);
        for (u32 q = 0; q < c.count; q++) {
            float log_share = c.potentials[q] - cost_of(c, q, p) * c.inverse - shift;
            c.shares[(u64)q * c.width + p] = expf(log_share);
            if (keep) c.logs[(u64)q * c.width + p] = log_share;
        }
    }
    __syncthreads();
    for (u32 q = warp; q < c.count; q += warps) {
        double mass = 0.0;
        for (u32 p = lane; p < c.width; p += LANES) mass += (double)c.h[p] * c.shares[(u64)q * c.width + p];
        mass = warp_sum(mass);
        if (lane == 0) c.masses[q] = mass;
    }
    __syncthreads();
}

__device__ inline double column_error(const Columns &c) {
    double error = 0.0;
    for (u32 q = 0; q < c.count; q++) error += fabs(c.masses[q] - 1.0 / c.count);
    return error;
}

// Σ_q ŷ_q g_q − Σ_p h_p n_p with n_p = g_q − C_pq/λ − ln s_pq, the same for all q. Needs the stored logarithms.
__device__ double dual_of(const Columns &c, double *room) {
    double loss = 0.0, gain = 0.0;
    for (u32 p = threadIdx.x; p < c.width; p += blockDim.x) {
        loss += (double)c.h[p] * ((double)c.potentials[0] - (double)cost_of(c, 0, p) * c.inverse - c.logs[p]);
    }
    // Before the barrier in the sum: after it, threads that are ahead may change the potentials.
    for (u32 q = 0; q < c.count; q++) gain += (double)c.potentials[q] / c.count;
    return gain - block_sum(loss, room);
}

// Solves (diag(c) − Σ_p h_p s_p s_pᵀ) Δ = ŷ − c for few labels; returns false if it cannot be solved.
__device__ bool newton_direction(const Columns &c, double *matrix, double *direction) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES, n = c.count;
    double wanted = 1.0 / n;
    __shared__ bool solved;
    for (int pair = warp; pair < n * n; pair += warps) {
        int q = pair / n, other = pair % n;
        if (other > q) continue;
        double sum = 0.0;
        for (u32 p = lane; p < c.width; p += LANES) {
            sum += (double)c.h[p] * c.shares[(u64)q * c.width + p] * c.shares[(u64)other * c.width + p];
        }
        sum = warp_sum(sum);
        if (lane == 0) matrix[q * n + other] = wanted * wanted - sum + (q == other ? c.masses[q] * (1.0 + RIDGE) : 0.0);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        solved = true;
        for (int a = 0; a < n && solved; a++) {
            for (int b = 0; b <= a; b++) {
                double sum = matrix[a * n + b];
                for (int k = 0; k < b; k++) sum -= matrix[a * n + k] * matrix[b * n + k];
                if (a == b) {
                    solved = sum > 0.0 && isfinite(sum);
                    matrix[a * n + a] = sqrt(sum);
                } else {
                    matrix[a * n + b] = sum / matrix[b * n + b];
                }
            }
        }
        for (int a = 0; a < n; a++) {
            double sum = wanted - c.masses[a];
            for (int k = 0; k < a; k++) sum -= matrix[a * n + k] * direction[k];
            direction[a] = sum / matrix[a * n + a];
        }
        for (int a = n - 1; a >= 0; a--) {
            double sum = direction[a];
            for (int k = a + 1; k < n; k++) sum -= matrix[k * n + a] * direction[k];
            direction[a] = sum / matrix[a * n + a];
        }
    }
    __syncthreads();
    return solved;
}

// Runs Sinkhorn's iteration for every row, with Newton steps if there is a tolerance. Writes γ without the mass that
// stays on a true label (which adds nothing to V but may be nearly all mass), its sums by labels and by columns, ln s,
// and Σ γ ln γ. Shared memory: 3 n_y doubles and n_y floats for the largest n_y.
extern "C" __global__ void plans(const float *predictions, const float *log_predictions, const float *costs, int by_label, const float *own, Truth truth, u32 width, float inverse,
                                 u32 iterations, double tolerance, u32 most, float *shares, float *logs, float *gone, double *masses, double *entropies) {
    extern __shared__ double shared[];
    __shared__ double room[LANES];
    __shared__ double warp_room[FEW * LANES];
    __shared__ double matrix[NEWTON_LABELS * NEWTON_LABELS];
    Row row = row_of(truth, blockIdx.x);
    u64 start = (u64)blockIdx.x * width, line = (u64)row.line * width;
    double *direction = shared + most, *before = direction + most;
    Columns c = {width, row.count, predictions + start, by_label ? costs : costs + line, by_label ? row.labels : nullptr, own, inverse, shares + line, logs + line, (float *)(before + most), shared};
    for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) c.potentials[q] = 0.0f;
    __syncthreads();
    bool newton = tolerance > 0.0 && row.count <= NEWTON_LABELS;
    if (row.count > 1) {
        update_columns(c, newton, warp_room);
        for (u32 iteration = 0; iteration < iterations; iteration++) {
            if (column_error(c) <= tolerance) break;
            if (newton && iteration >= PLAIN && newton_direction(c, matrix, direction)) {
                double longest = 0.0, dual = dual_of(c, room);
                for (u32 q = 0; q < row.count; q++) longest = fmax(longest, fabs(direction[q]));
                double step = fmin(LARGEST_NEWTON_STEP / longest, 1.0);
                for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) before[q] = c.potentials[q];
                __syncthreads();
                for (int halving = 0; halving <= HALVINGS; halving++, step *= 0.5) {
                    for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) c.potentials[q] = (float)(before[q] + step * direction[q]);
                    __syncthreads();
                    update_columns(c, true, warp_room);
                    if (dual_of(c, room) >= dual) break;
                }
                continue;
            }
            for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) {
                c.potentials[q] = (float)(c.potentials[q] + fmin(log(1.0 / row.count / c.masses[q]), LARGEST_STEP));
            }
            __syncthreads();
            update_columns(c, newton, warp_room);
        }
        if (!newton) update_columns(c, true, warp_room);
    }
    double entropy = 0.0;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float h = c.h[p], sum = 0.0f;
        entropy += (double)h * log_predictions[start + p];
        for (u32 q = 0; q < row.count; q++) {
            u64 at = (u64)q * width + p;
            float share = row.count > 1 ? c.shares[at] : 1.0f, log_share = row.count > 1 ? c.logs[at] : 0.0f;
            float moved = row.labels[q] == p ? 0.0f : h * share;
            sum += moved;
            c.shares[at] = moved;
            c.logs[at] = log_share;
            entropy += (double)(h * share) * log_share;
        }
        gone[start + p] = sum;
    }
    entropy = block_sum(entropy, room);
    if (threadIdx.x == 0) entropies[blockIdx.x] = entropy;
    for (u32 q = threadIdx.x / LANES; q < row.count; q += blockDim.x / LANES) {
        double mass = 0.0;
        for (u32 p = threadIdx.x % LANES; p < width; p += LANES) mass += c.shares[(u64)q * width + p];
        mass = warp_sum(mass);
        if (threadIdx.x % LANES == 0) masses[row.line + q] = mass;
    }
}

// Computes V of every row's plan, its worst metric and its loss, and the metric in the form that costs need: the packed
// triangle with doubled off-diagonals, then −2/n_y Σ_q l_q M.
extern "C" __global__ void moments(const float *diagonals, u32 diagonal_stride, const float *spread, const double *masses, const float *grams, const float *points,
                                   Truth truth, u32 size, u32 dim, Set set, double entropy_weight, const double *entropies, double *scratch, float *factors,
                                   double *losses, u64 *fault) {
    __shared__ double room[LANES];
    Row row = row_of(truth, blockIdx.x);
    u32 square = size * size, triangle = size * (size + 1) / 2, slots = dim / size;
    double *V = scratch + (u64)blockIdx.x * (3 * square + 3 * size), *M = V + square, *rest = M + square;
    const float *diagonal = diagonals + (u64)blockIdx.x * diagonal_stride;
    for (u32 at = threadIdx.x; at < square; at += blockDim.x) {
        u32 a = at / size, b = at % size;
        if (b < a) continue;
        u32 packed = a * size - a * (a - 1) / 2 + b - a;
        double crossing = 0.0, own = diagonal[packed];
        for (u32 q = 0; q < row.count; q++) {
            const float *y = spread + (u64)(row.line + q) * dim, *e = points + (u64)row.labels[q] * dim;
            float sum = 0.0f;
            for (u32 slot = 0; slot < slots; slot++, y += size, e += size) sum += y[a] * e[b] + y[b] * e[a];
            crossing += sum;
            own += masses[row.line + q] * grams[(u64)row.labels[q] * triangle + packed];
        }
        V[at] = V[b * size + a] = own - crossing;
    }
    __syncthreads();
    double value = worst_case(set, size, V, M, rest, room, fault, *truth.step);
    if (threadIdx.x == 0) losses[blockIdx.x] = value + entropy_weight * entropies[blockIdx.x];
    float *out = factors + (u64)blockIdx.x * (triangle + dim);
    for (u32 at = threadIdx.x; at < square; at += blockDim.x) {
        u32 a = at / size, b = at % size;
        if (b >= a) out[a * size - a * (a - 1) / 2 + b - a] = (float)(a == b ? M[at] : 2.0 * M[at]);
    }
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        u32 slot = at / size, b = at % size;
        double sum = 0.0;
        for (u32 q = 0; q < row.count; q++) {
            const float *e = points + (u64)row.labels[q] * dim + slot * size;
            for (u32 a = 0; a < size; a++) sum += e[a] * M[a * size + b];
        }
        out[triangle + at] = (float)(-2.0 / row.count * sum);
    }
}

// Replaces the mean costs with ∇_h W = (1/n_y) Σ_q (C_pq + λ ln γ_pq), minus its mean.
extern "C" __global__ void loss_slopes(float *mean_costs, const float *log_predictions, const float *logs, Truth truth, u32 width, float entropy) {
    __shared__ double room[LANES];
    Row row = row_of(truth, blockIdx.x);
    u64 start = (u64)blockIdx.x * width;
    float share = entropy / row.count;
    double total = 0.0;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float slope = mean_costs[start + p] + entropy * log_predictions[start + p];
        for (u32 q = 0; q < row.count; q++) slope += share * logs[(u64)(row.line + q) * width + p];
        mean_costs[start + p] = slope;
        total += slope;
    }
    float mean = (float)(block_sum(total, room) / width);
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) mean_costs[start + p] -= mean;
}
