// The second half of DeviceTransformer: what is launched for a step.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

}  // namespace

template <class A>
Status DeviceTransformer::launch(Code (*kernel)(const Launch&, const A&), const A& a) {
  return device_.run(stream_, [kernel, a, index = device_.info().index](void* stream) {
    return kernel({index, stream}, a);
  });
}

Status DeviceTransformer::multiply(const Bf16* x, uint32_t rows, const Bf16* weight, const float* bias,
                                   uint32_t outputs, uint32_t inputs, void* out, Matmul::Into into) {
  Matmul a{x, weight, bias, out, rows, outputs, inputs, into};
  return device_.run(stream_,
                     [kernel = kernels_.matmul, matmuls = matmuls_, a, index = device_.info().index](void* stream) {
                       return kernel({index, stream}, matmuls, a);
                     });
}

Status DeviceTransformer::forward(const Step& step) {
  const auto tokens = rows_ = uint32_t(plan_.ids.size());
  auto status =
      launch(kernels_.embed, Embed{stream_rows_, model_.weights.embedding, at_.ids, tokens, shape_.hidden, drawn_});
  if (status.ok() && !step.patches.empty())
    status = launch(kernels_.patch,
                    Patch{stream_rows_, at_.features, at_.patched, uint32_t(step.patches.size()), shape_.hidden});
  for (uint32_t i = 0; i < shape_.layers && status.ok(); ++i) status = run_layer(step, i);
  return each([&] { return status; }, [&] { return norm(model_.weights.norm); }, [&] { return pool(step); });
}

Status DeviceTransformer::norm(const Bf16* weight) {
  return launch(kernels_.add_norm,
                AddNorm{stream_rows_, nullptr, weight, normed_, rows_, shape_.hidden, shape_.epsilon});
}

// Most of a prompt is there for its keys and values only: the rest of the last layer is for what somebody wants. The
// queries are not needed any more, nor the gates yet.
Status DeviceTransformer::drop_unwanted() {
  rows_ = uint32_t(trim_.kept.size());
  const uint32_t q = shape_.heads * shape_.head_dim, wide = 2 * shape_.hidden;
  auto* const stream = reinterpret_cast<const Bf16*>(stream_rows_);
  const Copy back[] = {{mixed_, queries_, size_t(rows_) * q * sizeof(Bf16)},
                       {stream_rows_, gates_, size_t(rows_) * wide * sizeof(Bf16)}};
  if (rows_ == 0) return {};
  return each(
      [&] {
        return launch(kernels_.gather, Gather{mixed_, at_.kept, queries_, rows_, q});
      },
      [&] {
        return launch(kernels_.gather, Gather{stream, at_.kept, gates_, rows_, wide});
      },
      [&] { return device_.copy(stream_, Way::kOnDevice, back); });
}

Status DeviceTransformer::run_layer(const Step& step, uint32_t index) {
  using Into = Matmul::Into;
  const DeviceLayer& layer = model_.weights.layers[index];
  const auto tokens = rows_;
  const bool trims = trim_.any && index + 1 == shape_.layers;
  const uint32_t hidden = shape_.hidden, q = shape_.heads * shape_.head_dim, kv = shape_.kv_heads * shape_.head_dim,
                 wide = shape_.intermediate;
  const size_t cache = size_t(blocks_) * block_size_ * kv;
  Bf16* keys = reinterpret_cast<Bf16*>(kv_.data()) + size_t(2) * index * cache;
  RopeStore rope = rope_of(shape_, model_.weights, layer);
  rope.qkv = qkv_, rope.positions = at_.positions, rope.slots = at_.slots, rope.tokens = tokens;
  rope.q = queries_, rope.k_cache = keys, rope.v_cache = keys + cache;
  auto status =
      each([&] { return norm(layer.input_norm); },
           [&] { return multiply(normed_, tokens, layer.qkv, nullptr, q + 2 * kv, hidden, qkv_, Into::kBf16); },
           [&] { return launch(kernels_.rope_store, rope); }, [&] { return attend(index); },
           [&] { return trims ? drop_unwanted() : Status(); });
  if (!status.ok() || rows_ == 0) return status;
  return each(
      [&] { return multiply(mixed_, rows_, layer.out, layer.out_bias, hidden, q, stream_rows_, Into::kAddF32); },
      [&] { return norm(layer.post_norm); },
      [&] { return multiply(normed_, rows_, layer.gate_up, nullptr, 2 * wide, hidden, gates_, Into::kBf16); },
      [&] {
        return launch(kernels_.swiglu, SwiGlu{gates_, gated_, rows_, wide, layer.gate_up_bias});
      },
      [&] { return multiply(gated_, rows_, layer.down, layer.down_bias, hidden, wide, stream_rows_, Into::kAddF32); },
      [&] { return read_out(step, index); });
}

