#include "engines/llm/cpu/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "engines/llm/step_check.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

constexpr uint32_t kLogitsRows = 32;        // logits that are computed together
constexpr uint32_t kFewRows = 8;            // rows of cheap work that one thread does faster than two
constexpr uint64_t kAttentionPiece = 4096;  // positions looked at, below which a piece is not worth another thread

size_t floats(size_t n) { return n * sizeof(float); }

uint32_t most_rows(const Shape& shape, uint32_t step_tokens) {
  return std::max({step_tokens, kLogitsRows, shape.vision ? shape.vision->patches() : 0});
}

// Whether the model does more to what attention and the MLP add than to add it.
bool changes_branches(const Shape& s) { return s.norms != Norms::kInputs || s.residual_scale != 1; }
size_t branch_stride(const Shape& s) { return (size_t(s.hidden) + 15) / 16 * 16; }

// A token's queries, and its keys, of all heads together.
void norm_whole(const Kernels& kernels, const Layer& layer, float epsilon, float* qkv) {
  for (const auto* weight : {&layer.q_norm, &layer.k_norm}) {
    const size_t n = weight->size();
    const float scale = 1 / std::sqrt(kernels.dot(qkv, qkv, n) / float(n) + epsilon);
    for (size_t i = 0; i < n; ++i) qkv[i] *= scale * (*weight)[i];
    qkv += n;
  }
}

// A row of products becomes logits.
void finish_logits(const Kernels& kernels, const Shape& s, float* logits) {
  if (s.logits_divisor != 1)
    for (uint32_t id = 0; id < s.vocabulary; ++id) logits[id] /= s.logits_divisor;
  if (s.logits_cap > 0) kernels.soft_cap(logits, s.vocabulary, s.logits_cap);
}

float embedding_scale(const Model& model) {
  const float scale = model.shape.embedding_scale;
  const bool rounded = model.shape.embedding_rounded && model.form == WeightFormat::kBf16;
  return rounded ? msg::bf16_to_float(msg::bf16_from(scale)) : scale;
}

// Where a layer's keys and values are.
uint32_t kept_at(const Shape& shape, uint32_t layer) { return shape.encoder ? 0 : layer; }

// The model keeps none of its adapters.
std::shared_ptr<AdapterStore> store_of(Model& model, uint32_t rows, std::function<uint64_t()> free_memory) {
  const uint64_t bytes = model.weight_bytes();
  return std::make_shared<AdapterStore>(
      AdapterStore::Base{model.shape, model.form, bytes, rows, std::move(free_memory)},
      std::exchange(model.adapters, {}));
}

}  // namespace

uint64_t Model::weight_bytes() const {
  uint64_t out = weights.bytes() + (vision_encoder ? vision_encoder->bytes() : 0);
  for (const auto& adapter : adapters) out += adapter.bytes();
  return out;
}

