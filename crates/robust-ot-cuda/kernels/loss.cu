// Cross-entropy and the robust loss of predictions that another library holds on the device, with their gradient in the
// logits; see loss/mod.rs. `real` is float or double, and one block works on a row. Nothing here depends on the host knowing the
// targets: rows find their labels, and rows that cannot be computed become NaN.

#define LARGEST_STEP 60.0
#define PLAIN 10
#define LARGEST_NEWTON_STEP 10.0
#define HALVINGS 5
#define RIDGE 1e-12
#define ROUNDING 4.0
// The most true labels of a row for which Newton steps are taken.
#define NEWTON_LABELS 32
// The most columns that are kept in registers.
#define FEW 8
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)
// Slots per group from which on a warp shares the sum of an entry of V.
#define MANY_SLOTS 8

// Types of targets; see src/batch_loss.rs.
#define CLASSES 0
#define BYTES 1
#define WHOLE 2
#define SINGLE 3
#define DOUBLE 4

// A batch, its buffers and the labels as points; see src/batch_loss.rs. "Lines" are the true labels of all rows; those of a row
// are consecutive, from starts[row] on. Arrays by slots have `most` numbers per row.
struct Batch {
    u64 width;
    u64 most;
    u64 size;
    u64 dim;
    u64 parts;
    u64 part_stride;
    u64 diagonal_parts;
    u64 diagonal_stride;
    u64 slope_parts;
    u64 slope_stride;
    u64 kind;
    u64 iterations;
    double linear_entropy;
    double tolerance;
    double entropy;
    double cross_entropy;
    double transport;
    Set set;
    // The logits, rows × L, and the targets: rows (classes) or rows × L.
    const real *input;
    const void *target;
    // L × d, L × r(r+1)/2, and L × L or null.
    const real *points;
    const real *grams;
    const real *table;
    // Lines written so far.
    u32 *total;
    u32 *counts;
    u32 *starts;
    // By slots: the true labels and their shares of the target.
    u32 *labels;
    double *weights;
    // By slots: Σ_p γ_pq over the mass that moves.
    double *masses;
    // By lines.
    u32 *line_labels;
    double *entropies;
    double *crosses;
    u64 *faults;
    double *scratch;
    // rows × L: h, ln h, and Σ_q ŷ_q ln s_pq.
    real *h;
    real *logs;
    real *tilts;
    // Lines × L; costs are only used without a table.
    const real *costs;
    real *shares;
    // Parts of lines × d, of rows × r(r+1)/2 and of rows × L: sums that products leave in parts.
    real *spread;
    real *diagonals;
    real *mean_costs;
    // rows × (r(r+1)/2 + d).
    real *factors;
    // rows × L, which also hold the mass that leaves each label, and rows.
    real *slopes;
    real *losses;
};

__device__ inline float power_of_e(float x) { return exp2f(x * 1.44269504088896340736f); }
__device__ inline double power_of_e(double x) { return exp(x); }
__device__ inline float exact_power(float x) { return expf(x); }
__device__ inline double exact_power(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }
__device__ inline double larger(double x, double y) { return fmax(x, y); }
// ln of the smallest normal number, and the distance from 1 to the next one.
__device__ inline float least_log(float) { return -87.33654475f; }
__device__ inline double least_log(double) { return -708.39641853226408; }
__device__ inline double epsilon_of(float) { return 1.1920928955078125e-7; }
__device__ inline double epsilon_of(double) { return 2.220446049250313e-16; }

__device__ inline double target_at(const Batch &b, u64 at) {
    switch (b.kind) {
    case BYTES: return ((const unsigned char *)b.target)[at];
    case WHOLE: return (double)((const long long *)b.target)[at];
    case SINGLE: return ((const float *)b.target)[at];
    default: return ((const double *)b.target)[at];
    }
}

