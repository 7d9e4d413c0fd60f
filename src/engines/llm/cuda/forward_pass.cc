#include "engines/llm/cuda/forward_pass.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/launches.h"
#include "engines/llm/cuda/wgmma_check.h"

namespace weir::llm::cuda {

using base::Status;
using device::Copy;
using device::Way;
using Into = Matmul::Into;

namespace {

constexpr uint64_t kLeastParts = uint64_t(256) << 10;
constexpr uint64_t kPartsShare = 32;  // one part in so many of a device's memory, for attention over long texts

float embedding_scale(const Shape& shape) {
  const float scale = shape.embedding_scale;
  return shape.embedding_rounded ? widen_bf16(narrow_bf16(scale)) : scale;
}

}  // namespace

Status ForwardPass::reserve_parts(uint32_t rows, uint32_t parts) {
  auto memory = queue_.device().memory();
  if (!memory) return memory.error();
  const uint64_t most = memory->free == UINT64_MAX ? 0 : memory->total / kPartsShare;
  auto bytes = [&](uint32_t of) { return part_memory(of, shape_.heads, shape_.head_dim, parts).bytes; };
  auto made = queue_.device().buffer(std::max({std::min(bytes(rows), most), bytes(1), kLeastParts}));
  if (!made) return made.error();
  parts_ = std::move(*made);
  return zero_arrived(rows);
}

Status ForwardPass::zero_arrived(uint32_t rows) {
  const size_t bytes = size_t(rows) * shape_.kv_heads * head_blocks(shape_.heads, shape_.kv_heads) * sizeof(uint32_t);
  auto made = queue_.device().buffer(bytes);
  if (!made) return made.error();
  arrived_ = std::move(*made), most_at_once_ = rows;
  device::PinnedBlock zeros;
  return each([&] { return queue_.fit(zeros, bytes); },
              [&] {
                std::memset(zeros.data(), 0, bytes);
                return queue_.copy(Way::kToDevice, Copy{arrived_.data(), zeros.data(), bytes});
              },
              [&] { return queue_.drain(); });
}

Status ForwardPass::run(const QueuedStep& queued) {
  rows_ = uint32_t(queued.layout.plan.ids.size());
  auto status = each([&] { return queue_.is_first_rank() ? embed(queued) : Status(); },
                     [&] { return queue_.broadcast(memory_.residual, size_t(rows_) * shape_.hidden); });
  for (uint32_t i = 0; i < shape_.layers && status.ok(); ++i) status = run_layer(queued, i);
  if (!queue_.is_first_rank()) return status;
  return each([&] { return status; }, [&] { return norm(weights_.norm); }, [&] { return pool(queued); });
}

Status ForwardPass::embed(const QueuedStep& queued) {
  const auto& step = queued.step;
  auto status = queue_.launch(queue_.kernels().embed, Embed{memory_.residual, weights_.embedding, queued.at.ids, rows_,
                                                            shape_.hidden, memory_.sampled, embedding_scale(shape_)});
  if (!status.ok() || step.patches.empty()) return status;
  return queue_.launch(queue_.kernels().patch, Patch{memory_.residual, queued.at.features, queued.at.patched,
                                                     uint32_t(step.patches.size()), shape_.hidden});
}

Status ForwardPass::norm(const Bf16* weight) {
  return queue_.launch(queue_.kernels().add_norm, AddNorm{memory_.residual, nullptr, weight, memory_.normed, rows_,
                                                          shape_.hidden, shape_.epsilon, nullptr, norm_offset(shape_)});
}

Status ForwardPass::norm_heads(const DeviceLayer& layer) {
  if (!shape_.qk_norm_whole) return {};
  return queue_.launch(queue_.kernels().norm_whole,
                       NormWhole{memory_.qkv, layer.q_norm, layer.k_norm, rows_, shape_.heads * shape_.head_dim,
                                 shape_.kv_heads * shape_.head_dim, shape_.epsilon, layer.qkv_bias});
}

// The first rank adds its part to the residual stream, and the others', which have no use for theirs any more, write
// their parts in its place: the sum of both is the stream of all.
Status ForwardPass::add_product(const AddedProduct& a) {
  if (a.norm) return add_normed(a);
  const Into into = queue_.is_first_rank() ? Into::kAddF32 : Into::kF32;
  return each(
      [&] {
        return queue_.multiply(a.x, rows_, a.weight, a.bias, shape_.hidden, a.inputs, memory_.residual, into,
                               shape_.residual_scale);
      },
      [&] { return queue_.all_reduce(memory_.residual, size_t(rows_) * shape_.hidden); });
}

// The product lies where the gates were: they are not needed any more, or not yet. No such model is split over devices
// (tensor_split.h).
Status ForwardPass::add_normed(const AddedProduct& a) {
  const uint32_t hidden = shape_.hidden;
  auto* branch = reinterpret_cast<float*>(memory_.gates);
  return each([&] { return queue_.multiply(a.x, rows_, a.weight, a.bias, hidden, a.inputs, branch, Into::kF32); },
              [&] {
                return queue_.launch(
                    queue_.kernels().add_normed,
                    AddNormed{memory_.residual, branch, a.norm, rows_, hidden, shape_.epsilon, norm_offset(shape_)});
              });
}

// Most of a prompt is there for its keys and values only: the rest of the last layer is for what somebody wants. The
// queries are not needed any more, nor the gates yet.
Status ForwardPass::drop_unwanted(const QueuedStep& queued) {
  rows_ = uint32_t(queued.layout.trim.kept.size());
  if (rows_ == 0) return {};
  const uint32_t q = shape_.heads * shape_.head_dim, wide = 2 * shape_.hidden;
  auto gather = [&](const Bf16* from, Bf16* to, uint32_t width) {
    return queue_.launch(queue_.kernels().gather, Gather{from, queued.at.kept, to, rows_, width});
  };
  const Copy back[] = {{memory_.mixed, memory_.queries, size_t(rows_) * q * sizeof(Bf16)},
                       {memory_.residual, memory_.gates, size_t(rows_) * wide * sizeof(Bf16)}};
  return each([&] { return gather(memory_.mixed, memory_.queries, q); },
              [&] { return gather(reinterpret_cast<const Bf16*>(memory_.residual), memory_.gates, wide); },
              [&] { return queue_.copy(Way::kOnDevice, back); });
}

Status ForwardPass::run_layer(const QueuedStep& queued, uint32_t index) {
  const DeviceLayer& layer = weights_.layers[index];
  auto status = each([&] { return run_attention(queued, index); },
                     [&] { return trims(queued, index) ? drop_unwanted(queued) : Status(); });
  if (!status.ok() || rows_ == 0) return status;
  return each(
      [&] {
        return add_product(
            {memory_.mixed, layer.out, layer.out_bias, shape_.heads * shape_.head_dim, layer.attention_norm});
      },
      [&] { return layer.experts.router ? run_experts(layer) : run_mlp(layer); },
      [&] { return read_out(queued, index); });
}

RopeStore ForwardPass::rope_of_layer(const QueuedStep& queued, uint32_t layer) const {
  RopeStore rope = rope_of(shape_, weights_, layer);
  rope.qkv = memory_.qkv, rope.positions = queued.at.positions, rope.slots = queued.at.slots, rope.tokens = rows_;
  rope.q = memory_.queries, rope.k_cache = cache_.keys(layer), rope.v_cache = cache_.values(layer);
  rope.codes = cache_.codes(), rope.scales = cache_.scales(layer);
  return rope;
}

Status ForwardPass::run_attention(const QueuedStep& queued, uint32_t index) {
  const DeviceLayer& layer = weights_.layers[index];
  const uint32_t outputs = (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
  return each(
      [&] {
        return multiply_normed({memory_.residual, layer.input_norm, layer.qkv, memory_.qkv, rows_, outputs,
                                shape_.hidden, shape_.epsilon, NormMatmul::kPlain});
      },
      [&] { return norm_heads(layer); },
      [&] {
        return turns_in_attention(queued) ? Status()
                                          : queue_.launch(queue_.kernels().rope_store, rope_of_layer(queued, index));
      },
      [&] { return decode_attention(queued, index); }, [&] { return prefill_attention(queued, index); });
}

Status ForwardPass::multiply_normed(NormMatmul a) {
  a.kind = gate_of(shape_.activation), a.offset = norm_offset(shape_);
  if (a.norm && a.rows <= kNormRows && a.inputs % 8 == 0) return queue_.launch(queue_.kernels().norm_matmul, a);
  const bool gates = a.into == NormMatmul::kSwiGlu;
  return each(
      [&] { return norm(a.norm); },
      [&] {
        return queue_.multiply(memory_.normed, a.rows, a.weight, nullptr, gates ? 2 * a.outputs : a.outputs, a.inputs,
                               gates ? memory_.gates : a.out, Into::kBf16);
      },
      [&] {
        if (!gates) return Status();
        return queue_.launch(queue_.kernels().swiglu, SwiGlu{memory_.gates, a.out, a.rows, a.outputs, a.bias, a.kind});
      });
}

Status ForwardPass::run_mlp(const DeviceLayer& layer) {
  const uint32_t hidden = shape_.hidden, inner = shape_.intermediate;
  return each(
      [&] {
        return multiply_normed({memory_.residual, layer.post_norm, layer.gate_up, memory_.gated, rows_, inner, hidden,
                                shape_.epsilon, NormMatmul::kSwiGlu, layer.gate_up_bias});
      },
      [&] {
        return add_product({memory_.gated, layer.down, layer.down_bias, inner, layer.mlp_norm});
      });
}

// Attention of rows of one token: of as many at a time as there is memory for the parts of. A row's result does not
// depend on the others.
Status ForwardPass::decode_attention(const QueuedStep& queued, uint32_t layer) {
  const auto rows = uint32_t(queued.layout.plan.lengths.size()), parts = queued.layout.parts;
  auto memory_of = [&](uint32_t count) { return part_memory(count, shape_.heads, shape_.head_dim, parts); };
  uint32_t at_once = std::clamp(rows, 1u, most_at_once_);
  while (at_once > 1 && memory_of(at_once).bytes > parts_.size()) at_once = (at_once + 1) / 2;
  const auto memory = memory_of(at_once);
  auto at = [&](size_t offset) { return reinterpret_cast<float*>(parts_.data() + offset); };
  const size_t width = size_t(shape_.heads) * shape_.head_dim;
  Status status;
  for (uint32_t first = 0; first < rows && status.ok(); first += at_once) {
    DecodeAttention a{};
    a.q = memory_.queries + first * width, a.k_cache = cache_.keys(layer), a.v_cache = cache_.values(layer);
    a.tables = queued.at.tables, a.lengths = queued.at.lengths + first, a.starts = queued.at.starts + first;
    a.part_out = at(memory.out), a.part_max = at(memory.max), a.part_sum = at(memory.sum);
    a.out = memory_.mixed + first * width, a.rows = std::min(at_once, rows - first);
    a.heads = shape_.heads, a.kv_heads = shape_.kv_heads, a.dim = shape_.head_dim;
    a.block_size = cache_.block_size(), a.parts = parts, a.window = shape_.windows[layer],
    a.scale = shape_.score_scale(), a.cap = shape_.attention_cap, a.sinks = weights_.layers[layer].sinks;
    a.arrived = reinterpret_cast<uint32_t*>(arrived_.data());
    a.codes = cache_.codes(), a.scales = cache_.scales(layer);
    if (turns_in_attention(queued)) {
      a.turn = rope_of_layer(queued, layer);
      a.turn.qkv += first * (width + 2 * size_t(shape_.kv_heads) * shape_.head_dim);
      a.turn.positions += first, a.turn.slots += first;
    }
    status = queue_.launch(queue_.kernels().decode_attention, a);
  }
  return status;
}

Status ForwardPass::choose_prefill(Wgmma wanted) {
  if (cache_.codes() != KvCodes::kNone) wanted = Wgmma::kOff;  // it knows no codes
  auto chosen = cuda::choose_prefill(queue_, shape_, wanted, queue_.device().info());
  if (!chosen) return chosen.error();
  prefill_with_ = *chosen;
  return {};
}

// Attention of all other rows.
Status ForwardPass::prefill_attention(const QueuedStep& queued, uint32_t layer) {
  const bool last = trims(queued, layer);
  const auto& tiles = last ? queued.layout.trim.tiles : queued.layout.plan.tiles;
  if (tiles.empty()) return {};
  PrefillAttention a{};
  a.q = memory_.queries, a.k_cache = cache_.keys(layer), a.v_cache = cache_.values(layer);
  a.tables = queued.at.tables, a.chunks = queued.at.chunks;
  a.tiles = last ? queued.at.last_tiles : queued.at.tiles, a.out = memory_.mixed;
  a.count = uint32_t(tiles.size()), a.heads = shape_.heads, a.kv_heads = shape_.kv_heads;
  a.dim = shape_.head_dim, a.block_size = cache_.block_size(), a.window = shape_.windows[layer],
  a.scale = shape_.score_scale(), a.cap = shape_.attention_cap, a.sinks = weights_.layers[layer].sinks;
  a.with = prefill_with_, a.codes = cache_.codes(), a.scales = cache_.scales(layer);
  return queue_.launch(queue_.kernels().prefill_attention, a);
}

Status ForwardPass::read_out(const QueuedStep& queued, uint32_t layer) {
  if (queued.step.readouts.empty() || !queue_.is_first_rank()) return {};
  const auto concepts = uint32_t(readouts_.concepts.size()), count = uint32_t(queued.step.readouts.size());
  auto* out = reinterpret_cast<float*>(queued.out + queued.results.readouts);
  for (size_t l = 0; l < readouts_.layers.size(); ++l) {
    if (readouts_.layers[l] != layer) continue;
    ReadOut a{memory_.residual,
              layer + 1 == shape_.layers ? queued.at.last_read_out : queued.at.read_out,
              weights_.readouts + l * concepts * shape_.hidden,
              out + l * concepts,
              count,
              concepts,
              shape_.hidden,
              uint32_t(readouts_.layers.size()) * concepts};
    if (auto s = queue_.launch(queue_.kernels().read_out, a); !s.ok()) return s;
  }
  return {};
}

Status ForwardPass::pool(const QueuedStep& queued) {
  if (queued.step.pools.empty()) return {};
  auto* out = reinterpret_cast<double*>(queued.out + queued.results.pools);
  return queue_.launch(queue_.kernels().pool,
                       Pool{memory_.normed, queued.at.pools, out, uint32_t(queued.step.pools.size()), shape_.hidden,
                            nullptr, queued.at.pooled});
}

Status ForwardPass::compute_logits(const QueuedStep& queued, Range requests) {
  return each(
      [&] {
        return queue_.launch(queue_.kernels().gather, Gather{memory_.normed, queued.at.which + requests.first,
                                                             memory_.gathered, requests.count, shape_.hidden});
      },
      [&] {
        return queue_.multiply(memory_.gathered, requests.count, weights_.head, nullptr, shape_.vocabulary,
                               shape_.hidden, memory_.logits, Into::kF32, 1 / shape_.logits_divisor);
      },
      [&] {
        if (shape_.logits_cap <= 0) return Status();
        return queue_.launch(queue_.kernels().soft_cap,
                             SoftCap{memory_.logits, requests.count, shape_.vocabulary, shape_.logits_cap});
      });
}

}  // namespace weir::llm::cuda
