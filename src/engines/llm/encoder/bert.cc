#include "engines/llm/encoder/bert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "engines/llm/cpu/kv_cache.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

constexpr uint32_t kFewBertRows = 8;            // rows of cheap work that one thread does faster than two
constexpr uint64_t kBertAttentionPiece = 4096;  // positions looked at, below which a piece is not worth another thread

size_t bert_floats(size_t n) { return n * sizeof(float); }
size_t row_floats(uint32_t hidden) { return activation_stride(WeightFormat::kF32, hidden) / sizeof(float); }
uint32_t tiles_of(uint32_t tokens) { return (tokens + kTile - 1) / kTile; }

Shape turning_of(const BertShape& bert) {
  Shape s;
  s.head_dim = bert.turns() ? bert.head_dim() : 1;
  s.rope = bert.rope, s.local_rope = bert.local_rope, s.windows = bert.reaches;
  s.windows.resize(bert.layers);
  return s;
}

}  // namespace

base::Result<std::unique_ptr<Bert>> Bert::make(BertShape shape, BertWeights weights, WeightFormat form,
                                               const Kernels& kernels, std::unique_ptr<ThreadTeam> team,
                                               uint32_t max_length, uint32_t pack_tokens) {
  EncoderLimits limits = limits_of(shape, max_length, pack_tokens);
  base::check(max_length <= shape.max_length(), "texts are no longer than the model's positions");
  std::unique_ptr<Bert> bert(new Bert(std::move(shape), std::move(weights), form, kernels, std::move(team), limits));
  if (!bert->make_room()) return base::failure(base::Code::kResourceExhausted, "no memory to run the model in");
  return bert;
}

Bert::Bert(BertShape shape, BertWeights weights, WeightFormat form, const Kernels& kernels,
           std::unique_ptr<ThreadTeam> team, EncoderLimits limits)
    : shape_(std::move(shape)),
      weights_(std::move(weights)),
      form_(form),
      f_(size_t(form)),
      kernels_(kernels),
      team_(std::move(team)),
      limits_(limits),
      multiply_(kernels_, *team_, limits_.pack_tokens),
      padded_((shape_.head_dim() + 15) / 16 * 16),
      x_stride_(row_floats(shape_.hidden)),
      aside_(form_ != WeightFormat::kF32 || shape_.norms_first),
      turning_(turning_of(shape_)),
      rotary_(turning_, limits_.pack_tokens) {}

bool Bert::make_room() {
  const size_t rows = limits_.pack_tokens, hidden = shape_.hidden;
  x_ = Memory(bert_floats(rows * x_stride_));
  narrow_ = Memory(!aside_ ? 64 : rows * activation_stride(form_, shape_.hidden));
  qkv_ = Memory(bert_floats(rows * 3 * hidden));
  mixed_ = Memory(rows * activation_stride(form_, shape_.hidden));
  inner_ = Memory(rows * activation_stride(form_, shape_.intermediate));
  queries_ = Memory(rows * shape_.heads * padded_ * size_of(form_));
  kv_ = Memory(rows / kTile * shape_.heads * tile_bytes(form_, padded_));
  scratch_ = Memory(bert_floats(team_->size() * attention_scratch(padded_)));
  return x_ && narrow_ && qkv_ && mixed_ && inner_ && queries_ && kv_ && scratch_ && rotary_;
}

Activations Bert::activations() const {
  if (!aside_) return {x_.data(), bert_floats(x_stride_)};
  return {narrow_.data(), activation_stride(form_, shape_.hidden)};
}

base::Status Bert::run(const Pack& pack) {
  const size_t n = pack.ids.size();
  if (n > limits_.pack_tokens || pack.positions.size() != n || (!pack.types.empty() && pack.types.size() != n))
    return base::failure(base::Code::kInternal, "a pack's arrays are too long, or differ");
  keep_pooled(pack);
  plan(pack);
  base::check(tiles_ * kTile <= limits_.pack_tokens, "a pack's texts take no more than there is");
  look_up(pack);
  if (shape_.turns()) rotary_.fill(pack.positions, *team_);
  for (uint32_t i = 0; i < shape_.layers; ++i) run_layer(i, pack);
  if (!weights_.last_norm.weight.empty()) normalize(weights_.last_norm, uint32_t(pack.ids.size()));
  return {};
}