// Finds the true labels of a row among dense targets, in order. Returns their number; 0 if the row cannot be computed.
__device__ u32 find_labels(const Batch &b, u64 row, u32 *labels, double *weights, double *room, u32 *counts) {
    u64 first = row * b.width;
    double sum = 0.0;
    u32 found = 0, bad = 0;
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) {
        double y = target_at(b, first + p);
        // False for NaN as well.
        bad |= !(y >= 0.0 && y < INF64);
        found += y != 0.0;
        sum += y;
    }
    sum = block_sum(sum, room);
    found = block_sum(found, counts);
    bad = block_sum(bad, counts);
    if (bad || found == 0 || found > b.most || !(sum < INF64)) return 0;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    u32 before = 0;
    for (u64 from = 0; from < b.width; from += blockDim.x) {
        u64 p = from + threadIdx.x;
        double y = p < b.width ? target_at(b, first + p) : 0.0;
        u32 flags = __ballot_sync(EVERY, y != 0.0);
        if (lane == 0) counts[warp] = __popc(flags);
        __syncthreads();
        u32 own = before + __popc(flags & ((1u << lane) - 1u));
        for (int w = 0; w < warps; w++) {
            if (w < warp) own += counts[w];
            before += counts[w];
        }
        if (y != 0.0) {
            labels[own] = (u32)p;
            weights[own] = y / sum;
        }
        __syncthreads();
    }
    return found;
}

// ln softmax, the true labels with their shares, and cross-entropy.
extern "C" __global__ void __launch_bounds__(1024) read_rows(Batch b) {
    __shared__ real tops[LANES];
    __shared__ double room[LANES];
    __shared__ u32 counts[LANES];
    __shared__ u32 place;
    u64 row = blockIdx.x, start = row * b.width;
    const real *z = b.input + start;
    real *h = b.h + start, *logs = b.logs + start;
    u32 *labels = b.labels + row * b.most;
    double *weights = b.weights + row * b.most;
    real top = -(real)INF64;
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) top = (z[p] != z[p] || z[p] > top) ? z[p] : top;
    top = block_max(top, tops);
    double sum = 0.0;
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) sum += exact_power(z[p] - top);
    // NaN if a logit is NaN or +∞, or all are −∞.
    double shift = (double)top + log(block_sum(sum, room));
    real least = least_log((real)0);
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) {
        real log_h = larger((real)((double)z[p] - shift), least);
        logs[p] = log_h;
        h[p] = exact_power(log_h);
    }
    u32 count = 0;
    if (b.kind == CLASSES) {
        long long label = ((const long long *)b.target)[row];
        count = label >= 0 && label < (long long)b.width;
        if (count && threadIdx.x == 0) {
            labels[0] = (u32)label;
            weights[0] = 1.0;
        }
    } else {
        count = find_labels(b, row, labels, weights, room, counts);
    }
    if (!isfinite(shift)) count = 0;
    __syncthreads();
    double cross = 0.0;
    for (u32 q = threadIdx.x; q < count; q += blockDim.x) cross -= weights[q] * ((double)z[labels[q]] - shift);
    cross = block_sum(cross, room);
    if (threadIdx.x == 0) {
        place = count ? atomicAdd(b.total, count) : 0;
        b.starts[row] = place;
        b.counts[row] = count;
        b.crosses[row] = cross;
        if (!count) b.losses[row] = (real)NOT_A_NUMBER;
    }
    __syncthreads();
    for (u32 q = threadIdx.x; q < count; q += blockDim.x) b.line_labels[place + q] = labels[q];
}

// The problem of one row, with the line of costs of every label, potentials, masses and targets in shared memory.
struct Columns {
    u64 width;
    u32 count;
    const real *h;
    const real *costs;
    const u32 *places;
    real inverse;
    real *shares;
    // ln Σ_q e^{g_q − C_pq/λ}, one per label p.
    real *norms;
    real *potentials;
    double *masses;
    const double *wanted;
};

// Computes the plan of the current potentials with the masses of its columns, and returns Σ_p h_p n_p to every thread.
template <int N> __device__ double update_few(const Columns &c, bool keep, double *room) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    real potentials[N], sums[N];
    const real *costs[N];