Status DeviceTransformer::attend(uint32_t layer) {
  const size_t cache = size_t(blocks_) * block_size_ * shape_.kv_heads * shape_.head_dim;
  const Bf16* keys = reinterpret_cast<const Bf16*>(kv_.data()) + size_t(2) * layer * cache;
  const float scale = 1 / std::sqrt(float(shape_.head_dim));
  const auto singles = uint32_t(plan_.lengths.size());
  if (singles > 0) {
    auto memory = part_memory(singles, shape_.heads, shape_.head_dim, part_count_);
    auto at = [&](size_t offset) { return reinterpret_cast<float*>(parts_.data() + offset); };
    DecodeAttention a{queries_,
                      keys,
                      keys + cache,
                      at_.tables,
                      at_.lengths,
                      at(memory.out),
                      at(memory.max),
                      at(memory.sum),
                      mixed_,
                      singles,
                      shape_.heads,
                      shape_.kv_heads,
                      shape_.head_dim,
                      0,
                      block_size_,
                      part_count_,
                      shape_.windows[layer],
                      scale,
                      at_.starts};
    if (auto s = launch(kernels_.decode_attention, a); !s.ok()) return s;
  }
  const bool trims = trim_.any && layer + 1 == shape_.layers;
  const auto& tiles = trims ? trim_.tiles : plan_.tiles;
  if (tiles.empty()) return {};
  PrefillAttention a{queries_,
                     keys,
                     keys + cache,
                     at_.tables,
                     at_.chunks,
                     trims ? at_.last_tiles : at_.tiles,
                     mixed_,
                     uint32_t(tiles.size()),
                     shape_.heads,
                     shape_.kv_heads,
                     shape_.head_dim,
                     block_size_,
                     shape_.windows[layer],
                     scale};
  return launch(kernels_.prefill_attention, a);
}

Status DeviceTransformer::read_out(const Step& step, uint32_t layer) {
  const Readouts& r = model_.readouts;
  if (step.readouts.empty()) return {};
  const auto concepts = uint32_t(r.concepts.size()), count = uint32_t(step.readouts.size());
  auto* out = reinterpret_cast<float*>(results_.data() + flights_[next_flight()].answers.readouts);
  for (size_t l = 0; l < r.layers.size(); ++l) {
    if (r.layers[l] != layer) continue;
    ReadOut a{stream_rows_,
              layer + 1 == shape_.layers ? at_.last_read_out : at_.read_out,
              model_.weights.readouts + l * concepts * shape_.hidden,
              out + l * concepts,
              count,
              concepts,
              shape_.hidden,
              uint32_t(r.layers.size()) * concepts};
    if (auto s = launch(kernels_.read_out, a); !s.ok()) return s;
  }
  return {};
}

Status DeviceTransformer::pool(const Step& step) {
  if (step.pools.empty()) return {};
  auto* out = reinterpret_cast<float*>(results_.data() + flights_[next_flight()].answers.pools);
  return launch(kernels_.pool, Pool{normed_, at_.pools, out, uint32_t(step.pools.size()), shape_.hidden});
}

// Of looks [first, first + count) into rows [0, count).
Status DeviceTransformer::compute_logits(Range logits_requests) {
  return each(
      [&] {
        return launch(kernels_.gather, Gather{normed_, at_.which + logits_requests.first, gathered_,
                                              logits_requests.count, shape_.hidden});
      },
      [&] {
        return multiply(gathered_, logits_requests.count, model_.weights.head, nullptr, shape_.vocabulary,
                        shape_.hidden, logits_, Matmul::Into::kF32);
      });
}

