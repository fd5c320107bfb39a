// Many small entropic problems between measures of one corpus, one block each, in double precision throughout. In base-2
// logarithms as in sweep.cu: γ_ij = 2^{o_i + o_j + z_ij}.

// Sums of powers outside this range were shifted too far to be accurate.
#define SMALL_SUM 1e-100
#define LARGE_SUM 1e100
// Sums in single precision below this, and corrections of potentials above that, leave its range.
#define SMALL_SINGLE 1e-30f
#define LARGEST_CORRECTION 60.0f
// The most times that potentials leave the range of single precision before double precision goes on alone.
#define MOST_ROUNDS 10
// The least marginal error that single precision is trusted with.
#define SINGLE_TOLERANCE 4e-6
// An error must shrink by this factor to count as progress; after so many sweeps without any it is at its floor.
#define PROGRESS 0.95
#define PATIENCE 20

// Measures stored one after the other: measure k has the points starts[k]..starts[k + 1], `dim` numbers each.
struct Corpus {
    const double *points;
    const u32 *starts;
    const double *weights;
    // ‖x‖ of every point.
    const double *lengths;
    u32 dim;
    u32 size;
};

struct Tasks {
    const u32 *slots;
    const u32 *first;
    const u32 *second;
    // size² numbers per task.
    const double *metrics;
    const double *tolerances;
    u32 count;
};

// What the host computes bounds from.
struct Found {
    // Σ γ_ij s_iᵀ t_j over slots, size² numbers per task.
    double *crosses;
    double *entropies;
    double *duals;
    // Σ a|f| + Σ b|g|, the scale of the rounding error of the dual.
    double *sizes;
    // A bound on what the plan lacks in the moment, see unplaced_moment().
    double *unplaced;
};

// log₂ Σ_j 2^{z_ij + o_j} for every row, one warp each.
__device__ void sweep_rows(const double *z, const double *offsets, double *u, u32 m, u32 n) {
    int lane = threadIdx.x % LANES;
    for (u32 i = threadIdx.x / LANES; i < m; i += blockDim.x / LANES) {
        const double *row = z + (u64)i * n;
        double top = -INF64, sum = 0.0;
        for (u32 j = lane; j < n; j += LANES) top = fmax(top, row[j] + offsets[j]);
        top = warp_max(top);
        for (u32 j = lane; j < n; j += LANES) sum += exp2(row[j] + offsets[j] - top);
        sum = warp_sum(sum);
        if (lane == 0) u[i] = top + log2(sum);
    }
    __syncthreads();
}

// log₂ Σ_i 2^{z_ij + o_i} for every column, with powers relative to `shifts`, or to the largest if these are too far off.
// Warps alternate over rows and lanes over columns; `room` has one line of lanes per warp.
__device__ void sweep_columns(const double *z, const double *offsets, const double *shifts, double *v, u32 m, u32 n, double room[][LANES]) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    for (u32 first = 0; first < n; first += LANES) {
        u32 j = first + lane;
        bool here = j < n;
        double shift = here ? shifts[j] : 0.0, total = 0.0;
        for (int attempt = 0; attempt < 2; attempt++) {
            double sum = 0.0;
            if (here) {
                for (u32 i = warp; i < m; i += warps) sum += exp2(z[(u64)i * n + j] + offsets[i] - shift);
            }
            room[warp][lane] = sum;
            __syncthreads();
            total = 0.0;
            for (int w = 0; w < warps; w++) total += room[w][lane];
            bool good = !here || (total > SMALL_SUM && total < LARGE_SUM);
            // Every warp gets the same answer, so all threads reach the barriers.
            if (__syncthreads_and(good)) break;
            double top = -INF64;
            if (here) {
                for (u32 i = warp; i < m; i += warps) top = fmax(top, z[(u64)i * n + j] + offsets[i]);
            }
            room[warp][lane] = top;
            __syncthreads();
            for (int w = 0; w < warps; w++) top = fmax(top, room[w][lane]);
            __syncthreads();
            shift = top;
        }
        if (here && warp == 0) v[j] = shift + log2(total);
    }
    __syncthreads();
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Turns z into the exponents o_i + o_j + z_ij of the current plan, in single precision and in the same place: those of masses that
// count are small numbers, which are rounded little.
__device__ float *round_exponents(double *z, const double *row_offsets, const double *column_offsets, u32 m, u32 n) {
    float *exponents = (float *)z;
    for (u32 start = 0; start < m * n; start += blockDim.x) {
        u32 at = start + threadIdx.x;
        double exponent = at < m * n ? z[at] + row_offsets[at / n] + column_offsets[at % n] : 0.0;
        // Numbers are written to where some have been read.
        __syncthreads();
        if (at < m * n) exponents[at] = (float)exponent;
    }
    __syncthreads();
    return exponents;
}