Transformer::Transformer(Model model, const Kernels& kernels, std::unique_ptr<ThreadTeam> team, uint32_t step_tokens,
                         std::function<uint64_t()> free_memory)
    : model_(std::move(model)),
      shape_(model_.shape),
      kernels_(kernels),
      team_(std::move(team)),
      multiply_(kernels_, *team_, most_rows(shape_, step_tokens)),
      adapters_(store_of(model_, std::max(step_tokens, kLogitsRows), std::move(free_memory)), model_.form, kernels_,
                multiply_, *team_, std::max(step_tokens, kLogitsRows)),
      kv_(model_.form, model_.kv_format, shape_.encoder ? 1 : shape_.layers, shape_.kv_heads, shape_.head_dim),
      rotary_(shape_, std::max(step_tokens, kLogitsRows)),
      max_tokens_(step_tokens),
      f_(size_t(model_.form)),
      samplers_(team_->size(), Sampler(kernels_, model_.text->eos_ids, shape_.placeholders())) {
  const size_t rows = std::max(max_tokens_, kLogitsRows);
  const size_t qkv = size_t(shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
  hidden_ = Memory(floats(rows * shape_.hidden));
  normed_ = Memory(rows * activation_stride(model_.form, shape_.hidden));
  mixed_ = Memory(rows * activation_stride(model_.form, shape_.heads * shape_.head_dim));
  gated_ = Memory(rows * activation_stride(model_.form, shape_.intermediate));
  qkv_ = Memory(floats(rows * qkv));
  queries_ = Memory(rows * shape_.heads * kv_.padded_dim() * size_of(model_.form));
  branch_ = Memory(floats(changes_branches(shape_) ? rows * branch_stride(shape_) : 1));
  scratch_ = Memory(floats(team_->size() * attention_scratch(kv_.padded_dim(), kv_.kept())));
  logits_ = Memory(floats(shape_.encoder ? 1 : size_t(kLogitsRows) * shape_.vocabulary));
  if (shape_.experts)
    experts_ = std::make_unique<Experts>(shape_, model_.form, multiply_, *team_, most_rows(shape_, step_tokens));
  if (shape_.vision) aside_ = std::make_unique<Aside>(kernels_, shape_.vision->patches());
  base::check(hidden_ && normed_ && mixed_ && gated_ && qkv_ && queries_ && rotary_ && branch_ && scratch_ && logits_,
              "memory for a step");
}

base::Status Transformer::reserve(uint32_t blocks, uint32_t block_size) {
  auto status = kv_.reserve(blocks, block_size);
  if (status.ok()) promise_.covers(kv_.memory());
  return status;
}

base::Status Transformer::step(Step& step) {
  const StepLimits limits{max_tokens_, shape_.vocabulary, kv_.blocks(), kv_.block_size(),
                          0,           UINT32_MAX};  // adapters_ checks these
  if (auto s = check_step(step, limits); !s.ok()) return s;
  if (auto s = adapters_.begin(step); !s.ok()) return s;
  if (!std::exchange(joined_, true)) team_->join();
  embed(step);
  rotary_.fill(step.positions, *team_);
  keep_all(step);
  for (uint32_t i = 0; i < shape_.layers; ++i) {
    run_layer(step, i);
    read_out(step, i);
  }
  pool(step);
  sample(step);
  adapters_.end();
  return {};
}

void Transformer::embed(const Step& step) {
  float* x = hidden_.as<float>();
  const float scale = embedding_scale(model_);
  team_->run(uint32_t(step.ids.size()), kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t) {
      float* row = x + size_t(t) * shape_.hidden;
      model_.weights.embedding.read_row(step.ids[t], row);
      if (scale != 1)
        for (uint32_t i = 0; i < shape_.hidden; ++i) row[i] *= scale;
    }
  });
  for (const auto& patch : step.patches)
    std::memcpy(x + size_t(patch.token) * shape_.hidden, patch.feature, floats(shape_.hidden));
}

// Pieces of a key head lie side by side: they read the same keys and values.
void Transformer::plan_attention(const Step& step) {
  pieces_.clear();
  attention_work_ = 0;
  for (uint32_t r = 0; r < step.rows.size(); ++r)
    for (uint32_t head = 0; head < shape_.kv_heads; ++head) plan_attention(step, r, head);
}

// A key head's queries are cut so that the rows of a piece fit the kernel; how does not change what they see.
void Transformer::plan_attention(const Step& step, uint32_t r, uint32_t head) {
  const uint32_t group = shape_.heads / shape_.kv_heads, most = std::max(1u, std::min(kAttentionRows, 12u) / group);
  const auto& row = step.rows[r];
  for (uint32_t i = 0; i < row.count;) {
    uint32_t count = 0;
    while (count < most && i + count < row.count && kept_[row.first + i + count]) ++count;
    if (count > 0) pieces_.push_back({r, head, i, count});
    attention_work_ += uint64_t(count) * row.length * group;
    i += std::max(count, 1u);
  }
}

void Transformer::keep_all(const Step& step) {
  rows_ = uint32_t(step.ids.size());
  kept_.assign(rows_, 1);
  at_.resize(rows_);
  std::iota(at_.begin(), at_.end(), 0u);
  plan_attention(step);
}

