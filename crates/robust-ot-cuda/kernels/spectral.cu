// Eigenvalues and eigenvectors of a symmetric matrix by one block, in double precision: Jacobi's rotations of disjoint pairs.

#define MOST_SWEEPS 40
// Off-diagonal entries this small, relative to the whole matrix, are rounding.
#define OFF_DIAGONAL 1e-15

// The pair of a round of a tournament among n players, n even, that the place-th table plays; every pair meets once in
// n − 1 rounds.
__device__ inline void pair_of(int n, int round, int place, int &a, int &b) {
    int first = place == 0 ? n - 1 : (round + place) % (n - 1), second = (round + n - 1 - place) % (n - 1);
    a = min(first, second);
    b = max(first, second);
}

// Replaces A with a matrix whose diagonal holds the eigenvalues, and writes the eigenvectors to the columns of Q.
// `turns` holds 2 r + 2 numbers.
__device__ void rotate_to_diagonal(int r, double *A, double *Q, double *turns, double *room) {
    int tid = threadIdx.x, size = r * r, even = r + r % 2, half = even / 2;
    for (int at = tid; at < size; at += blockDim.x) Q[at] = at / r == at % r ? 1.0 : 0.0;
    double squares = 0.0;
    for (int at = tid; at < size; at += blockDim.x) squares += A[at] * A[at];
    double least = block_sum(squares, room) * OFF_DIAGONAL * OFF_DIAGONAL;
    for (int sweep = 0; sweep < MOST_SWEEPS && even > 1; sweep++) {
        double off = 0.0;
        for (int at = tid; at < size; at += blockDim.x) off += at / r == at % r ? 0.0 : A[at] * A[at];
        // False for NaN as well.
        if (!(block_sum(off, room) > least)) break;
        for (int round = 0; round < even - 1; round++) {
            for (int place = tid; place < half; place += blockDim.x) {
                int a, b;
                pair_of(even, round, place, a, b);
                double cosine = 1.0, sine = 0.0, crossing = b < r ? A[a * r + b] : 0.0;
                if (crossing != 0.0) {
                    double slope = (A[b * r + b] - A[a * r + a]) / (2.0 * crossing);
                    double tangent = (slope < 0.0 ? -1.0 : 1.0) / (fabs(slope) + sqrt(1.0 + slope * slope));
                    cosine = 1.0 / sqrt(1.0 + tangent * tangent);
                    sine = tangent * cosine;
                }
                turns[2 * place] = cosine;
                turns[2 * place + 1] = sine;
            }
            __syncthreads();
            for (int at = tid; at < half * r; at += blockDim.x) {
                int a, b, place = at / r, i = at % r;
                pair_of(even, round, place, a, b);
                if (b >= r) continue;
                double cosine = turns[2 * place], sine = turns[2 * place + 1];
                double x = A[i * r + a], y = A[i * r + b];
                A[i * r + a] = cosine * x - sine * y;
                A[i * r + b] = sine * x + cosine * y;
                x = Q[i * r + a];
                y = Q[i * r + b];
                Q[i * r + a] = cosine * x - sine * y;
                Q[i * r + b] = sine * x + cosine * y;
            }
            __syncthreads();
            for (int at = tid; at < half * r; at += blockDim.x) {
                int a, b, place = at / r, i = at % r;
                pair_of(even, round, place, a, b);
                if (b >= r) continue;
                double cosine = turns[2 * place], sine = turns[2 * place + 1];
                double x = A[a * r + i], y = A[b * r + i];
                A[a * r + i] = cosine * x - sine * y;
                A[b * r + i] = sine * x + cosine * y;
            }
            __syncthreads();
        }
    }
}

// M = Q diag(weights) Qᵀ.
__device__ void reassemble(int r, const double *Q, const double *weights, double *M) {
    for (int at = threadIdx.x; at < r * r; at += blockDim.x) {
        int a = at / r, b = at % r;
        double sum = 0.0;
        for (int i = 0; i < r; i++) sum += weights[i] * Q[a * r + i] * Q[b * r + i];
        M[at] = sum;
    }
}

// The sum of the k largest eigenvalues, and the projector on their space. V is overwritten.
__device__ double largest_eigenvalues(int k, int r, double *V, double *M, double *scratch, double *room) {
    double *A = scratch, *weights = scratch + r * r, *Q = V;
    for (int at = threadIdx.x; at < r * r; at += blockDim.x) A[at] = V[at];
    __syncthreads();
    rotate_to_diagonal(r, A, Q, weights, room);
    double value = 0.0;
    for (int a = threadIdx.x; a < r; a += blockDim.x) {
        double own = A[a * r + a];
        int above = 0;
        for (int b = 0; b < r; b++) above += A[b * r + b] > own || (A[b * r + b] == own && b < a);
        weights[a] = above < k ? 1.0 : 0.0;
        value += above < k ? own : 0.0;
    }
    value = block_sum(value, room);
    reassemble(r, Q, weights, M);
    return value;
}

// ‖w‖_ρ over the eigenvalues w, and U diag((w/‖w‖_ρ)^{ρ−1}) Uᵀ. V is overwritten. Eigenvalues below zero are rounding.
__device__ double schatten(double rho, int r, double *V, double *M, double *scratch, double *room) {
    double *A = scratch, *weights = scratch + r * r, *Q = V;
    for (int at = threadIdx.x; at < r * r; at += blockDim.x) A[at] = V[at];
    __syncthreads();
    rotate_to_diagonal(r, A, Q, weights, room);
    double top = 0.0, sum = 0.0;
    for (int a = threadIdx.x; a < r; a += blockDim.x) top = A[a * r + a] != A[a * r + a] ? A[a * r + a] : fmax(top, A[a * r + a]);
    top = block_max(top, room);
    for (int a = threadIdx.x; a < r; a += blockDim.x) sum += top > 0.0 ? pow(fmax(A[a * r + a], 0.0) / top, rho) : 0.0;
    sum = block_sum(sum, room);
    double norm = top != top ? top : top > 0.0 ? top * pow(sum, 1.0 / rho) : 0.0;
    for (int a = threadIdx.x; a < r; a += blockDim.x) weights[a] = norm > 0.0 ? pow(fmax(A[a * r + a], 0.0) / norm, rho - 1.0) : 0.0;
    __syncthreads();
    reassemble(r, Q, weights, M);
    return norm;
}
