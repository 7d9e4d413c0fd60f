#include "engines/llm/cuda/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "engines/llm/cuda/bf16.h"

namespace weir::llm::cuda::reference {
namespace {

constexpr float kOne = 1099511627776.f;  // 2^40, as in draw.cu

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

float first_half(float a, float b, double sine, double cosine) { return float(a * cosine - b * sine); }
float second_half(float a, float b, double sine, double cosine) { return float(b * cosine + a * sine); }

// A head turned by its position.
void turn(const RopeStore& a, uint32_t position, const Bf16* from, Bf16* to) {
  uint32_t half = a.dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    float angle = float(position) * a.frequencies[i];
    double sine = std::sin(double(angle)) * a.scale, cosine = std::cos(double(angle)) * a.scale;
    float first = widen_bf16(from[i]), second = widen_bf16(from[i + half]);
    to[i] = narrow_bf16(first_half(first, second, sine, cosine));
    to[i + half] = narrow_bf16(second_half(first, second, sine, cosine));
  }
}

// Attention of one query head.
void attend(const DecodeAttention& a, uint32_t row, uint32_t head, Bf16* out) {
  uint32_t length = a.lengths[row], kv_head = head / (a.heads / a.kv_heads);
  uint32_t from = a.window && length > a.window ? length - a.window : 0;
  const Bf16* q = a.q + (size_t(row) * a.heads + head) * a.dim;
  auto at = [&](const Bf16* cache, uint32_t position) {
    size_t block = a.tables[size_t(row) * a.table_width + position / a.block_size];
    return cache + ((block * a.block_size + position % a.block_size) * a.kv_heads + kv_head) * a.dim;
  };
  std::vector<double> scores, sum(a.dim);
  double highest = -INFINITY, total = 0;
  for (uint32_t p = from; p < length; ++p) {
    double dot = 0;
    for (uint32_t i = 0; i < a.dim; ++i) dot += double(widen_bf16(q[i])) * widen_bf16(at(a.k_cache, p)[i]);
    scores.push_back(dot * a.scale);
    highest = std::max(highest, scores.back());
  }
  for (uint32_t p = from; p < length; ++p) {
    double w = std::exp(scores[p - from] - highest);
    total += w;
    for (uint32_t i = 0; i < a.dim; ++i) sum[i] += w * widen_bf16(at(a.v_cache, p)[i]);
  }
  for (uint32_t i = 0; i < a.dim; ++i) out[i] = narrow_bf16(total > 0 ? float(sum[i] / total) : 0.f);
}

uint32_t draw_row(const float* logits, uint32_t size, const DrawRow& wish) {
  std::vector<uint32_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  if (wish.temperature <= 0) return ids[0];
  float highest = logits[ids[0]];
  auto weight = [&](uint32_t id) { return uint64_t(std::exp((logits[id] - highest) / wish.temperature) * kOne); };
  if (wish.top_k > 0 && wish.top_k < size) ids.resize(wish.top_k);
  uint64_t total = 0;
  for (auto id : ids) total += weight(id);
  if (wish.top_p < 1) {
    auto share = std::max<uint64_t>(uint64_t(double(wish.top_p) * double(total)), 1);
    uint64_t sum = 0;
    size_t kept = 0;
    while (kept < ids.size() && sum < share) sum += weight(ids[kept++]);
    ids.resize(kept);
  }
  if (wish.min_p > 0)
    std::erase_if(ids, [&](uint32_t id) { return logits[id] < highest + wish.temperature * std::log(wish.min_p); });
  std::vector<uint32_t> order = ids;
  std::sort(order.begin(), order.end());
  total = 0;
  for (auto id : order) total += weight(id);
  auto target = uint64_t(uniform(wish.seed, wish.number) * double(total));
  if (target >= total && total > 0) target = total - 1;
  uint64_t sum = 0;
  for (auto id : order)
    if (sum += weight(id); target < sum) return id;
  return ids[0];
}

}  // namespace

double uniform(uint64_t seed, uint64_t number) {
  uint64_t x = mix(mix(seed + 0x9e3779b97f4a7c15ull) + (number + 1) * 0x9e3779b97f4a7c15ull);
  return double(x >> 11) * 0x1p-53;
}

void embed(const Embed& a) {
  for (size_t t = 0; t < a.tokens; ++t)
    for (size_t i = 0; i < a.hidden; ++i)
      a.stream[t * a.hidden + i] = widen_bf16(a.table[size_t(a.ids[t]) * a.hidden + i]);
}

void add_norm(const AddNorm& a) {
  for (size_t t = 0; t < a.tokens; ++t) {
    float* x = a.stream + t * a.hidden;
    double squares = 0;
    for (size_t i = 0; i < a.hidden; ++i) {
      if (a.delta) x[i] += widen_bf16(a.delta[t * a.hidden + i]);
      squares += double(x[i]) * x[i];
    }
    double factor = 1 / std::sqrt(squares / a.hidden + a.epsilon);
    for (size_t i = 0; i < a.hidden; ++i)
      a.out[t * a.hidden + i] = narrow_bf16(float(x[i] * factor * widen_bf16(a.weight[i])));
  }
}

void rope_store(const RopeStore& a) {
  size_t width = size_t(a.heads + 2 * a.kv_heads) * a.dim;
  for (size_t t = 0; t < a.tokens; ++t) {
    const Bf16* in = a.qkv + t * width;
    for (size_t h = 0; h < a.heads; ++h) turn(a, a.positions[t], in + h * a.dim, a.q + (t * a.heads + h) * a.dim);
    if (a.slots[t] == kNoSlot) continue;
    size_t slot = size_t(a.slots[t]) * a.kv_heads * a.dim;
    for (size_t h = 0; h < a.kv_heads; ++h)
      turn(a, a.positions[t], in + (a.heads + h) * a.dim, a.k_cache + slot + h * a.dim);
    std::memcpy(a.v_cache + slot, in + size_t(a.heads + a.kv_heads) * a.dim, size_t(a.kv_heads) * a.dim * sizeof(Bf16));
  }
}

void swiglu(const SwiGlu& a) {
  for (size_t t = 0; t < a.tokens; ++t)
    for (size_t i = 0; i < a.width; ++i) {
      double gate = widen_bf16(a.gate_up[t * 2 * a.width + i]), up = widen_bf16(a.gate_up[(t * 2 + 1) * a.width + i]);
      a.out[t * a.width + i] = narrow_bf16(float(gate / (1 + std::exp(-gate)) * up));
    }
}

void decode_attention(const DecodeAttention& a) {
  for (uint32_t row = 0; row < a.rows; ++row)
    for (uint32_t head = 0; head < a.heads; ++head)
      attend(a, row, head, a.out + (size_t(row) * a.heads + head) * a.dim);
}

void draw(const Draw& a) {
  for (size_t row = 0; row < a.rows; ++row) {
    const float* logits = a.logits + row * a.vocabulary;
    a.ids[row] = draw_row(logits, a.vocabulary, a.wishes[row]);
    if (!a.logprobs) continue;
    double highest = *std::max_element(logits, logits + a.vocabulary), sum = 0;
    for (size_t i = 0; i < a.vocabulary; ++i) sum += std::exp(logits[i] - highest);
    a.logprobs[row] = float(logits[a.ids[row]] - highest - std::log(sum));
  }
}

void gather(const Gather& a) {
  for (size_t i = 0; i < a.count; ++i)
    std::memcpy(a.out + i * a.width, a.in + size_t(a.which[i]) * a.width, a.width * sizeof(Bf16));
}

}  // namespace weir::llm::cuda::reference
