#include "engines/llm/cuda/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "engines/llm/cuda/bf16.h"

namespace weir::llm::cuda::reference {
namespace {

constexpr float kOne = 8589934592.f;  // 2^33, as in draw.cu

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Integers in the order of the logits, as in draw.cu.
uint32_t order_of(float value) {
  if (std::isnan(value)) return 0;
  auto bits = std::bit_cast<uint32_t>(value + 0.f);  // the two zeros are equal
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

uint32_t draw_row(const float* logits, uint32_t size, const DrawRow& params) {
  if (std::none_of(logits, logits + size, [](float logit) { return logit > -INFINITY; })) return kNoToken;
  std::vector<uint32_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0u);
  auto before = [&](uint32_t a, uint32_t b) {
    return order_of(logits[a]) != order_of(logits[b]) ? order_of(logits[a]) > order_of(logits[b]) : a < b;
  };
  if (params.temperature <= 0) return *std::min_element(ids.begin(), ids.end(), before);
  std::sort(ids.begin(), ids.end(), before);
  float highest = logits[ids[0]];
  auto weight = [&](uint32_t id) {
    return logits[id] > -INFINITY ? uint64_t(std::exp((logits[id] - highest) / params.temperature) * kOne) : 0;
  };
  if (params.top_k > 0 && params.top_k < size) ids.resize(params.top_k);
  uint64_t total = 0;
  for (auto id : ids) total += weight(id);
  if (params.top_p < 1) {
    auto share = std::max<uint64_t>(uint64_t(double(params.top_p) * double(total)), 1);
    uint64_t sum = 0;
    size_t kept = 0;
    while (kept < ids.size() && sum < share) sum += weight(ids[kept++]);
    ids.resize(kept);
  }
  if (params.min_p > 0)
    std::erase_if(ids, [&](uint32_t id) { return logits[id] < highest + params.temperature * std::log(params.min_p); });
  std::vector<uint32_t> order = ids;
  std::sort(order.begin(), order.end());
  total = 0;
  for (auto id : order) total += weight(id);
  auto target = uint64_t(uniform(params.seed, params.number) * double(total));
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
  for (size_t t = 0; t < a.tokens; ++t) {
    uint32_t id = a.sampled && a.ids[t] & kSampled ? a.sampled[a.ids[t] & ~kSampled] : a.ids[t];
    if (id == kNoToken) id = 0;
    for (size_t i = 0; i < a.hidden; ++i)
      a.stream[t * a.hidden + i] = a.scale * widen_bf16(a.table[size_t(id) * a.hidden + i]);
  }
}

void patch(const Patch& a) {
  for (size_t i = 0; i < a.count; ++i)
    std::memcpy(a.stream + size_t(a.tokens[i]) * a.hidden, a.features + i * a.hidden, a.hidden * sizeof(float));
}

void embed_text(const EmbedText& a) {
  for (size_t t = 0; t < a.tokens; ++t)
    for (size_t i = 0; i < a.hidden; ++i) {
      float x = widen_bf16(a.words[size_t(a.ids[t]) * a.hidden + i]);
      if (a.kinds) x += a.types[size_t(a.kinds[t]) * a.hidden + i];
      a.stream[t * a.hidden + i] = x + a.places[size_t(a.positions[t]) * a.hidden + i];
    }
}

void layer_norm(const LayerNorm& a) {
  for (size_t t = 0; t < a.tokens; ++t) {
    float* x = a.stream + t * a.hidden;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < a.hidden; ++i) sum += x[i];
    const double mean = sum / a.hidden;
    for (uint32_t i = 0; i < a.hidden; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(squares / a.hidden + a.epsilon);
    for (uint32_t i = 0; i < a.hidden; ++i) {
      x[i] = float((x[i] - mean) * factor * a.weight[i] + a.bias[i]);
      a.out[t * a.hidden + i] = narrow_bf16(x[i]);
    }
  }
}

void gelu(const Gelu& a) {
  for (size_t t = 0; t < a.tokens; ++t)
    for (size_t i = 0; i < a.width; ++i) {
      Bf16& at = a.rows[t * a.width + i];
      const double x = double(widen_bf16(at)) + a.bias[i];
      const double gate = a.curve == Gelu::kExact ? std::erf(x / std::sqrt(2.0))
                                                  : std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
      at = narrow_bf16(float(x / 2 * (1 + gate)));
    }
}

void matmul(const Matmul& a) {
  std::vector<float> all(size_t(a.rows) * a.inputs), w(a.inputs);
  std::transform(a.x, a.x + all.size(), all.begin(), widen_bf16);
  for (uint32_t o = 0; o < a.outputs; ++o) {
    read_numbers(a.weight, o, a.inputs, w.data());
    for (size_t r = 0; r < a.rows; ++r) {
      const float* x = &all[r * a.inputs];
      double sums[4] = {};  // four chains, for speed
      size_t i = 0;
      for (; i + 4 <= a.inputs; i += 4)
        for (size_t j = 0; j < 4; ++j) sums[j] += double(x[i + j]) * w[i + j];
      for (; i < a.inputs; ++i) sums[0] += double(x[i]) * w[i];
      double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * a.scale + (a.bias ? a.bias[o] : 0.f);
      size_t at = r * a.outputs + o;
      switch (a.into) {
        case Matmul::Into::kBf16: static_cast<Bf16*>(a.out)[at] = narrow_bf16(float(sum)); break;
        case Matmul::Into::kF32: static_cast<float*>(a.out)[at] = float(sum); break;
        case Matmul::Into::kAddF32: static_cast<float*>(a.out)[at] += float(sum); break;
      }
    }
  }
}

void adjust(const Adjust& a) {
  for (size_t i = 0; i < a.count; ++i) {
    const AdjustRow& row = a.rows[i];
    float* x = a.adjusted + i * a.vocabulary;
    std::memcpy(x, a.logits + size_t(row.row) * a.vocabulary, a.vocabulary * sizeof(float));
    std::vector<Change> changes(a.changes + row.first, a.changes + row.first + row.count);
    if (uint32_t last = row.last == kNoIndex ? kNoToken : a.sampled[row.last]; last < a.vocabulary) {
      auto named = std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.id == last; });
      if (named == changes.end()) named = changes.insert(named, {last, 0, 0, 0});
      ++named->generated, named->flags |= Change::kWasThere;
    }
    for (const auto& change : changes) {
      float& logit = x[change.id];
      logit += change.bias;
      if (change.flags & Change::kWasThere) logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
      if (change.generated > 0) logit -= row.presence + row.frequency * float(change.generated);
      if (change.flags & Change::kNever) logit = -INFINITY;
    }
    if (row.mask == kNoIndex) continue;
    const uint32_t* mask = a.masks + row.mask;
    for (uint32_t id = 0; id < a.vocabulary; ++id)
      if (!(mask[id / 32] >> id % 32 & 1)) x[id] = -INFINITY;
  }
}

