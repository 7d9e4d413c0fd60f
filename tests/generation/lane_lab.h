// A token lane with a fake engine behind a gate, and what its Calls are told.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../sched/event_recorder.h"
#include "fake_engine.h"
#include "generation/lane.h"
#include "support/gate.h"

namespace weir::generation {

using sched::EventRecorder;
using support::Gate;

// The fake engine behind a gate.
class GatedTokens final : public TokenEngine {
 public:
  GatedTokens(const msg::ModelSpec& spec, Gate& gate, Gate& encoder_gate)
      : fake_(spec), gate_(gate), encoder_gate_(encoder_gate) {}
  const msg::TextSpec& text() const override { return fake_.text(); }
  size_t kv_bytes(size_t positions) const override { return fake_.kv_bytes(positions); }
  base::Status reserve(uint32_t blocks, uint32_t size) override { return fake_.reserve(blocks, size); }
  base::Status step(TokenStep& step) override {
    gate_.wait();
    uint32_t first = step.positions.front() == 0 ? step.ids.front() : 0;
    if (first == kAllergy) throw std::bad_alloc();
    if (first == kPoison) return base::failure(base::Code::kInternal, "poisoned");
    return fake_.step(step);
  }
  void copy_block(uint32_t from, uint32_t to, uint32_t n) override { fake_.copy_block(from, to, n); }
  base::Result<ImageFeatures> encode_image(const msg::Image& image) override { return fake_.encode_image(image); }
  bool encodes_aside() const override { return true; }
  base::Result<ImageFeatures> encode_image_aside(const msg::Image& image) override {
    encoder_gate_.wait();
    return fake_.encode_image(image);
  }

  static constexpr uint32_t kAllergy = 90, kPoison = 91;

 private:
  FakeTokenEngine fake_;
  Gate &gate_, &encoder_gate_;
};

// Does what is submitted at once, and keeps what came of it until it is collected. `before`: each submit().
class AheadTokens final : public TokenEngine {
 public:
  AheadTokens(const msg::ModelSpec& spec, std::atomic<int>& ahead, std::function<void()> before = {})
      : fake_(spec), ahead_(ahead), before_(std::move(before)) {}
  const msg::TextSpec& text() const override { return fake_.text(); }
  size_t kv_bytes(size_t positions) const override { return fake_.kv_bytes(positions); }
  base::Status reserve(uint32_t blocks, uint32_t size) override { return fake_.reserve(blocks, size); }
  base::Status step(TokenStep&) override { return base::failure(base::Code::kInternal, "not asked for"); }
  void copy_block(uint32_t from, uint32_t to, uint32_t n) override { fake_.copy_block(from, to, n); }
  base::Result<ImageFeatures> encode_image(const msg::Image& image) override { return fake_.encode_image(image); }
  bool overlaps() const override { return true; }
  base::Status submit(TokenStep& step) override {
    if (before_) before_();
    ahead_ += !under_way_.empty();
    TokenStep mine = step;
    auto status = fake_.step(mine);
    if (status.ok()) under_way_.push_back(std::move(mine));
    return status;
  }
  base::Status collect(TokenStep& step) override {
    for (size_t i = 0; i < step.logits_requests.size(); ++i)
      step.logits_requests[i].id = under_way_.front().logits_requests[i].id;
    under_way_.pop_front();
    return {};
  }

 private:
  FakeTokenEngine fake_;
  std::atomic<int>& ahead_;
  std::function<void()> before_;
  std::deque<TokenStep> under_way_;
};

struct Lab {
  explicit Lab(TokenPolicy p = policy()) : spec(token_spec()) {
    lane = make_token_lane(std::make_unique<GatedTokens>(spec, gate, encoder_gate), p, spec, stats);
  }
  ~Lab() {
    gate.open();
    encoder_gate.open();
    lane.reset();
  }
  static TokenPolicy policy() {
    TokenPolicy p;
    p.kv_bytes = 16 * 4 * 64, p.block_size = 4, p.max_running = 4, p.step_tokens = 16, p.max_waiting = 3;
    return p;
  }
  msg::Call& make(uint32_t first, uint32_t max_tokens, uint32_t length = 3) {
    auto& call = calls.emplace_back();
    call.home = &recorder;
    call.generation = std::make_unique<msg::Generation>();
    for (uint32_t i = 0; i < length; ++i) call.generation->append.push_back((first + i) % FakeModel::kVocabulary);
    call.generation->max_tokens = max_tokens;
    call.generation->sampling.temperature = 0;
    call.generation->ignore_eos = true;
    return call;
  }
  msg::Call& put(uint32_t first, uint32_t max_tokens, uint32_t length = 3) {
    auto& call = make(first, max_tokens, length);
    lane->put(&call);
    return call;
  }
  // A Call of which so many Events have come, and which waits for credit.
  msg::Call& parked(uint32_t first, uint32_t max_tokens, int32_t events, uint32_t length = 3) {
    auto& call = make(first, max_tokens, length);
    call.credit = events;
    lane->put(&call);
    recorder.until_said(call, size_t(events));
    return call;
  }
  std::vector<std::string> expected(const msg::Call& call) {
    return Reference(*call.generation, *spec.text, 256).says();
  }

  msg::ModelSpec spec;
  bus::ModelStats stats;
  Gate gate, encoder_gate;
  EventRecorder recorder{[](const msg::Mail& mail) { return told(mail.event); }};
  std::deque<msg::Call> calls;
  std::unique_ptr<msg::Inbox> lane;
};

}  // namespace weir::generation
