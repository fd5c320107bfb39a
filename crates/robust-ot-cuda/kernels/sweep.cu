// Entropic transport in base-2 logarithms: γ_ij = 2^{o_i + o_j + z_ij} with o_i = log₂ a_i − u_i, o_j = log₂ b_j − v_j
// and z = scale · X Yᵀ, where X = S M, Y = T and scale = 2 / (λ ln 2). A sweep over the rows computes
// u_i = log₂ Σ_j 2^{o_j + z_ij}. In double precision, tiles of 64 × 64.

// The product of one tile with the points of the other side, for own points that stay in shared memory: 64 features of them at a time,
// which are loaded again only if there are more. `fresh` says that they have not been loaded.
__device__ void products_kept(double *kept, double *columns, const double *x, const double *y, u32 m, u32 n, u32 dim, u32 first_row, u32 first_column, bool fresh,
                              double z[OWN_ROWS][OWN_COLUMNS]) {
    double next[4];
    u32 k = threadIdx.x % DEPTH, side = threadIdx.x / DEPTH;
    auto load = [&](u32 start) {
        u32 feature = start + k;
#pragma unroll
        for (int part = 0; part < 4; part++) {
            u32 column = first_column + side + 16 * part;
            next[part] = column < n && feature < dim ? y[(u64)column * dim + feature] : 0.0;
        }
    };
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
#pragma unroll
        for (int b = 0; b < OWN_COLUMNS; b++) z[a][b] = 0.0;
    }
    load(0);
    for (u32 chunk = 0; chunk < dim; chunk += SIDE) {
        if (fresh || dim > SIDE) {
            __syncthreads();
            for (u32 at = threadIdx.x; at < SIDE * SIDE; at += blockDim.x) {
                u32 row = first_row + at / SIDE, feature = chunk + at % SIDE;
                kept[at / SIDE * LONG_LINE + at % SIDE] = row < m && feature < dim ? x[(u64)row * dim + feature] : 0.0;
            }
        }
        for (u32 start = chunk; start < min(chunk + SIDE, dim); start += DEPTH) {
            __syncthreads();
#pragma unroll
            for (int part = 0; part < 4; part++) columns[(side + 16 * part) * SHORT_LINE + k] = next[part];
            __syncthreads();
            if (start + DEPTH < dim) load(start + DEPTH);
            multiply_tile<LONG_LINE, 1, SHORT_LINE, 1>(kept + (start - chunk), columns, z);
        }
    }
}

// Combines sums relative to their tops, of which some may be empty.
__device__ inline void add_powers(double &top, double &sum, double other, double more) {
    double largest = fmax(top, other);
    double mine = top == -INF64 ? 0.0 : sum * exp2(top - largest);
    double theirs = other == -INF64 ? 0.0 : more * exp2(other - largest);
    top = largest, sum = mine + theirs;
}