void Bert::state(uint32_t token, float* out) const {
  std::memcpy(out, x_.as<float>() + token * x_stride_, bert_floats(shape_.hidden));
}

void Bert::plan(const Pack& pack) {
  pieces_.clear(), tiles_of_.clear();
  tiles_ = 0, attention_work_ = 0;
  for (uint32_t t = 0; t < pack.texts.size(); ++t) {
    const uint32_t count = pack.texts[t].count;
    tiles_of_.push_back(tiles_);
    tiles_ += tiles_of(count);
    attention_work_ += uint64_t(count) * count * shape_.heads;
    for (uint32_t head = 0; head < shape_.heads; ++head)
      for (uint32_t i = 0; i < count; i += kAttentionRows)
        pieces_.push_back({t, head, i, std::min(kAttentionRows, count - i)});
  }
}

void Bert::look_up(const Pack& pack) {
  const uint32_t hidden = shape_.hidden;
  const auto tokens = uint32_t(pack.ids.size());
  team_->run(tokens, kFewBertRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t) {
      float* x = row(t);
      const size_t word = size_t(pack.ids[t]) * hidden;
      if (form_ == WeightFormat::kF32)
        std::memcpy(x, weights_.words.as<float>() + word, bert_floats(hidden));
      else
        for (uint32_t d = 0; d < hidden; ++d) x[d] = msg::bf16_to_float(weights_.words.as<uint16_t>()[word + d]);
      if (!weights_.types.empty()) {
        const float* type = weights_.types.data() + (pack.types.empty() ? 0 : size_t(pack.types[t]) * hidden);
        for (uint32_t d = 0; d < hidden; ++d) x[d] += type[d];
      }
      if (weights_.positions.empty()) continue;
      const float* position = weights_.positions.data() + size_t(pack.positions[t]) * hidden;
      for (uint32_t d = 0; d < hidden; ++d) x[d] += position[d];
    }
  });
  normalize(weights_.norm, tokens);
}

// In place; with 16-bit numbers the copy that products read is made beside it.
void Bert::normalize(const LayerNorm& norm, uint32_t tokens) {
  const size_t stride = activation_stride(form_, shape_.hidden);
  team_->run(tokens, kFewBertRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t) {
      float* x = row(t);
      kernels_.layer_norm[size_t(WeightFormat::kF32)](x, norm.weight.data(), norm.bias.data(), shape_.epsilon,
                                                      shape_.hidden, reinterpret_cast<std::byte*>(x));
      if (aside_) kernels_.convert[f_](x, shape_.hidden, narrow_.data() + t * stride);
    }
  });
}

// For the products alone: the residual stream stays.
void Bert::normalize_aside(const LayerNorm& norm, uint32_t tokens) {
  const size_t stride = activation_stride(form_, shape_.hidden);
  team_->run(tokens, kFewBertRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t)
      kernels_.layer_norm[f_](row(t), norm.weight.data(), norm.bias.data(), shape_.epsilon, shape_.hidden,
                              narrow_.data() + t * stride);
  });
}

void Bert::run_layer(uint32_t index, const Pack& pack) {
  using Into = Multiplier::Into;
  const BertLayer& layer = weights_.layers[index];
  const auto tokens = uint32_t(pack.ids.size());
  const bool first = shape_.norms_first;
  if (first && !layer.attention_norm.weight.empty()) normalize_aside(layer.attention_norm, tokens);
  multiply_.run(activations(), tokens, layer.qkv, Into::kStore, qkv_.as<float>(), layer.qkv.outputs);
  team_->run(shape_.heads, tokens < kFewBertRows ? shape_.heads : 1, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t head = from; head < to; ++head) place(pack, index, head);
  });
  attend(pack, index);
  multiply_.run({mixed_.data(), activation_stride(form_, shape_.hidden)}, tokens, layer.out, Into::kAdd, x_.as<float>(),
                x_stride_);
  first ? normalize_aside(layer.norm, tokens) : normalize(layer.attention_norm, tokens);
  feed_forward(layer, tokens);
  if (!first) normalize(layer.norm, tokens);
}

