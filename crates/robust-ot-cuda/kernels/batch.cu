// The kernels of one training step: gathering rows, predictions and gradients, and the update of the weights.

#define BETA_MEAN 0.9f
#define BETA_SQUARE 0.999f
#define ADAM_EPSILON 1e-8f

// The true labels of the rows of an epoch, in its order.
struct Truth {
    // The e-th row is row `order[e]` of the data, with the labels indices[starts[row]..starts[row + 1]].
    const u32 *order;
    const u32 *starts;
    const u32 *indices;
    // The first line of the e-th row among the lines of its batch.
    const u32 *lines;
    // Steps done in this epoch.
    const u32 *step;
    u32 batch;
};

struct Row {
    u32 place;
    u32 count;
    const u32 *labels;
    u32 line;
};

__device__ inline Row row_of(Truth truth, u32 b) {
    Row row;
    row.place = *truth.step * truth.batch + b;
    u32 at = truth.order[row.place], start = truth.starts[at];
    row.count = truth.starts[at + 1] - start;
    row.labels = truth.indices + start;
    row.line = truth.lines[row.place];
    return row;
}

// Gathers X of the batch from dense rows.
extern "C" __global__ void gather_dense(const float *all, Truth truth, u32 columns, float *out) {
    u64 from = truth.order[*truth.step * truth.batch + blockIdx.x];
    for (u32 column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += gridDim.y * blockDim.x) {
        out[(u64)blockIdx.x * columns + column] = all[from * columns + column];
    }
}

// Gathers X of the batch from sparse rows.
extern "C" __global__ void gather_sparse(const u64 *starts, const u32 *places, const float *values, Truth truth, u32 columns, float *out) {
    u32 row = truth.order[*truth.step * truth.batch + blockIdx.x];
    float *own = out + (u64)blockIdx.x * columns;
    for (u32 column = threadIdx.x; column < columns; column += blockDim.x) own[column] = 0.0f;
    __syncthreads();
    for (u64 at = starts[row] + threadIdx.x; at < starts[row + 1]; at += blockDim.x) own[places[at]] = values[at];
}

// Replaces z with ln softmax(z + b), and writes the softmax to h. One block per row.
extern "C" __global__ void log_softmax(float *logits, const float *bias, u32 width, float *predictions, const u32 *step, u64 *fault) {
    __shared__ float room[LANES];
    __shared__ double wide_room[LANES];
    float *row = logits + (u64)blockIdx.x * width, *h = predictions + (u64)blockIdx.x * width;
    float top = -INF;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float z = row[p] + (bias ? bias[p] : 0.0f);
        row[p] = z;
        if (!isfinite(z)) report(fault, *step, FAULT_LOGIT, z);
        top = (z != z || z > top) ? z : top;
    }
    top = block_max(top, room);
    double sum = 0.0;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) sum += expf(row[p] - top);
    sum = block_sum(sum, wide_room);
    float shift = top + (float)log(sum);
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float log_h = row[p] - shift;
        row[p] = log_h;
        h[p] = expf(log_h);
    }
}

struct Soft {
    float moved;
    float smoothing;
    // Row q is the distribution of label q's moved mass; null if no mass moves.
    const float *table;
};

// μ_p without the mass that stays on the true labels.
__device__ inline float spread_target(Soft soft, Row row, u32 p, u32 width) {
    float target = soft.smoothing / width;
    if (soft.table) {
        float share = (1.0f - soft.smoothing) * soft.moved / row.count;
        for (u32 q = 0; q < row.count; q++) target += share * soft.table[(u64)row.labels[q] * width + p];
    }
    return target;
}

// The gradient of α_ce CE + α_ot W with respect to the logits, and the loss of every row. One block per row.
// `slopes` holds ∂W/∂h, and is null without transport; the gradient overwrites `predictions`.
extern "C" __global__ void softmax_slopes(float *predictions, const float *logs, const float *slopes, const double *transport_losses, Truth truth, Soft soft,
                                          float cross_entropy, float transport, float factor, u32 width, double *losses, u64 *fault) {
    __shared__ double room[LANES];
    Row row = row_of(truth, blockIdx.x);
    u64 start = (u64)blockIdx.x * width;
    float *h = predictions + start;
    double mean = 0.0, loss = 0.0;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        if (slopes) mean += (double)h[p] * slopes[start + p];
        if (cross_entropy > 0.0f) loss -= (double)spread_target(soft, row, p, width) * logs[start + p];
    }
    mean = slopes ? block_sum(mean, room) : 0.0;
    float on_truth = (1.0f - soft.smoothing) * (1.0f - soft.moved) / row.count;
    for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) loss -= (double)on_truth * logs[start + row.labels[q]];
    loss = cross_entropy * block_sum(loss, room);
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float slope = cross_entropy + (slopes ? transport * (slopes[start + p] - (float)mean) : 0.0f);
        float target = cross_entropy > 0.0f ? cross_entropy * spread_target(soft, row, p, width) : 0.0f;
        h[p] = factor * (h[p] * slope - target);
    }
    __syncthreads();
    for (u32 q = threadIdx.x; q < row.count; q += blockDim.x) h[row.labels[q]] -= factor * cross_entropy * on_truth;
    if (threadIdx.x == 0) {
        if (slopes) loss += (double)transport * transport_losses[blockIdx.x];
        losses[row.place] = loss;
        if (!isfinite(loss)) report(fault, *truth.step, FAULT_LOSS, (float)loss);
    }
}

