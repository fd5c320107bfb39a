// A Sinkhorn sweep on the tensor cores: S_i = Σ_j 2^{o_j + z_ij − m_i} with z = X Yᵀ from factors in half precision.
// Nothing of size m × n is stored.
//
// Tiles of 128 rows × 64 columns. A warp takes 32 rows and all columns of a tile; the accumulators of the product start from
// o_j − m_i, so that they end as the exponents themselves. Sums of a tile are added to the total by compensated summation.

typedef unsigned short half_bits;

#define ROWS_A_WARP 32
#define ROWS_A_BLOCK 128
#define COLUMNS_A_TILE 64
#define CHUNK 64
#define STAGES 3

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }

__device__ inline void copy_16(u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)); }

__device__ inline void multiply(float *c, const u32 *a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads this thread's parts of 32 rows × 64 features: four steps of 16 features, two tiles of 16 rows.
__device__ inline void load_rows(u32 parts[4][2][4], const half_bits *rows, u32 first, u32 dim, u32 chunk) {
    int lane = threadIdx.x % LANES;
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
        const half_bits *row = rows + (u64)(first + tile * 16 + lane / 4) * dim + chunk * CHUNK + lane % 4 * 2;
#pragma unroll
        for (int step = 0; step < 4; step++) {
            parts[step][tile][0] = *(const u32 *)(row + step * 16);
            parts[step][tile][1] = *(const u32 *)(row + step * 16 + 8 * (u64)dim);
            parts[step][tile][2] = *(const u32 *)(row + step * 16 + 8);
            parts[step][tile][3] = *(const u32 *)(row + step * 16 + 8 * (u64)dim + 8);
        }
    }
}

// Fetches 64 features of the columns of a tile, with their 16-byte pieces swapped so that reading them causes no bank
// conflicts.
__device__ inline void fetch(half_bits *stage, const half_bits *columns, u32 tile, u32 dim, u32 chunk) {
    for (int piece = threadIdx.x; piece < COLUMNS_A_TILE * 8; piece += blockDim.x) {
        int column = piece / 8, at = piece % 8;
        const half_bits *from = columns + (u64)(tile * COLUMNS_A_TILE + column) * dim + chunk * CHUNK + at * 8;
        copy_16(shared_address(stage + column * CHUNK + (at ^ (column & 7)) * 8), from);
    }
}

// acc += rows · columnsᵀ over one chunk.
__device__ inline void accumulate(float acc[8][2][4], const u32 parts[4][2][4], const half_bits *stage) {
    int lane = threadIdx.x % LANES;
#pragma unroll
    for (int group = 0; group < 8; group++) {
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            int column = group * 8 + lane % 8, at = pair * 4 + lane / 8;
            u32 from = shared_address(stage + column * CHUNK + (at ^ (column & 7)) * 8), b0, b1, b2, b3;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3) : "r"(from));
#pragma unroll
            for (int tile = 0; tile < 2; tile++) {
                multiply(acc[group][tile], parts[pair * 2][tile], b0, b1);
                multiply(acc[group][tile], parts[pair * 2 + 1][tile], b2, b3);
            }
        }
    }
}