// Sets the correction for a weight and a sum, unless that leaves the range of single precision; returns whether the next may follow.
__device__ inline bool correct(float *correction, double weight, double sum) {
    if (!(sum > SMALL_SINGLE)) return false;
    float found = log2f((float)(weight / sum));
    if (!(fabsf(found) < 2.0f * LARGEST_CORRECTION)) return false;
    *correction = found;
    return fabsf(found) < LARGEST_CORRECTION;
}

// Sinkhorn's iteration in single precision, for corrections to both potentials: γ_ij = 2^{e_ij + r_i + c_j}. Ends at the tolerance or
// at the floor of its rounding, or with `true` where corrections leave the range; adds the number of sweeps.
__device__ bool sweep_single(const float *exponents, const double *a, const double *b, float *rows, float *columns, u32 m, u32 n, double tolerance, u32 most,
                             double column_room[][LANES], double *room, u32 &swept) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    for (u32 i = threadIdx.x; i < m; i += blockDim.x) rows[i] = 0.0f;
    for (u32 j = threadIdx.x; j < n; j += blockDim.x) columns[j] = 0.0f;
    double best = INF64;
    u32 best_at = swept;
    __syncthreads();
    while (swept < most) {
        swept++;
        double error = 0.0;
        bool good = true;
        for (u32 first = 0; first < n; first += LANES) {
            u32 j = first + lane;
            float sum = 0.0f;
            if (j < n) {
                for (u32 i = warp; i < m; i += warps) sum += exp2_fast(exponents[(u64)i * n + j] + rows[i]);
            }
            column_room[warp][lane] = sum;
            __syncthreads();
            if (warp == 0 && j < n && b[j] > 0.0) {
                double total = 0.0;
                for (int w = 0; w < warps; w++) total += column_room[w][lane];
                error += fabs(total * exp2_fast(columns[j]) - b[j]);
                good = good && correct(columns + j, b[j], total);
            }
            __syncthreads();
        }
        for (u32 i = warp; i < m; i += warps) {
            float sum = 0.0f;
            for (u32 j = lane; j < n; j += LANES) sum += exp2_fast(exponents[(u64)i * n + j] + columns[j]);
            sum = warp_sum(sum);
            if (lane == 0 && a[i] > 0.0) {
                good = good && correct(rows + i, a[i], sum);
            }
        }
        error = block_sum(error, room);
        if (!__syncthreads_and(good)) return true;
        if (error < PROGRESS * best) best = error, best_at = swept;
        if (error <= tolerance || swept >= best_at + PATIENCE) break;
    }
    __syncthreads();
    return false;
}

// z becomes the plan 2^{o_i + o_j + z_ij}, with rows that hold more than a_i scaled down, one warp per row.
__device__ void fill_plan(double *z, const double *row_offsets, const double *column_offsets, const double *a, u32 m, u32 n) {
    int lane = threadIdx.x % LANES;
    for (u32 i = threadIdx.x / LANES; i < m; i += blockDim.x / LANES) {
        double *row = z + (u64)i * n, sum = 0.0;
        for (u32 j = lane; j < n; j += LANES) {
            double exponent = row[j] + row_offsets[i] + column_offsets[j];
            row[j] = exponent > LEAST_EXPONENT ? exp2(exponent) : 0.0;
            sum += row[j];
        }
        sum = warp_sum(sum);
        if (sum > a[i]) {
            double factor = a[i] / sum;
            for (u32 j = lane; j < n; j += LANES) row[j] *= factor;
        }
    }
    __syncthreads();
}

// What every column of the plan must be multiplied by so as to hold at most b_j, and what it then lacks; returns the calling
// thread's part of all that is lacking.
__device__ double column_factors(const double *plan, const double *b, double *factors, double *lacks, u32 m, u32 n, double room[][LANES]) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    double missing = 0.0;
    for (u32 first = 0; first < n; first += LANES) {
        u32 j = first + lane;
        double sum = 0.0;
        if (j < n) {
            for (u32 i = warp; i < m; i += warps) sum += plan[(u64)i * n + j];
        }
        room[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && j < n) {
            double total = 0.0;
            for (int w = 0; w < warps; w++) total += room[w][lane];
            factors[j] = total > b[j] ? b[j] / total : 1.0;
            lacks[j] = fmax(b[j] - total * factors[j], 0.0);
            missing += lacks[j];
        }
        __syncthreads();
    }
    return missing;
}

