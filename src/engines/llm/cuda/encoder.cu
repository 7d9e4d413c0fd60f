// Kernels of encoders of BERT's family: what goes over rows once. A block takes a row.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 256;

__global__ void embed_text_kernel(EmbedText a) {
  await_inputs();
  size_t t = blockIdx.x;
  const Bf16* word = a.words + size_t(a.ids[t]) * a.hidden;
  const float* kind = a.kinds ? a.types + size_t(a.kinds[t]) * a.hidden : nullptr;
  const float* place = a.places + size_t(a.positions[t]) * a.hidden;
  float* to = a.stream + t * a.hidden;
  for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x)
    to[i] = widen(word[i]) + (kind ? kind[i] : 0.f) + place[i];
}

__global__ void layer_norm_kernel(LayerNorm a) {
  await_inputs();
  float* x = a.stream + size_t(blockIdx.x) * a.hidden;
  Bf16* out = a.out + size_t(blockIdx.x) * a.hidden;
  float sum = 0, squares = 0;
  for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x) sum += x[i];
  float mean = block_sum(sum) / float(a.hidden);
  for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  float factor = rsqrtf(block_sum(squares) / float(a.hidden) + a.epsilon);
  for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x) {
    float y = (x[i] - mean) * factor * a.weight[i] + a.bias[i];
    x[i] = y;
    out[i] = narrow(y);
  }
}

__device__ float gelu_exact(float x) { return 0.5f * x * (1.f + erff(x * 0.70710678f)); }
__device__ float gelu_tanh(float x) { return 0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); }

__global__ void gelu_kernel(Gelu a) {
  await_inputs();
  Bf16* x = a.rows + size_t(blockIdx.x) * a.width;
  for (uint32_t i = blockIdx.y * blockDim.x + threadIdx.x; i < a.width; i += gridDim.y * blockDim.x) {
    float y = widen(x[i]) + a.bias[i];
    x[i] = narrow(a.curve == Gelu::kExact ? gelu_exact(y) : gelu_tanh(y));
  }
}

}  // namespace

Code embed_text(const Launch& launch, const EmbedText& a) {
  if (a.tokens == 0) return 0;
  return run(launch, embed_text_kernel, a.tokens, kThreads, 0, a);
}

Code layer_norm(const Launch& launch, const LayerNorm& a) {
  if (a.tokens == 0) return 0;
  return run(launch, layer_norm_kernel, a.tokens, kThreads, 0, a);
}

Code gelu(const Launch& launch, const Gelu& a) {
  if (a.tokens == 0) return 0;
  uint32_t blocks = (a.width + kThreads - 1) / kThreads;
  return run(launch, gelu_kernel, dim3(a.tokens, blocks < 64 ? blocks : 64), kThreads, 0, a);
}

Code load_encoder(int32_t device) {
  return load_kernels(device, embed_text_kernel, layer_norm_kernel, gelu_kernel);
}

}  // namespace weir::llm::cuda