#pragma unroll
    for (int q = 0; q < N; q++) {
        potentials[q] = c.potentials[q];
        costs[q] = c.costs + c.places[q] * c.width;
        sums[q] = 0;
    }
    double norms = 0.0;
    for (u64 p = threadIdx.x; p < c.width; p += blockDim.x) {
        real powers[N], top = -(real)INF64, sum = 0;
#pragma unroll
        for (int q = 0; q < N; q++) {
            powers[q] = potentials[q] - costs[q][p] * c.inverse;
            top = larger(top, powers[q]);
        }
#pragma unroll
        for (int q = 0; q < N; q++) {
            powers[q] = power_of_e(powers[q] - top);
            sum += powers[q];
        }
        real h = c.h[p], scale = 1 / sum, norm = top + logarithm(sum);
        norms += (double)h * norm;
#pragma unroll
        for (int q = 0; q < N; q++) {
            real share = powers[q] * scale;
            sums[q] += h * share;
            if (keep) c.shares[q * c.width + p] = share;
        }
        if (keep) c.norms[p] = norm;
    }
#pragma unroll
    for (int q = 0; q < N; q++) {
        double sum = warp_sum((double)sums[q]);
        if (lane == 0) room[q * LANES + warp] = sum;
    }
    norms = warp_sum(norms);
    if (lane == 0) room[N * LANES + warp] = norms;
    __syncthreads();
    for (int q = threadIdx.x; q < N; q += blockDim.x) {
        double mass = 0.0;
        for (int w = 0; w < warps; w++) mass += room[q * LANES + w];
        c.masses[q] = mass;
    }
    double total = 0.0;
    for (int w = 0; w < warps; w++) total += room[N * LANES + w];
    __syncthreads();
    return total;
}

// One copy for all calls, since the compiler takes seconds for each. By reference: passed by value, the pointers arrive wrong
// (NVRTC 13.0, sm_90).
__device__ __noinline__ double update_columns(const Columns &c, bool keep, double *room) {
    switch (c.count) {
    case 2: return update_few<2>(c, keep, room);
    case 3: return update_few<3>(c, keep, room);
    case 4: return update_few<4>(c, keep, room);
    case 5: return update_few<5>(c, keep, room);
    case 6: return update_few<6>(c, keep, room);
    case 7: return update_few<7>(c, keep, room);
    case 8: return update_few<8>(c, keep, room);
    }
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    double norms = 0.0;
    for (u64 p = threadIdx.x; p < c.width; p += blockDim.x) {
        real top = -(real)INF64, sum = 0;
        for (u32 q = 0; q < c.count; q++) top = larger(top, c.potentials[q] - c.costs[c.places[q] * c.width + p] * c.inverse);
        for (u32 q = 0; q < c.count; q++) {
            real power = power_of_e(c.potentials[q] - c.costs[c.places[q] * c.width + p] * c.inverse - top);
            c.shares[q * c.width + p] = power;
            sum += power;
        }
        real scale = 1 / sum, norm = top + logarithm(sum);
        for (u32 q = 0; q < c.count; q++) c.shares[q * c.width + p] *= scale;
        norms += (double)c.h[p] * norm;
        c.norms[p] = norm;
    }
    double total = block_sum(norms, room);
    for (u32 q = warp; q < c.count; q += warps) {
        double mass = 0.0;
        for (u64 p = lane; p < c.width; p += LANES) mass += (double)c.h[p] * c.shares[q * c.width + p];
        mass = warp_sum(mass);
        if (lane == 0) c.masses[q] = mass;
    }
    __syncthreads();
    return total;
}

// Every thread computes the same sums over the few columns.
__device__ inline double column_error(const Columns &c) {
    double error = 0.0;
    for (u32 q = 0; q < c.count; q++) error += fabs(c.masses[q] - c.wanted[q]);
    return error;
}

__device__ inline double potential_gain(const Columns &c) {
    double gain = 0.0;
    for (u32 q = 0; q < c.count; q++) gain += c.wanted[q] * c.potentials[q];
    return gain;
}

// The marginal error that rounding of the potentials can cause.
__device__ inline double rounding_of(const Columns &c) {
    double largest = 1.0;
    for (u32 q = 0; q < c.count; q++) largest = fmax(largest, fabs((double)c.potentials[q]));
    return ROUNDING * epsilon_of((real)0) * largest;
}