// FINE computes hi·hi + hi·lo + lo·hi instead of hi·hi; ONE means that there are at most 64 features.
template <bool FINE, bool ONE>
__device__ void sweep(const half_bits *row_hi, const half_bits *row_lo, const half_bits *column_hi, const half_bits *column_lo, const float *offsets,
                      const float *shifts, u32 rows, u32 tiles, u32 dim, double *sums) {
    extern __shared__ __align__(16) char shared[];
    constexpr int PARTS = FINE ? 2 : 1;
    half_bits *stages = (half_bits *)shared;
    float *stage_offsets = (float *)(stages + STAGES * PARTS * COLUMNS_A_TILE * CHUNK);
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    u32 chunks = dim / CHUNK, first = blockIdx.x * ROWS_A_BLOCK + warp * ROWS_A_WARP;
    u32 from = (u64)tiles * blockIdx.y / gridDim.y, to = (u64)tiles * (blockIdx.y + 1) / gridDim.y;
    float shift[2][2], total[2][2] = {{0}}, lost[2][2] = {{0}};
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
        for (int half = 0; half < 2; half++) shift[tile][half] = shifts[first + tile * 16 + half * 8 + lane / 4];
    }
    u32 hi[4][2][4], lo[4][2][4];
    if (ONE) {
        load_rows(hi, row_hi, first, dim, 0);
        if (FINE) load_rows(lo, row_lo, first, dim, 0);
    }
    // One step per tile and chunk; a few of them are in flight at any time.
    u32 steps = (to - from) * chunks;
    auto begin = [&](u32 step) {
        if (step < steps) {
            u32 tile = from + step / chunks, chunk = step % chunks, stage = step % STAGES;
            half_bits *at = stages + stage * PARTS * COLUMNS_A_TILE * CHUNK;
            fetch(at, column_hi, tile, dim, chunk);
            if (FINE) fetch(at + COLUMNS_A_TILE * CHUNK, column_lo, tile, dim, chunk);
            if (threadIdx.x < COLUMNS_A_TILE / 4) {
                copy_16(shared_address(stage_offsets + stage * COLUMNS_A_TILE + threadIdx.x * 4), offsets + tile * COLUMNS_A_TILE + threadIdx.x * 4);
            }
        }
        asm volatile("cp.async.commit_group;");
    };
    for (int step = 0; step < STAGES - 1; step++) begin(step);
    float acc[8][2][4];
    for (u32 step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        begin(step + STAGES - 1);
        u32 chunk = step % chunks, stage = step % STAGES;
        const half_bits *at = stages + stage * PARTS * COLUMNS_A_TILE * CHUNK;
        if (chunk == 0) {
            const float *own = stage_offsets + stage * COLUMNS_A_TILE;
#pragma unroll
            for (int group = 0; group < 8; group++) {
                float2 o = *(const float2 *)(own + group * 8 + lane % 4 * 2);
#pragma unroll
                for (int tile = 0; tile < 2; tile++) {
                    acc[group][tile][0] = o.x - shift[tile][0];
                    acc[group][tile][1] = o.y - shift[tile][0];
                    acc[group][tile][2] = o.x - shift[tile][1];
                    acc[group][tile][3] = o.y - shift[tile][1];
                }
            }
        }
        if (!ONE) {
            load_rows(hi, row_hi, first, dim, chunk);
            if (FINE) load_rows(lo, row_lo, first, dim, chunk);
        }
        accumulate(acc, hi, at);
        if (FINE) {
            accumulate(acc, lo, at);
            accumulate(acc, hi, at + COLUMNS_A_TILE * CHUNK);
        }
        if (chunk + 1 == chunks) {
#pragma unroll
            for (int tile = 0; tile < 2; tile++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float sum = 0.0f;
#pragma unroll
                    for (int group = 0; group < 8; group++) sum += exp2_fast(acc[group][tile][half * 2]) + exp2_fast(acc[group][tile][half * 2 + 1]);
                    float y = sum - lost[tile][half], t = total[tile][half] + y;
                    lost[tile][half] = (t - total[tile][half]) - y;
                    total[tile][half] = t;
                }
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            // The columns of a row are spread over four threads.
            double sum = (double)total[tile][half] - lost[tile][half];
            sum += __shfl_xor_sync(EVERY, sum, 1);
            sum += __shfl_xor_sync(EVERY, sum, 2);
            u32 row = first + tile * 16 + half * 8 + lane / 4;
            if (lane % 4 == 0 && row < rows) sums[(u64)blockIdx.y * rows + row] = sum;
        }
    }
}

#define SWEEP(NAME, FINE, ONE)                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128)                                                                                                   \
        NAME(const half_bits *row_hi, const half_bits *row_lo, const half_bits *column_hi, const half_bits *column_lo, const float *offsets,            \
             const float *shifts, u32 rows, u32 tiles, u32 dim, double *sums) {                                                                         \
        sweep<FINE, ONE>(row_hi, row_lo, column_hi, column_lo, offsets, shifts, rows, tiles, dim, sums);                                                \
    }

SWEEP(sweep_coarse, false, true)
SWEEP(sweep_coarse_wide, false, false)
SWEEP(sweep_fine, true, true)
SWEEP(sweep_fine_wide, true, false)
