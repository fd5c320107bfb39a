// Two clouds of points that stay on the device: laid out and centered, their moments, the metric applied to them, the numbers that
// bounds need of a plan, and gradients. Points have `dim` numbers, slots × `size`; see grouping.rs.

#define COMPLETE_THREADS 1024

// Copies points to their places by groups, in double precision. `out` is zero where there is no feature.
extern "C" __global__ void lay_out(const void *from, u32 single, const u32 *positions, u32 count, u32 features, u32 dim, double *out) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < (u64)count * features; at += (u64)gridDim.x * blockDim.x) {
        u64 point = at / features;
        out[point * dim + positions[at % features]] = single ? (double)((const float *)from)[at] : ((const double *)from)[at];
    }
}

// Σ w_i x_i over this block's part of the points. Every block has its own line of `out`.
extern "C" __global__ void sum_points(const double *points, const double *weights, u32 count, u32 dim, double *out) {
    u32 from = (u64)count * blockIdx.x / gridDim.x, to = (u64)count * (blockIdx.x + 1) / gridDim.x;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        double sum = 0.0;
        for (u32 point = from; point < to; point++) sum = fma(weights[point], points[(u64)point * dim + at], sum);
        out[(u64)blockIdx.x * dim + at] = sum;
    }
}

// Subtracts the point halfway between two means.
extern "C" __global__ void center_points(double *points, const double *mean, const double *other, u32 count, u32 dim) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < (u64)count * dim; at += (u64)gridDim.x * blockDim.x) {
        points[at] -= 0.5 * (mean[at % dim] + other[at % dim]);
    }
}

// ‖x‖ of every point, one warp each.
extern "C" __global__ void point_lengths(const double *points, u32 count, u32 dim, double *lengths) {
    u32 point = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (point >= count) return;
    double sum = 0.0;
    for (u32 at = threadIdx.x % LANES; at < dim; at += LANES) sum = fma(points[(u64)point * dim + at], points[(u64)point * dim + at], sum);
    sum = warp_sum(sum);
    if (threadIdx.x % LANES == 0) lengths[point] = sqrt(sum);
}

// Σ w p_a q_b over the slots of this block's part of the points: 64 × 64 pairs of groups, those of blockIdx.y. Every part has its own
// matrix in `out`. Without weights they are one.
extern "C" __global__ void __launch_bounds__(256) sum_moments(const double *p, const double *weights, const double *q, u64 lines, u32 slots, u32 size, double *out) {
    __shared__ double rows[DEPTH * LONG_LINE], columns[DEPTH * LONG_LINE];
    u32 across = (size + SIDE - 1) / SIDE, first_row = blockIdx.y / across * SIDE, first_column = blockIdx.y % across * SIDE;
    u64 from = lines * blockIdx.x / gridDim.x, to = lines * (blockIdx.x + 1) / gridDim.x;
    double own[OWN_ROWS][OWN_COLUMNS] = {{0}};
    for (u64 start = from; start < to; start += DEPTH) {
        __syncthreads();
        for (int at = threadIdx.x; at < SIDE * DEPTH; at += blockDim.x) {
            u32 k = at / SIDE, side = at % SIDE, row = first_row + side, column = first_column + side;
            u64 line = start + k;
            double weight = line >= to ? 0.0 : weights ? weights[line / slots] : 1.0;
            rows[k * LONG_LINE + side] = line < to && row < size ? weight * p[line * size + row] : 0.0;
            columns[k * LONG_LINE + side] = line < to && column < size ? q[line * size + column] : 0.0;
        }
        __syncthreads();
        multiply_tile<1, LONG_LINE, 1, LONG_LINE>(rows, columns, own);
    }
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
#pragma unroll
        for (int b = 0; b < OWN_COLUMNS; b++) {
            u32 row = first_row + own_row(a), column = first_column + own_column(b);
            if (row < size && column < size) out[((u64)blockIdx.x * size + row) * size + column] = own[a][b];
        }
    }
}