// Solves (diag(c) − Σ_p h_p s_p s_pᵀ + ŷ ŷᵀ) Δ = ŷ − c for few labels; returns false if it cannot be solved.
__device__ bool newton_direction(const Columns &c, double *matrix, double *direction) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES, n = c.count;
    __shared__ bool solved;
    for (int pair = warp; pair < n * (n + 1) / 2; pair += warps) {
        int q = 0, other = pair;
        while (other > q) other -= ++q;
        double sum = 0.0;
        for (u64 p = lane; p < c.width; p += LANES) {
            sum += (double)c.h[p] * c.shares[q * c.width + p] * c.shares[other * c.width + p];
        }
        sum = warp_sum(sum);
        if (lane == 0) matrix[q * n + other] = c.wanted[q] * c.wanted[other] - sum + (q == other ? c.masses[q] * (1.0 + RIDGE) : 0.0);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        bool positive = true;
        for (int a = 0; a < n && positive; a++) {
            for (int b = 0; b <= a; b++) {
                double sum = matrix[a * n + b];
                for (int k = 0; k < b; k++) sum -= matrix[a * n + k] * matrix[b * n + k];
                if (a == b) {
                    positive = sum > 0.0 && isfinite(sum);
                    matrix[a * n + a] = sqrt(sum);
                } else {
                    matrix[a * n + b] = sum / matrix[b * n + b];
                }
            }
        }
        for (int a = 0; a < n; a++) {
            double sum = c.wanted[a] - c.masses[a];
            for (int k = 0; k < a; k++) sum -= matrix[a * n + k] * direction[k];
            direction[a] = sum / matrix[a * n + a];
        }
        for (int a = n - 1; a >= 0; a--) {
            double sum = direction[a];
            for (int k = a + 1; k < n; k++) sum -= matrix[k * n + a] * direction[k];
            direction[a] = sum / matrix[a * n + a];
        }
        solved = positive;
    }
    __syncthreads();
    return solved;
}

// Sinkhorn's iteration for the columns, and Newton's from PLAIN iterations on if there is a tolerance and they are few.
__device__ void solve_columns(const Columns &c, const Batch &b, double *direction, double *before, double *matrix, double *room) {
    bool newton = b.tolerance > 0.0 && c.count <= NEWTON_LABELS;
    double norms = update_columns(c, newton, room);
    for (u64 iteration = 0; iteration < b.iterations; iteration++) {
        double error = column_error(c);
        if (error <= b.tolerance || (b.tolerance > 0.0 && error <= rounding_of(c))) break;
        if (newton && iteration >= PLAIN && newton_direction(c, matrix, direction)) {
            double longest = 0.0, dual = potential_gain(c) - norms;
            double least = dual - ROUNDING * epsilon_of((real)0) * fabs(dual);
            for (u32 q = 0; q < c.count; q++) longest = fmax(longest, fabs(direction[q]));
            double step = fmin(LARGEST_NEWTON_STEP / longest, 1.0);
            for (u32 q = threadIdx.x; q < c.count; q += blockDim.x) before[q] = c.potentials[q];
            // Before the potentials change, every thread has read them.
            __syncthreads();
            for (int halving = 0; halving <= HALVINGS; halving++, step *= 0.5) {
                for (u32 q = threadIdx.x; q < c.count; q += blockDim.x) c.potentials[q] = (real)(before[q] + step * direction[q]);
                __syncthreads();
                norms = update_columns(c, true, room);
                bool better = potential_gain(c) - norms >= least;
                __syncthreads();
                if (better) break;
            }
            continue;
        }
        // As above.
        __syncthreads();
        for (u32 q = threadIdx.x; q < c.count; q += blockDim.x) {
            c.potentials[q] = (real)(c.potentials[q] + fmin(log(c.wanted[q] / c.masses[q]), LARGEST_STEP));
        }
        __syncthreads();
        norms = update_columns(c, newton, room);
    }
    if (!newton) update_columns(c, true, room);
}