void Bert::feed_forward(const BertLayer& layer, uint32_t tokens) {
  using Curve = BertShape::Curve;
  const size_t stride = activation_stride(form_, shape_.intermediate);
  if (shape_.gated) {
    const auto by = shape_.curve == Curve::kSilu   ? Activation::kSilu
                    : shape_.curve == Curve::kGelu ? Activation::kGelu
                                                   : Activation::kGeluTanh;
    multiply_.run_gated(activations(), tokens, layer.up, inner_.data(), stride, by);
  } else {
    auto curve = shape_.curve == Curve::kGelu ? kernels_.gelu[f_] : kernels_.gelu_tanh[f_];
    multiply_.run_curved(activations(), tokens, layer.up, curve, inner_.data(), stride);
  }
  multiply_.run({inner_.data(), stride}, tokens, layer.down, Multiplier::Into::kAdd, x_.as<float>(), x_stride_);
}

// One head's query or key, turned by its position.
void Bert::turn(float* x, uint32_t layer, uint32_t token) const {
  const uint32_t half = rotary_.half(layer);
  const float *cosines = rotary_.at(layer, token), *sines = cosines + half;
  for (uint32_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = a * cosines[i] - b * sines[i];
    x[half + i] = b * cosines[i] + a * sines[i];
  }
}

// One head's queries become rows of activations, its keys and values tiles, text after text.
void Bert::place(const Pack& pack, uint32_t layer, uint32_t head) {
  const uint32_t dim = shape_.head_dim(), hidden = shape_.hidden;
  const size_t size = size_of(form_), tile = tile_bytes(form_, padded_), tokens = pack.ids.size();
  alignas(64) float query[1024] = {}, key[1024] = {}, value[1024] = {};  // zeros beyond the dimensions stay
  for (size_t n = 0; n < pack.texts.size(); ++n) {
    std::byte* to = kv_.data() + (size_t(head) * tiles_ + tiles_of_[n]) * tile;
    for (uint32_t i = 0; i < pack.texts[n].count; ++i) {
      const size_t token = pack.texts[n].first + i;
      const float* from = qkv_.as<float>() + token * 3 * hidden + head * dim;
      std::memcpy(query, from, bert_floats(dim));
      std::memcpy(key, from + hidden, bert_floats(dim));
      std::memcpy(value, from + 2 * hidden, bert_floats(dim));
      if (shape_.turns()) turn(query, layer, uint32_t(token)), turn(key, layer, uint32_t(token));
      kernels_.convert[f_](query, padded_, queries_.data() + (head * tokens + token) * padded_ * size);
      write_tile(form_, padded_, i, key, value, to + i / kTile * tile);
    }
  }
}

void Bert::attend(const Pack& pack, uint32_t layer) {
  const size_t size = size_of(form_), stride = activation_stride(form_, shape_.hidden), tokens = pack.ids.size();
  const auto grain = uint32_t(kBertAttentionPiece * pieces_.size() / std::max<uint64_t>(attention_work_, 1)) + 1;
  team_->run(uint32_t(pieces_.size()), grain, [&](uint32_t from, uint32_t to, uint32_t thread) {
    const uint32_t table = 0;
    for (uint32_t i = from; i < to; ++i) {
      const Span& piece = pieces_[i];
      const Pack::Text& text = pack.texts[piece.text];
      const size_t token = text.first + piece.first;
      Attention a{};
      a.q = queries_.data() + (piece.head * tokens + token) * padded_ * size;
      a.queries = piece.count, a.group = 1, a.head_dim = padded_;
      a.position = piece.first, a.all = text.count, a.reach = turning_.windows[layer];
      a.scale = 1 / std::sqrt(float(shape_.head_dim()));
      a.kv = kv_.data() + (size_t(piece.head) * tiles_ + tiles_of_[piece.text]) * tile_bytes(form_, padded_);
      a.table = &table, a.tiles_per_block = tiles_of(text.count);
      a.out = mixed_.data() + token * stride + size_t(piece.head) * shape_.head_dim() * size;
      a.out_stride = stride, a.out_dim = shape_.head_dim();
      a.scratch = scratch_.as<float>() + thread * attention_scratch(padded_);
      kernels_.attend[f_](a);
    }
  });
}

}  // namespace weir::llm
