// Matrix products in double precision on the tensor cores, in tiles of 64 × 64 by 256 threads.

#define SIDE 64
#define DEPTH 16
// Lines of shared memory with one number per depth or one per side, a little longer than these so that reading fragments causes no
// bank conflicts.
#define SHORT_LINE (DEPTH + 4)
#define LONG_LINE (SIDE + 4)
// A tile's numbers in lines of either kind.
#define TILE_NUMBERS (SIDE * SHORT_LINE)
// A thread has 2 × 8 numbers of a product.
#define OWN_ROWS 2
#define OWN_COLUMNS 8
// Powers of two with exponents below this are zero.
#define LEAST_EXPONENT -1070.0

struct Tile {
    double *rows;
    double *columns;
};

// The places in the tile of a thread's numbers: each of eight warps has 16 rows and 32 columns.
__device__ inline u32 own_row(int a) { return threadIdx.x / LANES / 2 * 16 + 8 * a + threadIdx.x % LANES / 4; }
__device__ inline u32 own_column(int b) { return threadIdx.x / LANES % 2 * 32 + b / 2 * 8 + threadIdx.x % 4 * 2 + b % 2; }

__device__ inline void multiply_double(double *c, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}

// z += a b over one depth, given how far apart neighbors in each direction are.
template <int A_ROW, int A_DEPTH, int B_COLUMN, int B_DEPTH> __device__ inline void multiply_tile(const double *a, const double *b, double z[OWN_ROWS][OWN_COLUMNS]) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    a += (warp / 2 * 16 + lane / 4) * A_ROW + lane % 4 * A_DEPTH;
    b += (warp % 2 * 32 + lane / 4) * B_COLUMN + lane % 4 * B_DEPTH;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 4) {
        double first = a[k * A_DEPTH], second = a[8 * A_ROW + k * A_DEPTH];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            double other = b[8 * j * B_COLUMN + k * B_DEPTH];
            multiply_double(&z[0][2 * j], first, other);
            multiply_double(&z[1][2 * j], second, other);
        }
    }
}

// z = X Yᵀ of one tile.
__device__ void products(Tile tile, const double *x, const double *y, u32 m, u32 n, u32 dim, u32 first_row, u32 first_column, double z[OWN_ROWS][OWN_COLUMNS]) {
    // A quarter of a tile's sides at a time, sixteen threads for each.
    double next_rows[4], next_columns[4];
    u32 k = threadIdx.x % DEPTH, side = threadIdx.x / DEPTH;
    auto load = [&](u32 start) {
        u32 feature = start + k;
#pragma unroll
        for (int part = 0; part < 4; part++) {
            u32 row = first_row + side + 16 * part, column = first_column + side + 16 * part;
            next_rows[part] = row < m && feature < dim ? x[(u64)row * dim + feature] : 0.0;
            next_columns[part] = column < n && feature < dim ? y[(u64)column * dim + feature] : 0.0;
        }
    };
#pragma unroll
    for (int a = 0; a < OWN_ROWS; a++) {
#pragma unroll
        for (int b = 0; b < OWN_COLUMNS; b++) z[a][b] = 0.0;
    }
    load(0);
    for (u32 start = 0; start < dim; start += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int part = 0; part < 4; part++) {
            tile.rows[(side + 16 * part) * SHORT_LINE + k] = next_rows[part];
            tile.columns[(side + 16 * part) * SHORT_LINE + k] = next_columns[part];
        }
        __syncthreads();
        if (start + DEPTH < dim) load(start + DEPTH);
        multiply_tile<SHORT_LINE, 1, SHORT_LINE, 1>(tile.rows, tile.columns, z);
    }
}