namespace {

double log_sum(const float* logits, uint32_t size) {
  double highest = *std::max_element(logits, logits + size), sum = 0;
  for (size_t i = 0; i < size; ++i) sum += std::exp(logits[i] - highest);
  return highest + std::log(sum);
}

}  // namespace

void logprobs(const Logprobs& a) {
  std::vector<uint32_t> order;
  for (size_t i = 0; i < a.count; ++i) {
    const LogprobRow& row = a.rows[i];
    const float* logits = a.logits + size_t(row.row) * a.vocabulary;
    double base = log_sum(logits, a.vocabulary);
    uint32_t id = a.ids[row.id];
    a.logprobs[i] = id < a.vocabulary ? float(logits[id] - base) : -INFINITY;
    order.clear();
    for (uint32_t v = 0; v < a.vocabulary; ++v)
      if (!std::isnan(logits[v])) order.push_back(v);
    size_t count = std::min<size_t>(row.top, order.size());
    std::partial_sort(order.begin(), order.begin() + ptrdiff_t(count), order.end(),
                      [&](uint32_t x, uint32_t y) { return logits[x] != logits[y] ? logits[x] > logits[y] : x < y; });
    for (size_t k = 0; k < a.most; ++k) {
      a.best_ids[i * a.most + k] = k < count ? order[k] : kNoToken;
      a.best[i * a.most + k] = k < count ? float(logits[order[k]] - base) : -INFINITY;
    }
  }
}

void draw(const Draw& a) {
  for (size_t i = 0; i < a.rows; ++i) {
    uint32_t from = a.from ? a.from[i] : uint32_t(i);
    size_t to = a.to ? a.to[i] : i;
    const float* logits = from & kAdjusted ? a.adjusted + size_t(from & ~kAdjusted) * a.vocabulary
                                           : a.logits + size_t(from) * a.vocabulary;
    a.ids[to] = draw_row(logits, a.vocabulary, a.params[i]);
    if (!a.logprobs) continue;
    const uint32_t id = a.ids[to];
    a.logprobs[to] = id == kNoToken ? -INFINITY : float(logits[id] - log_sum(logits, a.vocabulary));
  }
}

void gather(const Gather& a) {
  for (size_t i = 0; i < a.count; ++i)
    std::memcpy(a.out + i * a.width, a.in + size_t(a.which[i]) * a.width, a.width * sizeof(Bf16));
}

namespace {

// A kernel of the table is the function above, done at once.
template <class A, void (*function)(const A&)>
Code now(const Launch&, const A& a) {
  function(a);
  return 0;
}
Code open(int32_t, void*, Matmuls** out) {
  *out = nullptr;
  return 0;
}
Code close(Matmuls*) { return 0; }
Code load(int32_t) { return 0; }
Code multiply(const Launch&, Matmuls*, const Matmul& a) {
  if (a.into == Matmul::Into::kBf16 && a.bias) return kBadShape;
  if (a.weight.format != Format::kBf16 && !is_coded_right(a.weight, a.inputs)) return kBadShape;
  matmul(a);
  return 0;
}
Code multiply_pairs(const Launch&, const ExpertMatmul& a) {
  if (a.weight.format != Format::kBf16 && !is_coded_right(a.weight, a.inputs)) return kBadShape;
  expert_matmul(a);
  return 0;
}

}  // namespace

const Kernels& table() {
  static constexpr Kernels kTable = {
      kKernelsAbi,
      now<Embed, embed>,
      now<AddNorm, add_norm>,
      now<RopeStore, rope_store>,
      now<SwiGlu, swiglu>,
      now<DecodeAttention, attend_turned>,
      now<Draw, draw>,
      now<Gather, gather>,
      now<Patch, patch>,
      now<PrefillAttention, prefill_attention>,
      open,
      close,
      multiply,
      now<Adjust, adjust>,
      now<Logprobs, logprobs>,
      now<ReadOut, read_out>,
      now<Pool, pool>,
      now<EmbedText, embed_text>,
      now<LayerNorm, layer_norm>,
      now<Gelu, gelu>,
      now<NormMatmul, norm_matmul>,
      load,
      {now<Route, route>, now<PlacePairs, place_pairs>, multiply_pairs, now<AddExperts, add_experts>},
      now<AddNormed, add_normed>,
      now<NormWhole, norm_whole>,
      now<SoftCap, soft_cap>,
      &kCollectives};
  return kTable;
}

}  // namespace weir::llm::cuda::reference