// Every point times the metric, and its squared length under the metric, one warp each. `moved` may be null.
extern "C" __global__ void move_points(const double *points, const double *metric, u32 count, u32 dim, u32 size, double *moved, double *norms) {
    u32 p = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (p >= count) return;
    const double *point = points + (u64)p * dim;
    double norm = 0.0;
    for (u32 at = threadIdx.x % LANES; at < dim; at += LANES) {
        const double *slot = point + at / size * size;
        double sum = 0.0;
        for (u32 k = 0; k < size; k++) sum = fma(slot[k], metric[(u64)k * size + at % size], sum);
        if (moved) moved[(u64)p * dim + at] = sum;
        norm = fma(sum, point[at], norm);
    }
    norm = warp_sum(norm);
    if (threadIdx.x % LANES == 0) norms[p] = norm;
}

// The largest absolute number, as the bits of a double; NaN is larger than all. `top` must be zero.
extern "C" __global__ void largest_number(const double *numbers, u64 count, u64 *top) {
    __shared__ double room[LANES];
    double largest = 0.0;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (u64)gridDim.x * blockDim.x) {
        double x = fabs(numbers[at]);
        largest = (largest != largest || largest >= x) ? largest : x;
    }
    largest = block_max(largest, room);
    if (threadIdx.x == 0) atomicMax((unsigned long long *)top, (unsigned long long)__double_as_longlong(largest));
}

// A measured plan.
struct Measured {
    const double *source_weights;
    const double *target_weights;
    const double *row_sums;
    const double *column_totals;
    const double *column_factors;
    // Σ γ log₂ (γ / c) of the rows, c being the factors of the columns.
    const double *entropies;
    // s_iᵀ M s_i, t_jᵀ M t_j, and the potentials in units of λ ln 2.
    const double *alpha;
    const double *beta;
    const double *u;
    const double *v;
    const double *source_lengths;
    const double *target_lengths;
    // What rows lack, and the shares of it that columns take.
    double *lacks;
    double *shares;
    double *results;
    double lambda;
    u32 m;
    u32 n;
};

// The parts of `results`.
enum { ERROR, ENTROPY, SOURCE_DUAL, TARGET_DUAL, SIZE, UNPLACED, LACKING };

__device__ inline double power(double x) { return x > 0.0 ? x * log(x) : 0.0; }

