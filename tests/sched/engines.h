// Engines for tests: y = 2 x, held at a gate if there is one, with faults on certain values.
#pragma once

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "calls.h"
#include "sched/engine.h"
#include "support/gate.h"

namespace weir::sched {

using support::Gate;

inline constexpr float kPoison = 666;    // fails the whole batch
inline constexpr float kAllergic = 667;  // fails its own call, by Batch::failures
inline constexpr float kShort = 668;     // the output has the wrong number of rows
inline constexpr float kHungry = 669;    // std::bad_alloc
inline constexpr float kBroken = 670;    // an exception of a library

class Doubler final : public Engine {
 public:
  explicit Doubler(Gate* gate = nullptr) : gate_(gate) {}
  const msg::ModelSpec& spec() const override { return spec_; }

  base::Status step(Batch& batch) override {
    if (gate_) gate_->wait();
    auto values = floats_of(batch.inputs[0]);
    size_t at = 0, width = values.size() / batch.rows;
    for (auto* call : batch.calls) {
      float value = values[at];
      if (value == kPoison) return base::invalid("poison");
      if (value == kHungry) throw std::bad_alloc();
      if (value == kBroken) throw std::runtime_error("a path of this machine");
      at += call->rows * width;
    }
    fail_allergic(batch, values, width);
    bool cut = std::find(values.begin(), values.end(), kShort) != values.end();
    for (auto& v : values) v *= 2;
    auto shape = batch.inputs[0].shape;
    if (cut) values.resize(values.size() - width), --shape[0];
    batch.outputs = {floats("y", shape, std::move(values))};
    return {};
  }

 private:
  static void fail_allergic(Batch& batch, const std::vector<float>& values, size_t width) {
    size_t at = 0;
    for (size_t i = 0; i < batch.calls.size(); ++i) {
      if (values[at] == kAllergic) {
        batch.failures.resize(batch.calls.size());
        batch.failures[i] = base::invalid("allergic");
      }
      at += batch.calls[i]->rows * width;
    }
  }

  Gate* gate_;
  msg::ModelSpec spec_;
};

}  // namespace weir::sched