// The plan of every row: γ without the mass that stays on a true label (which adds nothing to V but may be nearly all mass), its
// sums by labels and by columns, Σ_q ŷ_q ln s_pq, and Σ γ ln γ. Dynamic shared memory: 48 bytes per slot.
extern "C" __global__ void __launch_bounds__(1024) plan_rows(Batch b) {
    extern __shared__ double shared[];
    __shared__ double room[(FEW + 1) * LANES];
    __shared__ double matrix[NEWTON_LABELS * NEWTON_LABELS];
    u64 row = blockIdx.x, start = row * b.width;
    u32 count = b.counts[row];
    if (count == 0) return;
    u64 line = b.starts[row];
    const u32 *labels = b.labels + row * b.most;
    double *masses = shared, *wanted = masses + b.most, *direction = wanted + b.most, *before = direction + b.most;
    real *potentials = (real *)(before + b.most);
    // Both precisions reserve eight bytes per potential.
    u32 *places = (u32 *)(before + 2 * b.most);
    for (u32 q = threadIdx.x; q < count; q += blockDim.x) {
        potentials[q] = 0;
        wanted[q] = b.weights[row * b.most + q];
        places[q] = b.table ? labels[q] : q;
    }
    __syncthreads();
    const real *costs = b.table ? b.table : b.costs + line * b.width;
    real *shares = b.shares + line * b.width, *tilts = b.tilts + start, *gone = b.slopes + start;
    const real *logs = b.logs + start;
    Columns c = {b.width, count, b.h + start, costs, places, (real)(1.0 / b.linear_entropy), shares, tilts, potentials, masses, wanted};
    if (count > 1) solve_columns(c, b, direction, before, matrix, room);
    double entropy = 0.0;
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) {
        real h = c.h[p], sum = 0, norm = count > 1 ? c.norms[p] : (real)0;
        double tilt = 0.0;
        entropy += (double)h * logs[p];
        for (u32 q = 0; q < count; q++) {
            u64 at = q * b.width + p;
            real share = 1, log_share = 0;
            if (count > 1) {
                share = shares[at];
                log_share = potentials[q] - costs[places[q] * b.width + p] * c.inverse - norm;
            }
            real mass = h * share, moved = labels[q] == p ? (real)0 : mass;
            sum += moved;
            shares[at] = moved;
            tilt += wanted[q] * log_share;
            entropy += (double)mass * log_share;
        }
        gone[p] = sum;
        // In the place of the norms.
        tilts[p] = (real)tilt;
    }
    // Its barrier comes before the sums below.
    entropy = block_sum(entropy, room);
    if (threadIdx.x == 0) b.entropies[row] = entropy;
    for (u32 q = threadIdx.x / LANES; q < count; q += blockDim.x / LANES) {
        double mass = 0.0;
        for (u64 p = threadIdx.x % LANES; p < b.width; p += LANES) mass += shares[q * b.width + p];
        mass = warp_sum(mass);
        if (threadIdx.x % LANES == 0) b.masses[row * b.most + q] = mass;
    }
}