// The largest exponent of every row and the sum of powers relative to it, for the columns of one part of the grid.
extern "C" __global__ void __launch_bounds__(256)
    sweep_double(const double *x, const double *y, double scale, const double *offsets, u32 m, u32 n, u32 dim, double *tops, double *sums) {
    __shared__ double kept[SIDE * LONG_LINE], columns[TILE_NUMBERS];
    __shared__ double room[2 * SIDE];
    u32 first_row = blockIdx.x * SIDE, tiles = (n + SIDE - 1) / SIDE;
    u32 from = (u64)tiles * blockIdx.y / gridDim.y, to = (u64)tiles * (blockIdx.y + 1) / gridDim.y;
    double top[OWN_ROWS], sum[OWN_ROWS];
    for (int a = 0; a < OWN_ROWS; a++) top[a] = -INF64, sum[a] = 0.0;
    for (u32 at = from; at < to; at++) {
        double z[OWN_ROWS][OWN_COLUMNS];
        products_kept(kept, columns, x, y, m, n, dim, first_row, at * SIDE, at == from, z);
        double own[OWN_COLUMNS];
#pragma unroll
        for (int b = 0; b < OWN_COLUMNS; b++) {
            u32 column = at * SIDE + own_column(b);
            own[b] = column < n ? offsets[column] : -INF64;
        }
#pragma unroll
        for (int a = 0; a < OWN_ROWS; a++) {
            double largest = top[a];
#pragma unroll
            for (int b = 0; b < OWN_COLUMNS; b++) {
                z[a][b] = fma(z[a][b], scale, own[b]);
                largest = fmax(largest, z[a][b]);
            }
            if (largest == -INF64) continue;
            double scaled = sum[a] * exp2(top[a] - largest);
#pragma unroll
            for (int b = 0; b < OWN_COLUMNS; b++) scaled += exp2(z[a][b] - largest);
            top[a] = largest, sum[a] = scaled;
        }
    }
    // Four threads of a warp have parts of a row, and two warps.
    bool left = threadIdx.x / LANES % 2 == 0;
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
        for (int offset = 2; offset > 0; offset /= 2) {
            double other = __shfl_xor_sync(EVERY, top[a], offset), more = __shfl_xor_sync(EVERY, sum[a], offset);
            add_powers(top[a], sum[a], other, more);
        }
        if (!left && threadIdx.x % 4 == 0) room[own_row(a)] = top[a], room[SIDE + own_row(a)] = sum[a];
    }
    __syncthreads();
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
        u32 row = first_row + own_row(a);
        if (!left || threadIdx.x % 4 || row >= m) continue;
        add_powers(top[a], sum[a], room[own_row(a)], room[SIDE + own_row(a)]);
        tops[(u64)blockIdx.y * m + row] = top[a], sums[(u64)blockIdx.y * m + row] = sum[a];
    }
}

// Computes u_i from the parts of the grid. Without tops, the sums are relative to the shifts, and sums far from one are a
// fault.
extern "C" __global__ void join_sweep(const double *tops, const float *shifts, const double *sums, u32 m, u32 parts, double *u, u32 *fault) {
    u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    double top = tops ? -INF64 : shifts[row], sum = 0.0;
    if (tops) {
        for (u32 part = 0; part < parts; part++) top = fmax(top, tops[(u64)part * m + row]);
    }
    for (u32 part = 0; part < parts; part++) {
        double own = sums[(u64)part * m + row];
        if (!tops) sum += own;
        else if (own > 0.0) sum += own * exp2(tops[(u64)part * m + row] - top);
    }
    if (!tops && !(sum > 1e-18 && sum < 1e18)) atomicOr(fault, 1u);
    // After a fault, u is still finite, so that the iteration can continue.
    u[row] = top + (tops ? log2(sum) : fmin(fmax(log2(sum), -130.0), 130.0));
}

// Computes what the next sweep starts from: o = log₂ w − u in both precisions, u as shift, and the error of the marginals.
// `errors` has one number per block.
extern "C" __global__ void take_sweep(const double *logs, const double *weights, const double *found, double *u, u32 count, u32 padded, double *offsets,
                                      float *half_offsets, float *shifts, double *errors) {
    __shared__ double room[LANES];
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    double error = 0.0;
    if (at < count) {
        // The sum was w 2^{found − u}.
        if (weights[at] > 0.0) error = weights[at] * fabs(exp2(found[at] - u[at]) - 1.0);
        u[at] = found[at];
        offsets[at] = logs[at] - found[at];
        half_offsets[at] = (float)offsets[at];
        shifts[at] = (float)found[at];
    } else if (at < padded) {
        half_offsets[at] = -INF;
        shifts[at] = 0.0f;
    }
    error = block_sum(error, room);
    if (threadIdx.x == 0) errors[blockIdx.x] = error;
}

// Factors in half precision, hi + lo, rows and features padded with zeros.
extern "C" __global__ void halve(const double *x, u32 rows, u32 dim, u32 padded_rows, u32 padded_dim, double scale, half_bits *hi, half_bits *lo) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < (u64)padded_rows * padded_dim; at += (u64)gridDim.x * blockDim.x) {
        u32 row = at / padded_dim, feature = at % padded_dim;
        float value = row < rows && feature < dim ? (float)(x[(u64)row * dim + feature] * scale) : 0.0f, rest;
        half_bits high, low;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(value));
        asm("cvt.f32.f16 %0, %1;" : "=f"(rest) : "h"(high));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(value - rest));
        hi[at] = high, lo[at] = low;
    }
}