__device__ double longest(const double *lengths, u32 count, double *room) {
    double top = 0.0;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) top = fmax(top, lengths[at]);
    return block_max(top, room);
}

__device__ double weighted_length(const double *weights, const double *lengths, u32 count, double *room) {
    double sum = 0.0;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) sum += weights[at] * lengths[at];
    return block_sum(sum, room);
}

// 2 (Σ ρ_i ‖s_i‖ max ‖t_j‖ + Σ σ_j ‖t_j‖ max ‖s_i‖) for a plan whose rows lack ρ and columns σ. Rows and columns lack the same
// mass but for rounding, which is absolute: for points of little weight it may be much. Rows share what columns lack, so columns
// are off in proportion to that; if columns lack nothing, rows get nothing.
__device__ double unplaced_moment(const double *row_lacks, const double *column_lacks, const double *s_lengths, const double *t_lengths, double missing, u32 m,
                                  u32 n, double *room) {
    if (missing <= 0.0) return 2.0 * weighted_length(row_lacks, s_lengths, m, room) * longest(t_lengths, n, room);
    double of_rows = 0.0;
    for (u32 i = threadIdx.x; i < m; i += blockDim.x) of_rows += row_lacks[i];
    double share = fabs(block_sum(of_rows, room) - missing) / missing;
    return 2.0 * share * weighted_length(column_lacks, t_lengths, n, room) * longest(s_lengths, m, room);
}

// All of z = X Yᵀ.
__device__ void fill_products(Tile tile, const double *x, const double *y, u32 m, u32 n, u32 dim, double *z) {
    for (u32 first_row = 0; first_row < m; first_row += SIDE) {
        for (u32 first_column = 0; first_column < n; first_column += SIDE) {
            double own[OWN_ROWS][OWN_COLUMNS];
            products(tile, x, y, m, n, dim, first_row, first_column, own);
#pragma unroll
            for (int a = 0; a < OWN_ROWS; a++) {
#pragma unroll
                for (int b = 0; b < OWN_COLUMNS; b++) {
                    u32 i = first_row + own_row(a), j = first_column + own_column(b);
                    if (i < m && j < n) z[(u64)i * n + j] = own[a][b];
                }
            }
        }
    }
    __syncthreads();
}

// out = P T, m × dim.
__device__ void fill_spread(Tile tile, const double *plan, const double *t, u32 m, u32 n, u32 dim, double *out) {
    for (u32 first_row = 0; first_row < m; first_row += SIDE) {
        for (u32 first_feature = 0; first_feature < dim; first_feature += SIDE) {
            double own[OWN_ROWS][OWN_COLUMNS] = {{0}};
            for (u32 start = 0; start < n; start += DEPTH) {
                __syncthreads();
                for (int at = threadIdx.x; at < SIDE * DEPTH; at += blockDim.x) {
                    u32 k = at % DEPTH, i = first_row + at / DEPTH;
                    tile.rows[at / DEPTH * SHORT_LINE + k] = i < m && start + k < n ? plan[(u64)i * n + start + k] : 0.0;
                    u32 deep = at / SIDE, feature = first_feature + at % SIDE;
                    tile.columns[deep * LONG_LINE + at % SIDE] = start + deep < n && feature < dim ? t[(u64)(start + deep) * dim + feature] : 0.0;
                }
                __syncthreads();
                multiply_tile<SHORT_LINE, 1, 1, LONG_LINE>(tile.rows, tile.columns, own);
            }
#pragma unroll
            for (int a = 0; a < OWN_ROWS; a++) {
#pragma unroll
                for (int b = 0; b < OWN_COLUMNS; b++) {
                    u32 i = first_row + own_row(a), feature = first_feature + own_column(b);
                    if (i < m && feature < dim) out[(u64)i * dim + feature] = own[a][b];
                }
            }
        }
    }
    __syncthreads();
}

// Every point's squared length under the metric, one warp each.
__device__ void squared_lengths(const double *points, const double *metric, u32 count, u32 dim, u32 size, double *out) {
    int lane = threadIdx.x % LANES;
    for (u32 p = threadIdx.x / LANES; p < count; p += blockDim.x / LANES) {
        const double *point = points + (u64)p * dim;
        double sum = 0.0;
        for (u32 at = lane; at < dim; at += LANES) {
            const double *slot = point + at / size * size;
            double moved = 0.0;
            for (u32 k = 0; k < size; k++) moved += slot[k] * metric[k * size + at % size];
            sum += moved * point[at];
        }
        sum = warp_sum(sum);
        if (lane == 0) out[p] = sum;
    }
}