// `bucket`: the graph's, which has computed the logits; or 0.
Status DeviceTransformer::sample(const StepInFlight& flight, uint32_t bucket) {
  const SamplingPlan& logits_requests = flight.logits_requests;
  if (logits_requests.follows) {
    Copy copy{before_, drawn_, drawn_count_ * sizeof(uint32_t)};
    if (auto s = device_.copy(stream_, Way::kOnDevice, {&copy, 1}); !s.ok()) return s;
  }
  if (logits_requests.scores) {  // after the embedding, which may have read what was there
    Copy copy{drawn_, at_.sampled_ids, logits_requests.ids.size() * sizeof(uint32_t)};
    if (auto s = device_.copy(stream_, Way::kOnDevice, {&copy, 1}); !s.ok()) return s;
  }
  for (const auto& group : logits_requests.groups) {
    auto status = each([&] { return bucket > 0 ? Status() : compute_logits(group.logits_requests); },
                       [&] { return logits_for_tests ? show_logits(group.logits_requests) : Status(); },
                       [&] { return draw(group); }, [&] { return weigh(flight, group); });
    if (!status.ok()) return status;
  }
  return {};
}

Status DeviceTransformer::draw(const LookGroup& group) {
  auto draw_range = [&](Range range) {
    if (range.count == 0) return Status();
    return launch(kernels_.draw, Draw{logits_, at_.wishes + range.first, drawn_, nullptr, range.count,
                                      shape_.vocabulary, at_.from + range.first, at_.to + range.first, adjusted_});
  };
  auto status = draw_range(group.draws);
  uint32_t next = group.first_adjusted;
  for (const auto& range : group.adjusts) {
    if (!status.ok()) break;
    status = each(
        [&] {
          return launch(kernels_.adjust, Adjust{logits_, at_.adjusts + range.first, at_.changes, adjusted_, range.count,
                                                shape_.vocabulary, before_});
        },
        [&] {
          return draw_range({next, range.count});
        });
    next += range.count;
  }
  return status;
}

// The logprobs of a group, of what was drawn and of what is scored.
Status DeviceTransformer::weigh(const StepInFlight& flight, const LookGroup& group) {
  const Range range = group.logprobs;
  if (range.count == 0) return {};
  const size_t most = flight.logits_requests.most;
  std::byte* out = results_.data();
  return launch(kernels_.logprobs,
                Logprobs{logits_, at_.logprobs + range.first, drawn_,
                         reinterpret_cast<float*>(out + flight.answers.logprobs) + range.first,
                         reinterpret_cast<uint32_t*>(out + flight.answers.best_ids) + range.first * most,
                         reinterpret_cast<float*>(out + flight.answers.best) + range.first * most, range.count,
                         shape_.vocabulary, uint32_t(most)});
}

DeviceTransformer::Answers DeviceTransformer::answers_of(const Step& step, const SamplingPlan& logits_requests) const {
  Answers a;
  auto room = [&](size_t count) { return std::exchange(a.bytes, a.bytes + aligned(count * sizeof(float))); };
  a.logprobs = room(logits_requests.logprobs.size());
  a.best_ids = room(logits_requests.logprobs.size() * logits_requests.most),
  a.best = room(logits_requests.logprobs.size() * logits_requests.most);
  a.readouts = room(step.readouts.size() * model_.readouts.layers.size() * model_.readouts.concepts.size());
  a.pools = room(step.pools.size() * shape_.hidden);
  a.ids = aligned(logits_requests.ids.size() * sizeof(uint32_t));
  return a;
}

Status DeviceTransformer::tell(const StepInFlight& flight) {
  Copy copies[] = {{flight.out.data(), drawn_, flight.logits_requests.ids.size() * sizeof(uint32_t)},
                   {flight.out.data() + flight.answers.ids, results_.data(), flight.answers.bytes}};
  size_t first = flight.logits_requests.ids.empty(),
         count = size_t(flight.answers.bytes > 0) + !flight.logits_requests.ids.empty();
  return device_.copy(stream_, Way::kToHost, std::span(copies).subspan(first, count));
}

// For tests: the device is waited for.
Status DeviceTransformer::show_logits(Range logits_requests) {
  const size_t count = size_t(logits_requests.count) * shape_.vocabulary;
  if (auto s = fit(shown_, count * sizeof(float)); !s.ok()) return s;
  Copy copy{shown_.data(), logits_, count * sizeof(float)};
  auto status = each([&] { return device_.copy(stream_, Way::kToHost, {&copy, 1}); }, [&] { return drain(); });
  const auto* from = reinterpret_cast<const float*>(shown_.data());
  if (status.ok()) logits_for_tests->insert(logits_for_tests->end(), from, from + count);
  return status;
}

}  // namespace weir::llm::cuda