// Most of a prompt is there for its keys and values only.
void Transformer::keep_wanted(const Step& step) {
  kept_.assign(step.ids.size(), 0);
  for (const auto& request : step.logits_requests) kept_[request.token] = 1;
  for (const auto& readout : step.readouts) kept_[readout.token] = 1;
  for (const auto& pool : step.pools) {
    const auto& row = step.rows[pool.row];
    std::fill_n(kept_.begin() + row.first, row.count, uint8_t(1));
  }
  float* x = hidden_.as<float>();
  rows_ = 0;
  for (uint32_t t = 0; t < kept_.size(); ++t) {
    if (!kept_[t]) continue;
    if (rows_ != t)
      std::memcpy(x + size_t(rows_) * shape_.hidden, x + size_t(t) * shape_.hidden, floats(shape_.hidden));
    at_[t] = rows_++;
  }
  adapters_.keep(step, kept_, at_);
  if (rows_ < kept_.size()) plan_attention(step);
}

void Transformer::norm(const std::vector<float>& weight, uint32_t rows, const float* from, std::byte* to) {
  const size_t stride = activation_stride(model_.form, shape_.hidden);
  team_->run(rows, kFewRows, [&](uint32_t a, uint32_t b, uint32_t) {
    for (uint32_t t = a; t < b; ++t) {
      const float* row = from + size_t(t) * shape_.hidden;
      if (weight.empty())
        kernels_.convert[f_](row, shape_.hidden, to + t * stride);
      else
        kernels_.rms_norm[f_](row, weight.data(), shape_.epsilon, shape_.hidden, to + t * stride);
    }
  });
}

// The residual stream takes what x W^T makes, normalised and scaled where the model does that.
void Transformer::add_product(Activations in, const Matrix& w, const std::vector<float>& norm, uint32_t layer,
                              Adapters::Which which) {
  float* x = hidden_.as<float>();
  if (!changes_branches(shape_)) {
    multiply_.run(in, rows_, w, Multiplier::Into::kAdd, x, shape_.hidden);
    adapters_.add(layer, which, in, x, shape_.hidden);
    return;
  }
  const size_t stride = branch_stride(shape_);
  float* branch = branch_.as<float>();
  multiply_.run(in, rows_, w, Multiplier::Into::kStore, branch, stride);
  adapters_.add(layer, which, in, branch, stride);
  team_->run(rows_, kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t) {
      float *row = branch + t * stride, *sum = x + size_t(t) * shape_.hidden;
      if (!norm.empty())
        kernels_.rms_norm[size_t(WeightFormat::kF32)](row, norm.data(), shape_.epsilon, shape_.hidden,
                                                      reinterpret_cast<std::byte*>(row));
      for (uint32_t i = 0; i < shape_.hidden; ++i) sum[i] += row[i] * shape_.residual_scale;
    }
  });
}

void Transformer::run_layer(const Step& step, uint32_t index) {
  const Layer& layer = model_.weights.layers[index];
  const auto tokens = uint32_t(step.ids.size());
  const size_t hidden_stride = activation_stride(model_.form, shape_.hidden),
               mixed_stride = activation_stride(model_.form, shape_.heads * shape_.head_dim);
  float* x = hidden_.as<float>();
  norm(layer.input_norm, tokens, x, normed_.data());
  multiply_.run({normed_.data(), hidden_stride}, tokens, layer.qkv, Multiplier::Into::kStore, qkv_.as<float>(),
                layer.qkv.outputs);
  adapters_.add(index, &AdapterLayer::qkv, {normed_.data(), hidden_stride}, qkv_.as<float>(), layer.qkv.outputs);
  if (shape_.qk_norm_whole)
    team_->run(tokens, kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
      for (uint32_t t = from; t < to; ++t)
        norm_whole(kernels_, layer, shape_.epsilon, qkv_.as<float>() + size_t(t) * layer.qkv.outputs);
    });
  team_->run(shape_.kv_heads, tokens < kFewRows ? shape_.kv_heads : 1, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t head = from; head < to; ++head) place(step, index, head);
  });
  if (index + 1 == shape_.layers && !shape_.encoder) keep_wanted(step);
  if (rows_ == 0) return;
  attend(step, index);
  add_product({mixed_.data(), mixed_stride}, layer.out, layer.attention_norm, index, &AdapterLayer::out);
  norm(layer.post_norm, rows_, x, normed_.data());
  feed_forward(index);
}