// out = x p − y q, for a null y x p: between potentials and levels in units of λ ln 2.
extern "C" __global__ void combine(const double *x, double p, const double *y, double q, u32 count, double *out) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) out[at] = x[at] * p - (y ? y[at] * q : 0.0);
}

// What the plan is computed from, so that its rows hold their weights up to relative rounding: the sum of a potential and a
// logarithm is rounded relative to its own size, which may be thousands. The largest exponent of every row, and the weight over
// the sum of powers relative to it.
extern "C" __global__ void keep_rows(const double *tops, const double *sums, const double *weights, u32 m, u32 parts, double *row_tops, double *factors) {
    u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    double top = -INF64, sum = 0.0;
    for (u32 part = 0; part < parts; part++) top = fmax(top, tops[(u64)part * m + row]);
    for (u32 part = 0; part < parts; part++) {
        double own = sums[(u64)part * m + row];
        if (own > 0.0) sum += own * exp2(tops[(u64)part * m + row] - top);
    }
    row_tops[row] = top;
    factors[row] = weights[row] > 0.0 ? weights[row] / sum : 0.0;
}

// Adds up the sums of columns, in place, and finds the factor that keeps each within its weight. `errors` has one number per block.
extern "C" __global__ void limit_columns(double *sums, const double *weights, u32 n, u32 parts, double *factors, double *errors) {
    __shared__ double room[LANES];
    u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    double error = 0.0;
    if (column < n) {
        double total = 0.0;
        for (u32 part = 0; part < parts; part++) total += sums[(u64)part * n + column];
        sums[column] = total;
        factors[column] = total > weights[column] ? weights[column] / total : 1.0;
        error = fabs(total - weights[column]);
    }
    error = block_sum(error, room);
    if (threadIdx.x == 0) errors[blockIdx.x] = error;
}

// A plan γ_ij = 2^{z_ij + o_j − top_i} r_i c_j, measured along rows or along columns.
struct Plan {
    // Points of the side that is measured, and of the other.
    const double *own;
    const double *other;
    double scale;
    const double *column_offsets;
    const double *row_tops;
    const double *row_factors;
    // Null for ones.
    const double *column_factors;
    // The points that γ is multiplied by, those of the other side; null if only sums are wanted.
    const double *moved;
    // Sums and Σ γ log₂ (γ / c) of every point (null if not wanted), and γ times the points.
    double *sums;
    double *entropies;
    double *spread;
    u32 count;
    u32 others;
    u32 dim;
};