// Binary cross-entropy of every label: Σ ln(1 + e^z) − t z with t = min(1, n_y μ), and its gradient in place of the logits.
extern "C" __global__ void sigmoid_slopes(float *logits, const float *bias, Truth truth, Soft soft, float factor, u32 width, double *losses, u64 *fault) {
    __shared__ double room[LANES];
    Row row = row_of(truth, blockIdx.x);
    float *z = logits + (u64)blockIdx.x * width;
    float on_truth = (1.0f - soft.smoothing) * (1.0f - soft.moved);
    double loss = 0.0;
    for (u32 p = threadIdx.x; p < width; p += blockDim.x) {
        float logit = z[p] + (bias ? bias[p] : 0.0f);
        if (!isfinite(logit)) report(fault, *truth.step, FAULT_LOGIT, logit);
        float target = row.count * spread_target(soft, row, p, width);
        for (u32 q = 0; q < row.count; q++) target += row.labels[q] == p ? on_truth : 0.0f;
        double x = logit, t = fminf(target, 1.0f), e = exp(-fabs(x));
        loss += fmax(x, 0.0) + log1p(e) - t * x;
        z[p] = factor * (float)((x >= 0.0 ? 1.0 : e) / (1.0 + e) - t);
    }
    loss = block_sum(loss, room);
    if (threadIdx.x == 0) losses[row.place] = loss;
}

#define SGD 0
#define MOMENTUM 1
#define ADAM 2

// The factors of an optimizer step, one set per step of the epoch.
struct Rates {
    float rate;
    float square;
};

__device__ inline float learn(int kind, float w, float g, float &first, float &second, Rates rates, float momentum, float decay) {
    g += decay * w;
    if (kind == SGD) return w - rates.rate * g;
    if (kind == MOMENTUM) {
        first = momentum * first + g;
        return w - rates.rate * first;
    }
    first = BETA_MEAN * first + (float)(1.0 - 0.9) * g;
    second = BETA_SQUARE * second + (float)(1.0 - 0.999) * g * g;
    return w - rates.rate * first / (sqrtf(rates.square * second) + ADAM_EPSILON);
}

// Updates all weights, four at a time.
extern "C" __global__ void learn_weights(int kind, float4 *weights, const float4 *gradients, float4 *firsts, float4 *seconds, u64 fours, const Rates *rates,
                                         const u32 *step, float momentum, float decay, u64 *fault) {
    Rates own = rates[*step];
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < fours; at += (u64)gridDim.x * blockDim.x) {
        float4 w = weights[at], g = gradients[at], m = {0, 0, 0, 0}, v = {0, 0, 0, 0};
        if (kind != SGD) m = firsts[at];
        if (kind == ADAM) v = seconds[at];
        w.x = learn(kind, w.x, g.x, m.x, v.x, own, momentum, decay);
        w.y = learn(kind, w.y, g.y, m.y, v.y, own, momentum, decay);
        w.z = learn(kind, w.z, g.z, m.z, v.z, own, momentum, decay);
        w.w = learn(kind, w.w, g.w, m.w, v.w, own, momentum, decay);
        weights[at] = w;
        float sum = w.x + w.y + w.z + w.w;
        if (!isfinite(sum)) report(fault, *step, FAULT_WEIGHT, sum);
        if (kind != SGD) firsts[at] = m;
        if (kind == ADAM) seconds[at] = v;
    }
}

// Updates the biases, whose gradient is the sum over the rows.
extern "C" __global__ void learn_bias(int kind, float *bias, const float *slopes, float *firsts, float *seconds, u32 rows, u32 width, const Rates *rates,
                                      const u32 *step, float momentum) {
    u32 p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= width) return;
    float sum = 0.0f;
    for (u32 row = 0; row < rows; row++) sum += slopes[(u64)row * width + p];
    float m = kind != SGD ? firsts[p] : 0.0f, v = kind == ADAM ? seconds[p] : 0.0f;
    bias[p] = learn(kind, bias[p], sum, m, v, rates[*step], momentum, 0.0f);
    if (kind != SGD) firsts[p] = m;
    if (kind == ADAM) seconds[p] = v;
}

extern "C" __global__ void next_step(u32 *step) { *step += 1; }