void Transformer::feed_forward(uint32_t index) {
  const Layer& layer = model_.weights.layers[index];
  const Activations normed{normed_.data(), activation_stride(model_.form, shape_.hidden)};
  const size_t gated_stride = activation_stride(model_.form, shape_.intermediate);
  if (layer.experts.router.outputs > 0) return experts_->run(normed, rows_, layer.experts, hidden_.as<float>());
  if (adapters_.change(index, &AdapterLayer::gate_up))
    adapters_.run_gated(index, normed, rows_, layer.gate_up, gated_.data(), gated_stride, shape_.activation);
  else
    multiply_.run_gated(normed, rows_, layer.gate_up, gated_.data(), gated_stride, shape_.activation);
  add_product({gated_.data(), gated_stride}, layer.down, layer.mlp_norm, index, &AdapterLayer::down);
}

// One head's query or key, normalised where the model does that, and as far as it turns turned by its position.
void Transformer::rotate(const float* x, const float* norm, const float* cosines, uint32_t half, float* out) const {
  alignas(64) float normed[1024 + 16];
  if (norm) {
    kernels_.rms_norm[size_t(WeightFormat::kF32)](x, norm, shape_.epsilon, shape_.head_dim,
                                                  reinterpret_cast<std::byte*>(normed));
    x = normed;
  }
  for (uint32_t i = 0; i < half; ++i) {
    float a = x[i], b = x[half + i];
    out[i] = a * cosines[i] - b * cosines[half + i];
    out[half + i] = b * cosines[i] + a * cosines[half + i];
  }
  if (2 * half < shape_.head_dim) std::copy(x + 2 * half, x + shape_.head_dim, out + 2 * half);
}

// The queries of one key head become rows of activations; its keys and values go to their slots.
void Transformer::place(const Step& step, uint32_t index, uint32_t head) {
  const Layer& layer = model_.weights.layers[index];
  const uint32_t dim = shape_.head_dim, padded = kv_.padded_dim(), group = shape_.heads / shape_.kv_heads;
  const auto rows = uint32_t(step.ids.size());
  alignas(64) float turned[1024] = {}, value[1024] = {};  // zeros beyond head_dim stay
  const bool each = shape_.qk_norm && !shape_.qk_norm_whole;
  const float *q_norm = each ? layer.q_norm.data() : nullptr, *k_norm = each ? layer.k_norm.data() : nullptr;
  const uint32_t half = rotary_.half(index);
  for (uint32_t t = 0; t < rows; ++t) {
    const float* cosines = rotary_.at(index, t);
    const float* row = qkv_.as<float>() + size_t(t) * layer.qkv.outputs;
    for (uint32_t g = 0; g < group; ++g) {
      rotate(row + size_t(head * group + g) * dim, q_norm, cosines, half, turned);
      size_t at = (size_t(head) * rows + t) * group + g;
      kernels_.convert[f_](turned, padded, queries_.data() + at * padded * size_of(model_.form));
    }
    rotate(row + size_t(shape_.heads + head) * dim, k_norm, cosines, half, turned);
    std::memcpy(value, row + size_t(shape_.heads + shape_.kv_heads + head) * dim, floats(dim));
    kv_.write(kept_at(shape_, index), head, step.slots[t], turned, value);
  }
}

void Transformer::attend(const Step& step, uint32_t layer) {
  const uint32_t padded = kv_.padded_dim(), group = shape_.heads / shape_.kv_heads;
  const auto rows = uint32_t(step.ids.size());
  const size_t stride = activation_stride(model_.form, shape_.heads * shape_.head_dim), size = size_of(model_.form);
  const auto grain = uint32_t(kAttentionPiece * pieces_.size() / std::max<uint64_t>(attention_work_, 1)) + 1;
  team_->run(uint32_t(pieces_.size()), grain, [&](uint32_t from, uint32_t to, uint32_t thread) {
    for (uint32_t i = from; i < to; ++i) {
      const Span& piece = pieces_[i];
      const auto& row = step.rows[piece.row];
      const uint32_t token = row.first + piece.first;
      Attention a{};
      a.q = queries_.data() + (size_t(piece.head) * rows + token) * group * padded * size;
      a.queries = piece.count, a.group = group, a.head_dim = padded;
      a.position = step.positions[token], a.window = shape_.windows[layer];
      a.scale = shape_.score_scale(), a.cap = shape_.attention_cap;
      a.all = shape_.causal ? 0 : row.length;
      if (const auto& sinks = model_.weights.layers[layer].sinks; !sinks.empty()) a.sinks = &sinks[piece.head * group];
      a.kept = kv_.kept(), a.kv = kv_.of(kept_at(shape_, layer), piece.head), a.block_stride = kv_.block_bytes();
      a.table = step.tables.data() + row.table, a.tiles_per_block = kv_.block_size() / kTile;
      a.out = mixed_.data() + at_[token] * stride + size_t(piece.head) * group * shape_.head_dim * size;
      a.out_stride = stride, a.out_dim = shape_.head_dim;
      a.scratch = scratch_.as<float>() + thread * attention_scratch(padded, kv_.kept());
      kernels_.attend[f_](a);
    }
  });
}

