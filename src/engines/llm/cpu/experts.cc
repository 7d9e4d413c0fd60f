#include "engines/llm/cpu/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace weir::llm {
namespace {

constexpr size_t kBlockBytes = size_t(256) << 20;  // of a block of rows, where a row takes no more
constexpr uint32_t kSlots = 8192;                  // of a block
constexpr uint32_t kFewRows = 8;                   // rows of cheap work that one thread does faster than two
constexpr float kNoScore = -INFINITY;              // in place of a score that is no number

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

uint32_t rows_of_block(const ExpertShape& shape, uint32_t hidden, WeightFormat form, uint32_t max_rows) {
  const size_t of_slot = activation_stride(form, hidden) + activation_stride(form, shape.width) +
                         activation_stride(form, shape.shared_width) + hidden * sizeof(float);
  return uint32_t(std::clamp<size_t>(std::min<size_t>(kSlots, kBlockBytes / of_slot) / shape.used, 1, max_rows));
}

}  // namespace

Experts::Experts(const Shape& shape, WeightFormat form, Multiplier& multiply, ThreadTeam& team, uint32_t max_rows)
    : shape_(*shape.experts),
      hidden_(shape.hidden),
      activation_(shape.activation),
      scale_(shape.residual_scale),
      form_(form),
      multiply_(multiply),
      team_(team),
      block_(rows_of_block(shape_, hidden_, form, max_rows)),
      orders_(team.size(), std::vector<uint32_t>(shape_.count)),
      choices_(size_t(block_) * shape_.used),
      begins_(shape_.count + 1) {
  const size_t slots = choices_.size();
  scores_ = Memory(size_t(block_) * shape_.count * sizeof(float));
  gathered_ = Memory(slots * activation_stride(form, hidden_));
  gated_ = Memory(
      std::max(slots * activation_stride(form, shape_.width), block_ * activation_stride(form, shape_.shared_width)));
  answers_ = Memory(slots * hidden_ * sizeof(float));
  base::check(scores_ && gathered_ && gated_ && answers_, "memory for a step");
}

void Experts::run(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x) {
  for (uint32_t done = 0; done < rows; done += block_)
    run_block({normed.data + done * normed.stride, normed.stride}, std::min(block_, rows - done), weights,
              x + size_t(done) * hidden_);
}

void Experts::run_block(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x) {
  multiply_.run(normed, rows, weights.router, Multiplier::Into::kStore, scores_.as<float>(), shape_.count);
  choose(rows);
  place(normed, rows);
  answer(weights);
  add(rows, x);
  if (shape_.shared_width > 0) add_shared(normed, rows, weights, x);
}

void Experts::choose(uint32_t rows) {
  team_.run(rows, kFewRows, [&](uint32_t from, uint32_t to, uint32_t thread) {
    for (uint32_t r = from; r < to; ++r)
      choose(scores_.as<float>() + size_t(r) * shape_.count, orders_[thread], &choices_[size_t(r) * shape_.used]);
  });
}

// The best, of equals the first; their shares are of a softmax over all.
void Experts::choose(const float* scores, std::vector<uint32_t>& order, Choice* to) const {
  auto score = [scores](uint32_t e) { return std::isnan(scores[e]) ? kNoScore : scores[e]; };
  std::iota(order.begin(), order.end(), 0u);
  std::partial_sort(order.begin(), order.begin() + shape_.used, order.end(),
                    [&](uint32_t a, uint32_t b) { return score(a) > score(b) || (score(a) == score(b) && a < b); });
  const float best = score(order[0]);
  float all = 0, used = 0;
  for (uint32_t e = 0; e < shape_.count; ++e) all += std::exp(score(e) - best);
  std::sort(order.begin(), order.begin() + shape_.used);
  for (uint32_t i = 0; i < shape_.used; ++i) {
    to[i] = {order[i], 0, std::exp(score(order[i]) - best) / all};
    used += to[i].share;
  }
  if (shape_.normalised)
    for (uint32_t i = 0; i < shape_.used; ++i) to[i].share /= used;
  for (uint32_t i = 0; i < shape_.used; ++i) to[i].share *= scale_;
}

void Experts::place(Activations normed, uint32_t rows) {
  const size_t n = size_t(rows) * shape_.used;
  std::fill(begins_.begin(), begins_.end(), 0u);
  for (size_t i = 0; i < n; ++i) ++begins_[choices_[i].expert + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  for (size_t i = 0; i < n; ++i) choices_[i].slot = begins_[choices_[i].expert]++;
  std::copy_backward(begins_.begin(), begins_.end() - 1, begins_.end());  // each was moved to the next one's begin
  begins_[0] = 0;
  const size_t stride = activation_stride(form_, hidden_);
  const size_t bytes = size_t(steps_of(form_, hidden_)) * 4;
  team_.run(rows, kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t r = from; r < to; ++r)
      for (uint32_t i = 0; i < shape_.used; ++i)
        std::memcpy(gathered_.data() + choices_[size_t(r) * shape_.used + i].slot * stride,
                    normed.data + r * normed.stride, bytes);
  });
}

void Experts::answer(const ExpertWeights& weights) {
  const size_t in = activation_stride(form_, hidden_), between = activation_stride(form_, shape_.width);
  auto each = [&](auto&& part) {
    parts_.clear();
    for (uint32_t e = 0; e < shape_.count; ++e)
      if (begins_[e + 1] > begins_[e]) parts_.push_back(part(e, begins_[e], begins_[e + 1] - begins_[e]));
  };
  each([&](uint32_t expert, size_t slot, uint32_t rows) {
    return Multiplier::Part{{gathered_.data() + slot * in, in}, rows, expert, gated_.data() + slot * between};
  });
  multiply_.run_gated(parts_, weights.gate_up, weights.gate_up.panels / shape_.count, between, activation_);
  each([&](uint32_t expert, size_t slot, uint32_t rows) {
    return Multiplier::Part{
        {gated_.data() + slot * between, between}, rows, expert, answers_.data() + slot * hidden_ * sizeof(float)};
  });
  multiply_.run(parts_, weights.down, weights.down.panels / shape_.count, hidden_, Multiplier::Into::kStore, hidden_);
}

void Experts::add(uint32_t rows, float* x) {
  team_.run(rows, kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t r = from; r < to; ++r)
      for (uint32_t i = 0; i < shape_.used; ++i) {
        const Choice& choice = choices_[size_t(r) * shape_.used + i];
        const float* answer = answers_.as<float>() + size_t(choice.slot) * hidden_;
        float* row = x + size_t(r) * hidden_;
        for (uint32_t d = 0; d < hidden_; ++d) row[d] += choice.share * answer[d];
      }
  });
}

void Experts::add_shared(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x) {
  using Into = Multiplier::Into;
  const size_t between = activation_stride(form_, shape_.shared_width);
  float *gates = scores_.as<float>(), *answers = answers_.as<float>();
  multiply_.run(normed, rows, weights.shared_gate, Into::kStore, gates, 1);
  multiply_.run_gated(normed, rows, weights.shared_gate_up, gated_.data(), between, activation_);
  multiply_.run({gated_.data(), between}, rows, weights.shared_down, Into::kStore, answers, hidden_);
  team_.run(rows, kFewRows, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t r = from; r < to; ++r) {
      const float gate = sigmoid(gates[r]) * scale_;
      for (size_t d = size_t(r) * hidden_; d < size_t(r + 1) * hidden_; ++d) x[d] += gate * answers[d];
    }
  });
}

}  // namespace weir::llm
