// The product of product.cu in single precision on the tensor cores. Each factor is the sum of two numbers of 11 bits, and three of
// their four products count: the fourth is below the rounding of single precision.

#define TENSOR_THREADS 128
#define TENSOR_LINE (TILE + 8)

struct Split {
    u32 hi;
    u32 lo;
};

__device__ inline Split split(float x) {
    Split parts;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(parts.hi) : "f"(x));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(parts.lo) : "f"(x - __uint_as_float(parts.hi)));
    return parts;
}

__device__ inline void multiply_tf32(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A block computes a tile of TILE × TILE, each of its four warps 32 × 32 of it. Lines are eight numbers longer than a tile, so that
// reading fragments causes no bank conflicts.
extern "C" __global__ void __launch_bounds__(TENSOR_THREADS) multiply_tensor(Product p) {
    __shared__ float left[DEPTH][TENSOR_LINE];
    __shared__ float right[DEPTH][TENSOR_LINE];
    __shared__ u64 from[TILE];
    int tid = threadIdx.x, lane = tid % LANES, warp = tid / LANES;
    u64 tiles = (p.columns + TILE - 1) / TILE, rows = p.found ? *p.found : p.rows;
    u64 first = blockIdx.x / tiles * TILE, column = blockIdx.x % tiles * TILE;
    if (first >= rows) return;
    u64 begin = blockIdx.y * p.slice, end = min(begin + p.slice, p.inner);
    if (tid < TILE) {
        u64 place = first + tid;
        from[tid] = (place >= rows ? 0 : p.gather ? p.gather[place] : place) * p.inner;
    }
    __syncthreads();
    // Two tiles of 16 rows by four of 8 columns.
    float sums[2][4][4] = {};
    float next_left[DEPTH / 2], next_right[DEPTH / 2];
    int depth = tid % DEPTH, line = tid / DEPTH, across = tid % TILE, down = tid / TILE;
    bool inside = column + across < p.columns;
    // Eight lines at a time of A, two lines of B.
    auto load = [&](u64 start) {
#pragma unroll
        for (int j = 0; j < DEPTH / 2; j++) {
            int i = line + 8 * j, k = down + 2 * j;
            next_left[j] = start + depth < end && first + i < rows ? p.a[from[i] + start + depth] : 0.0f;
            next_right[j] = start + k < end && inside ? p.b[(start + k) * p.columns + column + across] : 0.0f;
        }
    };
    int group = lane / 4, part = lane % 4, top = warp / 2 * 32, side = warp % 2 * 32;
    load(begin);
    for (u64 start = begin; start < end; start += DEPTH) {
#pragma unroll
        for (int j = 0; j < DEPTH / 2; j++) {
            left[depth][line + 8 * j] = next_left[j];
            right[down + 2 * j][across] = next_right[j];
        }
        __syncthreads();
        if (start + DEPTH < end) load(start + DEPTH);
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            Split a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
#pragma unroll
                for (int at = 0; at < 4; at++) a[i][at] = split(left[k + part + at / 2 * 4][top + 16 * i + group + at % 2 * 8]);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int at = 0; at < 2; at++) b[j][at] = split(right[k + part + at * 4][side + 8 * j + group]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float *sum = sums[i][j];
                    multiply_tf32(sum, a[i][0].lo, a[i][1].lo, a[i][2].lo, a[i][3].lo, b[j][0].hi, b[j][1].hi);
                    multiply_tf32(sum, a[i][0].hi, a[i][1].hi, a[i][2].hi, a[i][3].hi, b[j][0].lo, b[j][1].lo);
                    multiply_tf32(sum, a[i][0].hi, a[i][1].hi, a[i][2].hi, a[i][3].hi, b[j][0].hi, b[j][1].hi);
                }
            }
        }
        __syncthreads();
    }
    float *out = p.out + blockIdx.y * p.stride;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            u64 row = first + top + 16 * i + group + 8 * half;
            if (row >= rows) continue;
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int at = 0; at < 2; at++) {
                    u64 place = column + side + 8 * j + 2 * part + at;
                    float sum = sums[i][j][2 * half + at];
                    if (place < p.columns) out[row * p.columns + place] = p.own ? p.own[place] - 2 * sum : sum;
                }
            }
        }
    }
}
