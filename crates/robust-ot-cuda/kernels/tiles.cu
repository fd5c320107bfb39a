// Matrix products in double precision, in tiles of 64 × 64 by 256 threads.

#define SIDE 64
#define DEPTH 16
// Powers of two with exponents below this are zero.
#define LEAST_EXPONENT -1070.0

// Lines of shared memory, a little longer than a tile so that reading down a column causes no bank conflicts.
typedef double Line[SIDE + 1];

struct Tile {
    Line *rows;
    Line *columns;
};

// z += the product of sixteen lines of rows and columns: thread (ty, tx) of 16 × 16 has the rows ty + 16 a and the columns
// tx + 16 b.
__device__ inline void multiply_tile(Tile tile, double z[4][4]) {
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        double rows[4], columns[4];
#pragma unroll
        for (int a = 0; a < 4; a++) {
            rows[a] = tile.rows[k][ty + 16 * a];
            columns[a] = tile.columns[k][tx + 16 * a];
        }
#pragma unroll
        for (int a = 0; a < 4; a++) {
#pragma unroll
            for (int b = 0; b < 4; b++) z[a][b] = fma(rows[a], columns[b], z[a][b]);
        }
    }
}

// z = X Yᵀ of one tile.
__device__ void products(Tile tile, const double *x, const double *y, u32 m, u32 n, u32 dim, u32 first_row, u32 first_column, double z[4][4]) {
#pragma unroll
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) z[a][b] = 0.0;
    }
    for (u32 start = 0; start < dim; start += DEPTH) {
        __syncthreads();
        for (int at = threadIdx.x; at < SIDE * DEPTH; at += blockDim.x) {
            u32 k = at % DEPTH, side = at / DEPTH, feature = start + k;
            u32 row = first_row + side, column = first_column + side;
            tile.rows[k][side] = row < m && feature < dim ? x[(u64)row * dim + feature] : 0.0;
            tile.columns[k][side] = column < n && feature < dim ? y[(u64)column * dim + feature] : 0.0;
        }
        __syncthreads();
        multiply_tile(tile, z);
    }
}