// For 64 features of the moved points, those of blockIdx.z. Only blockIdx.z = 0 writes sums and entropies. Both ways along the
// plan, each mass is computed by the same operations, so that sums are those of one plan.
template <bool COLUMNS> __device__ void measure(const Plan &p) {
    // Own points, masses, and sixteen columns of the other points or of those that are moved.
    extern __shared__ double measured[];
    __shared__ double room[2 * SIDE];
    double *kept = measured, *masses = kept + SIDE * LONG_LINE, *others = masses + SIDE * LONG_LINE;
    u32 first_row = blockIdx.x * SIDE, tiles = (p.others + SIDE - 1) / SIDE, first_feature = blockIdx.z * SIDE;
    u32 from = (u64)tiles * blockIdx.y / gridDim.y, to = (u64)tiles * (blockIdx.y + 1) / gridDim.y;
    double sum[OWN_ROWS] = {0}, entropy[OWN_ROWS] = {0}, moved[OWN_ROWS][OWN_COLUMNS] = {{0}}, shift[OWN_ROWS], factor[OWN_ROWS];
    auto column_factor = [&](u32 column) { return p.column_factors ? p.column_factors[column] : 1.0; };
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
        u32 row = first_row + own_row(a);
        bool here = row < p.count;
        // Where there is no point the exponent is −∞, whatever the other side's.
        shift[a] = COLUMNS ? (here ? p.column_offsets[row] : -INF64) : (here ? p.row_tops[row] : INF64);
        factor[a] = !here ? 0.0 : COLUMNS ? column_factor(row) : p.row_factors[row];
    }
    for (u32 at = from; at < to; at++) {
        double z[OWN_ROWS][OWN_COLUMNS];
        products_kept(kept, others, p.own, p.other, p.count, p.others, p.dim, first_row, at * SIDE, at == from, z);
#pragma unroll
        for (int b = 0; b < OWN_COLUMNS; b++) {
            u32 column = at * SIDE + own_column(b);
            bool here = column < p.others;
            double other_shift = COLUMNS ? (here ? p.row_tops[column] : INF64) : (here ? p.column_offsets[column] : -INF64);
            double other_factor = !here ? 0.0 : COLUMNS ? p.row_factors[column] : column_factor(column);
#pragma unroll
            for (int a = 0; a < OWN_ROWS; a++) {
                double exponent = fma(z[a][b], p.scale, COLUMNS ? shift[a] : other_shift) - (COLUMNS ? other_shift : shift[a]);
                double of_row = COLUMNS ? other_factor : factor[a], of_column = COLUMNS ? factor[a] : other_factor;
                double mass = exponent > LEAST_EXPONENT ? exp2(exponent) * of_row * of_column : 0.0;
                sum[a] += mass;
                if (p.entropies && mass > 0.0) entropy[a] = fma(mass, exponent, entropy[a]);
                masses[own_row(a) * LONG_LINE + own_column(b)] = mass;
            }
        }
        if (!p.moved) {
            __syncthreads();
            continue;
        }
        // 64 × 64 masses times 64 × 64 numbers, sixteen columns at a time.
        for (int start = 0; start < SIDE; start += DEPTH) {
            __syncthreads();
            for (int place = threadIdx.x; place < SIDE * DEPTH; place += blockDim.x) {
                u32 k = place / SIDE, side = place % SIDE, column = at * SIDE + start + k, feature = first_feature + side;
                others[k * LONG_LINE + side] = column < p.others && feature < p.dim ? p.moved[(u64)column * p.dim + feature] : 0.0;
            }
            __syncthreads();
            multiply_tile<LONG_LINE, 1, 1, LONG_LINE>(masses + start, others, moved);
        }
        __syncthreads();
    }
    bool left = threadIdx.x / LANES % 2 == 0;
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
        for (int offset = 2; offset > 0; offset /= 2) {
            sum[a] += __shfl_xor_sync(EVERY, sum[a], offset);
            entropy[a] += __shfl_xor_sync(EVERY, entropy[a], offset);
        }
        if (!left && threadIdx.x % 4 == 0) room[own_row(a)] = sum[a], room[SIDE + own_row(a)] = entropy[a];
    }
    __syncthreads();
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
        u32 row = first_row + own_row(a);
        if (row >= p.count) continue;
        u64 place = (u64)blockIdx.y * p.count + row;
        if (left && threadIdx.x % 4 == 0 && blockIdx.z == 0) {
            double whole = sum[a] + room[own_row(a)];
            p.sums[place] = whole;
            if (p.entropies) p.entropies[place] = entropy[a] + room[SIDE + own_row(a)] + (whole > 0.0 ? whole * log2(factor[a]) : 0.0);
        }
        if (!p.moved) continue;
        for (int b = 0; b < OWN_COLUMNS; b++) {
            u32 feature = first_feature + own_column(b);
            if (feature < p.dim) p.spread[place * p.dim + feature] = moved[a][b];
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) measure_rows(Plan plan) { measure<false>(plan); }

extern "C" __global__ void __launch_bounds__(256, 2) measure_columns(Plan plan) { measure<true>(plan); }

// Adds up the parts of the grid into the first.
extern "C" __global__ void join_parts(double *numbers, u64 count, u32 parts) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        double sum = numbers[at];
        for (u32 part = 1; part < parts; part++) sum += numbers[part * count + at];
        numbers[at] = sum;
    }
}
