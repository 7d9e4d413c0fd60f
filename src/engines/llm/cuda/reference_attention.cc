// Attention, and what goes into its cache, on the host (reference.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"
#include "engines/llm/load/fp8.h"

namespace weir::llm::cuda::reference {
namespace {

float first_half(float a, float b, double sine, double cosine) { return float(a * cosine - b * sine); }
float second_half(float a, float b, double sine, double cosine) { return float(b * cosine + a * sine); }

// Head `head` of those in a token's qkv, with its bias.
void read_head(const RopeStore& a, const Bf16* token, uint32_t head, float* x) {
  for (uint32_t i = 0; i < a.dim; ++i) {
    size_t at = size_t(head) * a.dim + i;
    x[i] = widen_bf16(token[at]) + (a.bias ? a.bias[at] : 0.f);
  }
}

// A head normalised, where that is done, and turned by its position.
void turn(const RopeStore& a, uint32_t position, const Bf16* norm, float* x, Bf16* to) {
  const uint32_t half = a.pairs ? a.pairs : a.dim / 2;
  if (norm) {
    double squares = 0;
    for (uint32_t i = 0; i < a.dim; ++i) squares += double(x[i]) * x[i];
    double factor = 1 / std::sqrt(squares / a.dim + a.epsilon);
    for (uint32_t i = 0; i < a.dim; ++i) x[i] = float(x[i] * factor * (widen_bf16(norm[i]) + a.offset));
  }
  for (uint32_t i = 0; i < half; ++i) {
    float angle = float(position) * a.frequencies[i];
    double sine = std::sin(double(angle)) * a.scale, cosine = std::cos(double(angle)) * a.scale;
    to[i] = narrow_bf16(first_half(x[i], x[i + half], sine, cosine));
    to[i + half] = narrow_bf16(second_half(x[i], x[i + half], sine, cosine));
  }
  for (uint32_t i = 2 * half; i < a.dim; ++i) to[i] = narrow_bf16(x[i]);
}

static_assert(kMostFp8 == kMostOfFp8);

// Numbers of one head's key or value, and its scale, into the cache as codes (attention_kernels.h).
void store_codes(KvCodes codes, const Bf16* x, uint32_t dim, void* to, float& scale) {
  float most = 0;
  bool finite = true;
  for (uint32_t i = 0; i < dim; ++i)
    most = std::max(most, std::fabs(widen_bf16(x[i]))), finite &= std::isfinite(widen_bf16(x[i]));
  scale = finite ? most / (codes == KvCodes::kInt8 ? kMostInt8 : kMostFp8) : NAN;
  const float factor = finite && scale > 0 && std::isfinite(1 / scale) ? 1 / scale : 0;
  for (uint32_t i = 0; i < dim; ++i) {
    const float number = factor > 0 ? widen_bf16(x[i]) * factor : 0;
    static_cast<uint8_t*>(to)[i] = codes == KvCodes::kInt8 ? uint8_t(int8_t(std::lrintf(number))) : fp8_from(number);
  }
}

// Head `head` of the row's keys, or values, at a slot.
enum class Of : uint32_t { kKeys, kValues };
void store_cached(const RopeStore& a, Of of, uint32_t slot, uint32_t head, const Bf16* x) {
  const size_t vector = size_t(slot) * a.kv_heads + head;
  Bf16* cache = of == Of::kKeys ? a.k_cache : a.v_cache;
  if (a.codes == KvCodes::kNone)
    std::copy(x, x + a.dim, cache + vector * a.dim);
  else
    store_codes(a.codes, x, a.dim, reinterpret_cast<uint8_t*>(cache) + vector * a.dim,
                a.scales[2 * vector + size_t(of)]);
}

// The numbers of a vector of the cache. A: what has one.
template <class A>
void read_cached(const A& a, Of of, size_t vector, float* x) {
  const Bf16* cache = of == Of::kKeys ? a.k_cache : a.v_cache;
  const uint8_t* codes = reinterpret_cast<const uint8_t*>(cache) + vector * a.dim;
  for (uint32_t i = 0; i < a.dim; ++i) {
    if (a.codes == KvCodes::kNone)
      x[i] = widen_bf16(cache[vector * a.dim + i]);
    else
      x[i] = a.scales[2 * vector + size_t(of)] *
             (a.codes == KvCodes::kInt8 ? float(int8_t(codes[i])) : fp8_value(codes[i]));
  }
}

// Attention of one query head over the first `length` positions of a sequence. A: DecodeAttention or PrefillAttention.
template <class A>
void attend(const A& a, size_t row, uint32_t head, uint32_t length, const uint32_t* table) {
  uint32_t kv_head = head / (a.heads / a.kv_heads);
  uint32_t from = a.window && length > a.window ? length - a.window : 0;
  const Bf16* q = a.q + (row * a.heads + head) * a.dim;
  Bf16* out = a.out + (row * a.heads + head) * a.dim;
  std::vector<float> vector(a.dim);
  auto read = [&](Of of, uint32_t position) {
    size_t block = table[position / a.block_size];
    read_cached(a, of, (block * a.block_size + position % a.block_size) * a.kv_heads + kv_head, vector.data());
  };
  std::vector<double> scores, sum(a.dim);
  const double sink = a.sinks ? a.sinks[head] : -INFINITY;
  double highest = sink, total = 0;
  for (uint32_t p = from; p < length; ++p) {
    double dot = 0;
    read(Of::kKeys, p);
    for (uint32_t i = 0; i < a.dim; ++i) dot += double(widen_bf16(q[i])) * vector[i];
    scores.push_back(a.cap > 0 ? a.cap * std::tanh(dot * a.scale / a.cap) : dot * a.scale);
    highest = std::max(highest, scores.back());
  }
  for (uint32_t p = from; p < length; ++p) {
    double w = std::exp(scores[p - from] - highest);
    total += w;
    read(Of::kValues, p);
    for (uint32_t i = 0; i < a.dim; ++i) sum[i] += w * vector[i];
  }
  if (a.sinks) total += std::exp(sink - highest);
  for (uint32_t i = 0; i < a.dim; ++i) out[i] = narrow_bf16(total > 0 ? float(sum[i] / total) : 0.f);
}

}  // namespace

void rope_store(const RopeStore& a) {
  size_t width = size_t(a.heads + 2 * a.kv_heads) * a.dim;
  std::vector<float> x(a.dim);
  std::vector<Bf16> stored(a.dim);
  for (size_t t = 0; t < a.tokens; ++t) {
    const Bf16* in = a.qkv + t * width;
    for (uint32_t h = 0; h < a.heads; ++h) {
      read_head(a, in, h, x.data());
      turn(a, a.positions[t], a.q_norm, x.data(), a.q + (t * a.heads + h) * a.dim);
    }
    if (a.slots[t] == kNoSlot) continue;
    for (uint32_t h = 0; h < a.kv_heads; ++h) {
      read_head(a, in, a.heads + h, x.data());
      turn(a, a.positions[t], a.k_norm, x.data(), stored.data());
      store_cached(a, Of::kKeys, a.slots[t], h, stored.data());
      read_head(a, in, a.heads + a.kv_heads + h, x.data());
      std::transform(x.begin(), x.end(), stored.begin(), narrow_bf16);
      store_cached(a, Of::kValues, a.slots[t], h, stored.data());
    }
  }
}

void decode_attention(const DecodeAttention& a) {
  for (uint32_t row = 0; row < a.rows; ++row) {
    const uint32_t* table = a.tables + (a.starts ? a.starts[row] : size_t(row) * a.table_width);
    for (uint32_t head = 0; head < a.heads; ++head) attend(a, row, head, a.lengths[row], table);
  }
}

void prefill_attention(const PrefillAttention& a) {
  for (uint32_t i = 0; i < a.count; ++i) {
    const Chunk& chunk = a.chunks[a.tiles[i].chunk];
    for (uint32_t at = a.tiles[i].query; at < std::min(a.tiles[i].query + kQueryTile, chunk.count); ++at)
      for (uint32_t head = 0; head < a.heads; ++head)
        attend(a, chunk.first + at, head,
               chunk.begin + (a.mask == PrefillAttention::kBidirectional ? chunk.count : at + 1),
               a.tables + chunk.table);
  }
}

}  // namespace weir::llm::cuda::reference