// V of every row's plan, its worst metric and its loss, and the metric in the form that costs need: the packed triangle with
// doubled off-diagonals, then −2 Σ_q ŷ_q l_q M.
extern "C" __global__ void __launch_bounds__(256) measure_rows(Batch b) {
    __shared__ double room[LANES];
    u64 row = blockIdx.x;
    u32 count = b.counts[row];
    if (count == 0) return;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    u64 size = b.size, square = size * size, triangle = size * (size + 1) / 2, slots = b.dim / size;
    double *V = b.scratch + row * (3 * square + 3 * size), *M = V + square, *rest = M + square;
    real *spread = b.spread + b.starts[row] * b.dim, *diagonal = b.diagonals + row * triangle;
    const u32 *labels = b.labels + row * b.most;
    const double *weights = b.weights + row * b.most, *masses = b.masses + row * b.most;
    for (u64 at = threadIdx.x; at < count * b.dim; at += blockDim.x) {
        for (u64 part = 1; part < b.parts; part++) spread[at] += spread[part * b.part_stride + at];
    }
    for (u64 at = threadIdx.x; at < triangle; at += blockDim.x) {
        for (u64 part = 1; part < b.diagonal_parts; part++) diagonal[at] += diagonal[part * b.diagonal_stride + at];
    }
    if (threadIdx.x == 0) b.faults[row] = ~0ull;
    __syncthreads();
    // A warp or a thread per entry.
    bool together = slots >= MANY_SLOTS;
    u64 stride = together ? LANES : 1, offset = together ? lane : 0;
    for (u64 at = together ? warp : threadIdx.x; at < square; at += together ? warps : blockDim.x) {
        u64 x = at / size, y = at % size;
        if (y < x) continue;
        u64 packed = x * size - x * (x - 1) / 2 + y - x;
        double sum = 0.0;
        for (u64 term = offset; term < count * slots; term += stride) {
            u64 q = term / slots, slot = term % slots * size;
            const real *own = spread + q * b.dim + slot, *label = b.points + labels[q] * b.dim + slot;
            sum -= (double)own[x] * label[y] + (double)own[y] * label[x];
        }
        for (u64 q = offset; q < count; q += stride) sum += masses[q] * b.grams[labels[q] * triangle + packed];
        if (together) sum = warp_sum(sum);
        if (offset == 0) V[at] = V[y * size + x] = diagonal[packed] + sum;
    }
    __syncthreads();
    double value = worst_case(b.set, (int)size, V, M, rest, room, b.faults + row, 0);
    if (threadIdx.x == 0) {
        bool fault = atomicAdd(b.faults + row, 0ull) != ~0ull;
        double loss = b.cross_entropy > 0.0 ? b.cross_entropy * b.crosses[row] : 0.0;
        loss += b.transport * (value + b.entropy * b.entropies[row]);
        b.losses[row] = (real)(fault ? NOT_A_NUMBER : loss);
    }
    real *out = b.factors + row * (triangle + b.dim);
    for (u64 at = threadIdx.x; at < square; at += blockDim.x) {
        u64 x = at / size, y = at % size;
        if (y >= x) out[x * size - x * (x - 1) / 2 + y - x] = (real)(x == y ? M[at] : 2.0 * M[at]);
    }
    for (u64 at = threadIdx.x; at < b.dim; at += blockDim.x) {
        u64 slot = at / size * size, y = at % size;
        double sum = 0.0;
        for (u32 q = 0; q < count; q++) {
            const real *label = b.points + labels[q] * b.dim + slot;
            double product = 0.0;
            for (u64 x = 0; x < size; x++) product += label[x] * M[x * size + y];
            sum += weights[q] * product;
        }
        out[triangle + at] = (real)(-2.0 * sum);
    }
}

// The gradient in the logits: α_ce (h − ŷ) + α_ot h ∘ (g − ⟨h, g⟩) with g_p = Σ_q ŷ_q (C_pq + λ ln γ_pq).
extern "C" __global__ void __launch_bounds__(1024) finish_rows(Batch b) {
    __shared__ double room[LANES];
    u64 row = blockIdx.x, start = row * b.width;
    u32 count = b.counts[row];
    real *out = b.slopes + start, loss = b.losses[row];
    if (loss != loss) {
        for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) out[p] = (real)NOT_A_NUMBER;
        return;
    }
    const real *h = b.h + start, *costs = b.mean_costs + start;
    double mean = 0.0;
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) {
        double slope = b.entropy * ((double)b.logs[start + p] + b.tilts[start + p]);
        for (u64 part = 0; part < b.slope_parts; part++) slope += costs[part * b.slope_stride + p];
        out[p] = (real)slope;
        mean += h[p] * slope;
    }
    mean = block_sum(mean, room);
    for (u64 p = threadIdx.x; p < b.width; p += blockDim.x) {
        out[p] = (real)(h[p] * (b.cross_entropy + b.transport * (out[p] - mean)));
    }
    __syncthreads();
    for (u32 q = threadIdx.x; q < count; q += blockDim.x) {
        u64 label = b.labels[row * b.most + q];
        out[label] = (real)(out[label] - b.cross_entropy * b.weights[row * b.most + q]);
    }
}
