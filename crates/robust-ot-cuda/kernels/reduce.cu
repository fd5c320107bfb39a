// Sums and maxima over a warp and over a block, in a fixed order.

typedef unsigned int u32;
typedef unsigned long long u64;

#define LANES 32
#define EVERY 0xffffffffu
#define INF __int_as_float(0x7f800000)
#define INF64 __longlong_as_double(0x7ff0000000000000LL)

template <typename T> __device__ inline T warp_sum(T x) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(EVERY, x, offset);
    return x;
}

template <typename T> __device__ inline T warp_max(T x) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        T other = __shfl_xor_sync(EVERY, x, offset);
        // Unlike max(), keeps NaN.
        x = (x != x || x >= other) ? x : other;
    }
    return x;
}

// Returns the same sum on every thread; `room` holds one number per warp, and is free again on return.
template <typename T> __device__ inline T block_sum(T x, T *room) {
    x = warp_sum(x);
    if (threadIdx.x % LANES == 0) room[threadIdx.x / LANES] = x;
    __syncthreads();
    T total = 0;
    for (int warp = 0; warp < blockDim.x / LANES; warp++) total += room[warp];
    __syncthreads();
    return total;
}

template <typename T> __device__ inline T block_max(T x, T *room) {
    x = warp_max(x);
    if (threadIdx.x % LANES == 0) room[threadIdx.x / LANES] = x;
    __syncthreads();
    T top = room[0];
    for (int warp = 1; warp < blockDim.x / LANES; warp++) {
        T other = room[warp];
        top = (top != top || top >= other) ? top : other;
    }
    __syncthreads();
    return top;
}
