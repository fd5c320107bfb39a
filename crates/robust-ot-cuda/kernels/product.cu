// Matrix products in which the device alone knows how many rows there are. `real` is float or double.

// A block computes a tile of TILE × TILE with 64 threads, each 8 × 8 numbers, from slices of DEPTH columns.
#define TILE 64
#define DEPTH 16
#define PRODUCT_THREADS 64
#define OWN 8

// out = A B, row-major. Part y of the grid sums over its own slice of the inner dimension.
struct Product {
    const real *a;
    // Row i of A is row gather[i] of `a`; null for row i itself.
    const u32 *gather;
    const real *b;
    real *out;
    // If not null, writes own_j − 2 (A B)_ij.
    const real *own;
    // The number of rows; null if there are `rows`.
    const u32 *found;
    u64 rows;
    u64 inner;
    u64 columns;
    // Length of a slice, and numbers between the parts of `out`.
    u64 slice;
    u64 stride;
};

struct alignas(16) Four {
    real x[4];
};

extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS) multiply(Product p) {
    __shared__ alignas(16) real left[DEPTH][TILE + 4];
    __shared__ alignas(16) real right[DEPTH][TILE];
    __shared__ u64 from[TILE];
    int tid = threadIdx.x;
    // One dimension of the grid for all tiles, because the others end at 65,535.
    u64 tiles = (p.columns + TILE - 1) / TILE, rows = p.found ? *p.found : p.rows;
    u64 first = blockIdx.x / tiles * TILE, column = blockIdx.x % tiles * TILE;
    if (first >= rows) return;
    u64 begin = blockIdx.y * p.slice, end = min(begin + p.slice, p.inner);
    u64 place = first + tid;
    from[tid] = (place >= rows ? 0 : p.gather ? p.gather[place] : place) * p.inner;
    __syncthreads();
    real sums[OWN][OWN] = {};
    real next_left[DEPTH], next_right[DEPTH];
    int x = tid % 8, y = tid / 8, depth = tid % DEPTH, line = tid / DEPTH;
    bool inside = column + tid < p.columns;
    // Four lines at a time of A, one column per thread of B.
    auto load = [&](u64 start) {
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            int i = line + 4 * j;
            next_left[j] = start + depth < end && first + i < rows ? p.a[from[i] + start + depth] : (real)0;
            next_right[j] = start + j < end && inside ? p.b[(start + j) * p.columns + column + tid] : (real)0;
        }
    };
    load(begin);
    for (u64 start = begin; start < end; start += DEPTH) {
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            left[depth][line + 4 * j] = next_left[j];
            right[j][tid] = next_right[j];
        }
        __syncthreads();
        if (start + DEPTH < end) load(start + DEPTH);
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            Four a[2], b[2];
            // Two halves a tile apart, so that threads of a warp read neighboring numbers.
#pragma unroll
            for (int half = 0; half < 2; half++) {
                a[half] = *reinterpret_cast<const Four *>(&left[k][32 * half + 4 * y]);
                b[half] = *reinterpret_cast<const Four *>(&right[k][32 * half + 4 * x]);
            }
#pragma unroll
            for (int i = 0; i < OWN; i++) {
#pragma unroll
                for (int j = 0; j < OWN; j++) sums[i][j] += a[i / 4].x[i % 4] * b[j / 4].x[j % 4];
            }
        }
        __syncthreads();
    }
    real *out = p.out + blockIdx.y * p.stride;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        u64 row = first + 32 * (i / 4) + 4 * y + i % 4;
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            u64 at = column + 32 * (j / 4) + 4 * x + j % 4;
            if (at < p.columns) out[row * p.columns + at] = p.own ? p.own[at] - 2 * sums[i][j] : sums[i][j];
        }
    }
}