// What shared memory holds: nothing, the vectors with one number per point, or these and z.
#define SHARED_VECTORS 1
#define SHARED_ALL 2
#define VECTORS 9

// `potentials` keeps g of every slot, `most_points` numbers each, for the next call; `scratch` has space for two sets of
// points per block, and for what is not in shared memory.
extern "C" __global__ void __launch_bounds__(256) solve_pairs(Corpus corpus, Tasks tasks, Found found, double lambda, int fresh, u32 most_sweeps, u32 most_points,
                                                              int in_shared, double *potentials, double *scratch) {
    extern __shared__ double dynamic[];
    __shared__ double lines[2 * TILE_NUMBERS];
    __shared__ double column_room[8][LANES];
    __shared__ double room[LANES];
    Tile tile = {lines, lines + TILE_NUMBERS};
    u32 dim = corpus.dim, size = corpus.size, square = size * size, tid = threadIdx.x;
    double unit = lambda * 0.69314718055994530942;
    u64 wide = (u64)most_points * dim, whole = (u64)most_points * most_points;
    double *moved = scratch + blockIdx.x * (2 * wide + (in_shared == SHARED_ALL ? 0 : whole) + (in_shared ? 0 : VECTORS * (u64)most_points));
    double *spread = moved + wide, *rest = spread + wide;
    double *z = in_shared == SHARED_ALL ? dynamic + VECTORS * (u64)most_points : rest;
    double *a = in_shared ? dynamic : rest + whole, *b = a + most_points, *row_offsets = b + most_points, *column_offsets = row_offsets + most_points,
           *u = column_offsets + most_points, *v = u + most_points, *next = v + most_points, *alpha = next + most_points, *beta = alpha + most_points;
    for (u32 task = blockIdx.x; task < tasks.count; task += gridDim.x) {
        u32 first = corpus.starts[tasks.first[task]], second = corpus.starts[tasks.second[task]];
        u32 m = corpus.starts[tasks.first[task] + 1] - first, n = corpus.starts[tasks.second[task] + 1] - second;
        const double *s = corpus.points + (u64)first * dim, *t = corpus.points + (u64)second * dim, *metric = tasks.metrics + (u64)task * square;
        double *kept = potentials + (u64)tasks.slots[task] * most_points;
        for (u32 at = tid; at < m * dim; at += blockDim.x) {
            const double *slot = s + at / size * size;
            double sum = 0.0;
            for (u32 k = 0; k < size; k++) sum += slot[k] * metric[k * size + at % size];
            moved[at] = 2.0 / unit * sum;
        }
        squared_lengths(s, metric, m, dim, size, alpha);
        squared_lengths(t, metric, n, dim, size, beta);
        __syncthreads();
        for (u32 i = tid; i < m; i += blockDim.x) a[i] = corpus.weights[first + i];
        for (u32 j = tid; j < n; j += blockDim.x) {
            b[j] = corpus.weights[second + j];
            v[j] = (beta[j] - (fresh ? 0.0 : kept[j])) / unit;
            column_offsets[j] = log2(b[j]) - v[j];
        }
        __syncthreads();
        fill_products(tile, moved, t, m, n, dim, z);
        double tolerance = tasks.tolerances[task];
        bool same = first == second;
        u32 swept = 0;
        // Most sweeps are in single precision, around potentials in double precision. Those that measure the error follow.
        bool again = !same;
        for (int round = 0; again && round < MOST_ROUNDS && swept < most_sweeps; round++) {
            for (int half = 0; half < 2; half++) {
                sweep_rows(z, column_offsets, u, m, n);
                for (u32 i = tid; i < m; i += blockDim.x) row_offsets[i] = log2(a[i]) - u[i];
                __syncthreads();
                if (half) break;
                sweep_columns(z, row_offsets, v, next, m, n, column_room);
                for (u32 j = tid; j < n; j += blockDim.x) {
                    v[j] = next[j];
                    column_offsets[j] = log2(b[j]) - v[j];
                }
                __syncthreads();
            }
            float *corrections = (float *)next;
            const float *exponents = round_exponents(z, row_offsets, column_offsets, m, n);
            again = sweep_single(exponents, a, b, (float *)u, corrections, m, n, fmax(tolerance, SINGLE_TOLERANCE), most_sweeps, column_room, room, swept);
            for (u32 j = tid; j < n; j += blockDim.x) {
                v[j] -= corrections[j];
                column_offsets[j] = log2(b[j]) - v[j];
            }
            __syncthreads();
            fill_products(tile, moved, t, m, n, dim, z);
        }
        for (u32 sweep = swept;; sweep++) {
            sweep_rows(z, column_offsets, u, m, n);
            for (u32 i = tid; i < m; i += blockDim.x) row_offsets[i] = log2(a[i]) - u[i];
            __syncthreads();
            sweep_columns(z, row_offsets, v, next, m, n, column_room);
            double error = 0.0;
            for (u32 j = tid; j < n; j += blockDim.x) {
                if (b[j] > 0.0) error += b[j] * fabs(exp2(next[j] - v[j]) - 1.0);
            }
            error = block_sum(error, room);
            if (error <= tolerance || sweep >= most_sweeps) break;
            for (u32 j = tid; j < n; j += blockDim.x) {
                // Between a measure and itself u and v are the same, and their mean halves the error even if the plan is
                // nearly diagonal.
                v[j] = same ? 0.5 * (v[j] + u[j]) : next[j];
                column_offsets[j] = log2(b[j]) - v[j];
            }
            __syncthreads();
        }
        double dual = 0.0, length = 0.0;
        for (u32 i = tid; i < m; i += blockDim.x) {
            if (a[i] > 0.0) {
                double f = alpha[i] - unit * u[i] + lambda * log(a[i]);
                dual += a[i] * f, length += a[i] * fabs(f);
            }
        }
        for (u32 j = tid; j < n; j += blockDim.x) {
            double g = beta[j] - unit * v[j];
            kept[j] = g;
            if (b[j] > 0.0) {
                g += lambda * log(b[j]);
                dual += b[j] * g, length += b[j] * fabs(g);
            }
        }
        dual = block_sum(dual, room), length = block_sum(length, room);
        // Rows and columns that hold too much are scaled down, and the missing mass goes to those that lack it (Altschuler,
        // Weed, Rigollet 2017). The sums are those of the plan itself: exponents are rounded relative to their size, so sums
        // taken from potentials would be off by more than the additions of a row.
        fill_plan(z, row_offsets, column_offsets, a, m, n);
        // `v` becomes the factor of every column, `next` what it then lacks and `u` what every row lacks.
        double missing = column_factors(z, b, v, next, m, n, column_room);
        missing = block_sum(missing, room);
        double entropy = 0.0;
        for (u32 i = tid / LANES; i < m; i += blockDim.x / LANES) {
            double *row = z + (u64)i * n, sum = 0.0;
            for (u32 j = tid % LANES; j < n; j += LANES) {
                row[j] *= v[j];
                sum += row[j];
            }
            sum = warp_sum(sum);
            double lack = fmax(a[i] - sum, 0.0);
            if (tid % LANES == 0) u[i] = lack;
            lack = missing > 0.0 ? lack / missing : 0.0;
            for (u32 j = tid % LANES; j < n; j += LANES) {
                double mass = row[j] + lack * next[j];
                row[j] = mass;
                if (mass > 0.0) entropy += mass * log(mass);
            }
        }
        entropy = block_sum(entropy, room);
        double unplaced = unplaced_moment(u, next, corpus.lengths + first, corpus.lengths + second, missing, m, n, room);
        fill_spread(tile, z, t, m, n, dim, spread);
        // Pairs of groups, one lane each; warps alternate over the slots, and their sums are added in a fixed order.
        u32 slots = m * dim / size;
        double *cross = found.crosses + (u64)task * square;
        for (u32 start = 0; start < square; start += LANES) {
            u32 at = start + tid % LANES;
            double sum = 0.0;
            if (at < square) {
                u32 row = at / size, column = at % size;
                for (u32 slot = tid / LANES; slot < slots; slot += blockDim.x / LANES) sum += s[(u64)slot * size + row] * spread[(u64)slot * size + column];
            }
            column_room[tid / LANES][tid % LANES] = sum;
            __syncthreads();
            if (tid < LANES && at < square) {
                double total = 0.0;
                for (int warp = 0; warp < 8; warp++) total += column_room[warp][tid];
                cross[at] = total;
            }
            __syncthreads();
        }
        if (tid == 0) {
            found.entropies[task] = entropy, found.duals[task] = dual, found.sizes[task] = length;
            found.unplaced[task] = unplaced;
        }
        __syncthreads();
    }
}
