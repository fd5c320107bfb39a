// Entropic transport in base-2 logarithms: γ_ij = 2^{o_i + o_j + z_ij} with o_i = log₂ a_i − u_i, o_j = log₂ b_j − v_j
// and z = 2 S M Tᵀ / (λ ln 2). A sweep over the rows computes u_i = log₂ Σ_j 2^{o_j + z_ij}. In double precision, tiles
// of 64 × 64.

// The largest exponent of every row and the sum of powers relative to it, for the columns of one part of the grid.
extern "C" __global__ void __launch_bounds__(256)
    sweep_double(const double *x, const double *y, const double *offsets, u32 m, u32 n, u32 dim, double *tops, double *sums) {
    __shared__ Line lines[2 * DEPTH];
    Tile tile = {lines, lines + DEPTH};
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    u32 first_row = blockIdx.x * SIDE, tiles = (n + SIDE - 1) / SIDE;
    u32 from = (u64)tiles * blockIdx.y / gridDim.y, to = (u64)tiles * (blockIdx.y + 1) / gridDim.y;
    double top[4], sum[4];
    for (int a = 0; a < 4; a++) top[a] = -INF64, sum[a] = 0.0;
    for (u32 at = from; at < to; at++) {
        double z[4][4];
        products(tile, x, y, m, n, dim, first_row, at * SIDE, z);
        double own[4];
#pragma unroll
        for (int b = 0; b < 4; b++) {
            u32 column = at * SIDE + tx + 16 * b;
            own[b] = column < n ? offsets[column] : -INF64;
        }
#pragma unroll
        for (int a = 0; a < 4; a++) {
            double largest = top[a];
#pragma unroll
            for (int b = 0; b < 4; b++) {
                z[a][b] += own[b];
                largest = fmax(largest, z[a][b]);
            }
            if (largest == -INF64) continue;
            double scaled = sum[a] * exp2(top[a] - largest);
#pragma unroll
            for (int b = 0; b < 4; b++) scaled += exp2(z[a][b] - largest);
            top[a] = largest, sum[a] = scaled;
        }
    }
#pragma unroll
    for (int a = 0; a < 4; a++) {
        // Combines the sixteen threads of a row.
        for (int offset = 8; offset > 0; offset /= 2) {
            double other = __shfl_xor_sync(EVERY, top[a], offset), more = __shfl_xor_sync(EVERY, sum[a], offset);
            double largest = fmax(top[a], other);
            double mine = top[a] == -INF64 ? 0.0 : sum[a] * exp2(top[a] - largest);
            double theirs = other == -INF64 ? 0.0 : more * exp2(other - largest);
            top[a] = largest, sum[a] = mine + theirs;
        }
        u32 row = first_row + ty + 16 * a;
        if (tx == 0 && row < m) tops[(u64)blockIdx.y * m + row] = top[a], sums[(u64)blockIdx.y * m + row] = sum[a];
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

// Measures the plan 2^{o_i + o_j + z_ij}, with o_j already scaled down to the column marginals: row sums, Σ γ ln γ of
// every row, and γT for 64 features of T, those of blockIdx.z. Only blockIdx.z = 0 writes sums and entropies.
extern "C" __global__ void __launch_bounds__(256) measure_plan(const double *x, const double *y, const double *t, const double *row_offsets, const double *column_offsets,
                                                               u32 m, u32 n, u32 dim, double *row_sums, double *entropies, double *spread) {
    // Masses overwrite the rows that they were computed from.
    __shared__ Line lines[SIDE + DEPTH];
    Line *masses = lines;
    Tile tile = {lines, lines + SIDE};
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    u32 first_row = blockIdx.x * SIDE, tiles = (n + SIDE - 1) / SIDE, first_feature = blockIdx.z * SIDE;
    u32 from = (u64)tiles * blockIdx.y / gridDim.y, to = (u64)tiles * (blockIdx.y + 1) / gridDim.y;
    double sum[4] = {0}, entropy[4] = {0}, moved[4][4], own[4];
#pragma unroll
    for (int a = 0; a < 4; a++) {
        u32 row = first_row + ty + 16 * a;
        own[a] = row < m ? row_offsets[row] : -INF64;
        for (int b = 0; b < 4; b++) moved[a][b] = 0.0;
    }
    for (u32 at = from; at < to; at++) {
        double z[4][4];
        products(tile, x, y, m, n, dim, first_row, at * SIDE, z);
        __syncthreads();
#pragma unroll
        for (int b = 0; b < 4; b++) {
            u32 column = at * SIDE + tx + 16 * b;
            double other = column < n ? column_offsets[column] : -INF64;
#pragma unroll
            for (int a = 0; a < 4; a++) {
                double exponent = z[a][b] + own[a] + other;
                double mass = exponent > LEAST_EXPONENT ? exp2(exponent) : 0.0;
                sum[a] += mass;
                if (mass > 0.0) entropy[a] = fma(mass, exponent, entropy[a]);
                masses[ty + 16 * a][tx + 16 * b] = mass;
            }
        }
        // 64 × 64 masses times the 64 × 64 numbers of T, sixteen columns at a time.
        for (int start = 0; start < SIDE; start += DEPTH) {
            __syncthreads();
            for (int place = threadIdx.x; place < SIDE * DEPTH; place += blockDim.x) {
                u32 k = place / SIDE, side = place % SIDE, column = at * SIDE + start + k, feature = first_feature + side;
                tile.columns[k][side] = column < n && feature < dim ? t[(u64)column * dim + feature] : 0.0;
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                double rows[4], columns[4];
#pragma unroll
                for (int a = 0; a < 4; a++) {
                    rows[a] = masses[ty + 16 * a][start + k];
                    columns[a] = tile.columns[k][tx + 16 * a];
                }
#pragma unroll
                for (int a = 0; a < 4; a++) {
#pragma unroll
                    for (int b = 0; b < 4; b++) moved[a][b] = fma(rows[a], columns[b], moved[a][b]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int a = 0; a < 4; a++) {
        for (int offset = 8; offset > 0; offset /= 2) {
            sum[a] += __shfl_xor_sync(EVERY, sum[a], offset);
            entropy[a] += __shfl_xor_sync(EVERY, entropy[a], offset);
        }
        u32 row = first_row + ty + 16 * a;
        if (row >= m) continue;
        if (tx == 0 && blockIdx.z == 0) row_sums[(u64)blockIdx.y * m + row] = sum[a], entropies[(u64)blockIdx.y * m + row] = entropy[a];
        for (int b = 0; b < 4; b++) {
            u32 feature = first_feature + tx + 16 * b;
            if (feature < dim) spread[((u64)blockIdx.y * m + row) * dim + feature] = moved[a][b];
        }
    }
}

// Adds up the parts of the grid into the first.
extern "C" __global__ void join_parts(double *numbers, u64 count, u32 parts) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        double sum = numbers[at];
        for (u32 part = 1; part < parts; part++) sum += numbers[part * count + at];
        numbers[at] = sum;
    }
}