// Completes a plan to its marginals: what rows lack goes to columns that lack it. Bounds Σ γ ln γ of the sum by convexity:
// Ω(A + B) ≤ Ω(A) − (1−δ) ln(1−δ) + Ω(B) − δ ln δ with the mass δ of B.
extern "C" __global__ void __launch_bounds__(COMPLETE_THREADS) complete_plan(Measured p) {
    __shared__ double room[LANES];
    double unit = p.lambda * 0.69314718055994530942;
    double error = 0.0, missing = 0.0, of_factors = 0.0, dual = 0.0, size = 0.0, top = 0.0, length = 0.0;
    for (u32 j = threadIdx.x; j < p.n; j += blockDim.x) {
        double b = p.target_weights[j], total = p.column_totals[j], lack = fmax(b - total * p.column_factors[j], 0.0);
        error += fabs(total - b);
        of_factors += total * p.column_factors[j] * log2(p.column_factors[j]);
        p.shares[j] = lack;
        missing += lack;
        length = fma(lack, p.target_lengths[j], length);
        top = fmax(top, p.target_lengths[j]);
        if (b > 0.0) {
            double g = p.beta[j] - unit * p.v[j] + p.lambda * log(b);
            dual = fma(b, g, dual), size = fma(b, fabs(g), size);
        }
    }
    error = block_sum(error, room), missing = block_sum(missing, room);
    double of_columns = block_sum(length, room), longest_target = block_max(top, room), target_dual = block_sum(dual, room);
    double lacking = 0.0, entropy = 0.0, powers = 0.0;
    top = 0.0, length = 0.0, dual = 0.0;
    for (u32 i = threadIdx.x; i < p.m; i += blockDim.x) {
        double a = p.source_weights[i], lack = fmax(a - p.row_sums[i], 0.0);
        lacking += lack;
        length = fma(lack, p.source_lengths[i], length);
        top = fmax(top, p.source_lengths[i]);
        p.lacks[i] = missing > 0.0 ? lack : 0.0;
        entropy += p.entropies[i];
        powers += power(lack);
        if (a > 0.0) {
            double f = p.alpha[i] - unit * p.u[i] + p.lambda * log(a);
            dual = fma(a, f, dual), size = fma(a, fabs(f), size);
        }
    }
    lacking = block_sum(lacking, room), entropy = block_sum(entropy + of_factors, room) * 0.69314718055994530942, powers = block_sum(powers, room);
    double of_rows = block_sum(length, room), longest_source = block_max(top, room), source_dual = block_sum(dual, room);
    size = block_sum(size, room);
    double of_shares = 0.0;
    for (u32 j = threadIdx.x; j < p.n; j += blockDim.x) {
        double share = missing > 0.0 ? p.shares[j] / missing : 0.0;
        p.shares[j] = share;
        of_shares += power(share);
    }
    of_shares = block_sum(of_shares, room);
    if (threadIdx.x) return;
    bool completed = missing > 0.0 && lacking > 0.0;
    if (completed) entropy += powers + lacking * of_shares - power(lacking) - power(1.0 - lacking);
    p.results[ERROR] = error;
    p.results[ENTROPY] = entropy;
    p.results[SOURCE_DUAL] = source_dual;
    p.results[TARGET_DUAL] = target_dual;
    p.results[SIZE] = size;
    // As in unplaced_moment() of pairs.cu: rows and columns lack the same mass but for rounding.
    p.results[UNPLACED] = missing > 0.0 ? 2.0 * of_columns / missing * fabs(lacking - missing) * longest_source : 2.0 * of_rows * longest_target;
    p.results[LACKING] = completed ? lacking : 0.0;
}

// moves += weight (w_i x_i − spread_i − e_i q): what the plan moves every point by, if `spread` is the plan times the other points
// and e qᵀ what completes it.
extern "C" __global__ void add_moves(const double *points, const double *weights, const double *spread, const double *lacks, const double *q, double weight, u32 count,
                                     u32 dim, double *moves) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < (u64)count * dim; at += (u64)gridDim.x * blockDim.x) {
        u64 point = at / dim;
        moves[at] += weight * (weights[point] * points[at] - spread[at] - lacks[point] * q[at % dim]);
    }
}

// The gradient in the points: twice the moves times the metric, at the place of each feature.
extern "C" __global__ void point_slopes(const double *moves, const double *metric, const u32 *positions, u32 single, u32 count, u32 features, u32 dim, u32 size,
                                        void *out) {
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < (u64)count * features; at += (u64)gridDim.x * blockDim.x) {
        u64 point = at / features;
        u32 position = positions[at % features];
        const double *slot = moves + point * dim + position / size * size;
        double sum = 0.0;
        for (u32 k = 0; k < size; k++) sum = fma(slot[k], metric[(u64)k * size + position % size], sum);
        if (single) ((float *)out)[at] = (float)(2.0 * sum);
        else ((double *)out)[at] = 2.0 * sum;
    }
}

// The gradient in the weights as they were given: potentials less their mean, over the mass.
extern "C" __global__ void weight_slopes(const double *norms, const double *level, const double *weights, double lambda, double mean, double mass, u32 single, u32 count,
                                         void *out) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    // Without weight the slope is −∞.
    double potential = norms[at] - lambda * 0.69314718055994530942 * level[at] + lambda * log(weights[at]);
    double slope = (potential - mean) / mass;
    if (single) ((float *)out)[at] = (float)slope;
    else ((double *)out)[at] = slope;
}