void Transformer::read_out(Step& step, uint32_t layer) {
  const Readouts& r = model_.readouts;
  if (step.readouts.empty()) return;
  const size_t concepts = r.concepts.size();
  for (size_t l = 0; l < r.layers.size(); ++l) {
    if (r.layers[l] != layer) continue;
    for (auto& readout : step.readouts) {
      readout.values.resize(r.layers.size() * concepts);
      const float* x = hidden_of(readout.token);
      for (size_t c = 0; c < concepts; ++c)
        readout.values[l * concepts + c] =
            kernels_.dot(x, r.vectors.data() + (l * concepts + c) * shape_.hidden, shape_.hidden);
    }
  }
}

void Transformer::last_state(uint32_t token, float* out) const {
  kernels_.rms_norm[size_t(WeightFormat::kF32)](hidden_of(token), model_.weights.norm.data(), shape_.epsilon,
                                                shape_.hidden, reinterpret_cast<std::byte*>(out));
}

void Transformer::pool(Step& step) {
  std::vector<float> row;
  for (auto& pool : step.pools) {
    pool.sum.resize(shape_.hidden);
    row.resize((shape_.hidden + 15) / 16 * 16);
    for (uint32_t i = 0; i < step.rows[pool.row].count; ++i) {
      last_state(step.rows[pool.row].first + i, row.data());
      for (uint32_t d = 0; d < shape_.hidden; ++d) pool.sum[d] += double(row[d]);
    }
  }
}

void Transformer::sample(Step& step) {
  const size_t stride = activation_stride(model_.form, shape_.hidden), vocabulary = shape_.vocabulary;
  float* logits = logits_.as<float>();
  for (size_t first = 0; first < step.logits_requests.size(); first += kLogitsRows) {
    const auto n = uint32_t(std::min<size_t>(kLogitsRows, step.logits_requests.size() - first));
    for (uint32_t i = 0; i < n; ++i)
      kernels_.rms_norm[f_](hidden_of(step.logits_requests[first + i].token), model_.weights.norm.data(),
                            shape_.epsilon, shape_.hidden, normed_.data() + i * stride);
    multiply_.run({normed_.data(), stride}, n, model_.weights.output(), Multiplier::Into::kStore, logits, vocabulary);
    if (shape_.logits_cap > 0 || shape_.logits_divisor != 1)
      team_->run(n, 1, [&](uint32_t from, uint32_t to, uint32_t) {
        for (uint32_t i = from; i < to; ++i) finish_logits(kernels_, shape_, logits + i * vocabulary);
      });
    if (logits_for_tests) logits_for_tests->insert(logits_for_tests->end(), logits, logits + n * vocabulary);
    team_->run(n, 1, [&](uint32_t from, uint32_t to, uint32_t thread) {
      for (uint32_t i = from; i < to; ++i)
        samplers_[thread].sample({logits + i * vocabulary, vocabulary}, step.logits_requests[first + i]);
    });
  }
}

base::Result<generation::ImageFeatures> Transformer::encode_image(const msg::Image& image) {
  if (!model_.vision_encoder) return base::failure(base::Code::kUnimplemented, "the model takes no images");
  return model_.vision_encoder->encode_image(image, multiply_, kernels_, *team_);
}

base::Result<generation::ImageFeatures> Transformer::encode_image_aside(const msg::Image& image) {
  if (!model_.vision_encoder) return base::failure(base::Code::kUnimplemented, "the model takes no images");
  return model_.vision_encoder->encode_image(image, aside_->multiply, kernels_, aside_->team);
}

}  // namespace weir::llm
