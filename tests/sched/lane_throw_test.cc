// An exception inside a tensor lane, by an engine or by the lane's own bookkeeping, ends the calls that it concerns
// and never the lane. This program has an operator new that can be told which allocation of the lane's thread fails.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "event_recorder.h"
#include "failing_new.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

class Uncounted {
 public:
  Uncounted() : was_(std::exchange(counted, false)) {}
  ~Uncounted() { counted = was_; }

 private:
  const bool was_;
};

class Home final : public msg::Home {
 public:
  explicit Home(EventRecorder& recorder) : recorder_(recorder) {}
  void post(std::vector<msg::Mail>& burst) override {
    Uncounted pause;
    if (fails.fetch_sub(1) > 0) throw std::bad_alloc();
    recorder_.post(burst);
  }
  void post_here(msg::Mail&& mail) override { recorder_.post_here(std::move(mail)); }
  std::atomic<int> fails{0};  // times that a post finds no memory

 private:
  EventRecorder& recorder_;
};

enum class Throws : uint8_t { kNothing, kNoMemory, kError, kNumber };
constexpr float kBadRow = 13;  // whose batch throws, whatever else is in it

// y = 2 x; as a batch at a time, or as a device would, which is done at the second look.
class Thrower final : public Engine {
 public:
  Thrower(uint32_t depth, Throws what, std::atomic<bool>& at_poll) : depth_(depth), what_(what), at_poll_(at_poll) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  uint32_t depth() const override { return depth_; }

  base::Status step(Batch& batch) override {
    mark();
    Uncounted pause;
    throw_for(batch);
    return fill(batch);
  }
  base::Status launch(Batch& batch) override {
    mark();
    Uncounted pause;
    if (!at_poll_) throw_for(batch);
    looks_[batch.slot % 8] = 0;
    return {};
  }
  base::Result<Landing> poll(Batch& batch) override {
    Uncounted pause;
    if (++looks_[batch.slot % 8] < 2) return Landing::kUnderWay;
    if (at_poll_) throw_for(batch);
    if (auto status = fill(batch); !status.ok()) return status;
    return Landing::kLanded;
  }

 private:
  static void mark() { counted = true; }
  void throw_for(const Batch& batch) const {
    for (const auto* call : batch.calls)
      for (float x : floats_of(call->inputs[0])) {
        if (x != kBadRow) continue;
        if (what_ == Throws::kNoMemory) throw std::bad_alloc();
        if (what_ == Throws::kError) throw std::runtime_error("of a library");
        if (what_ == Throws::kNumber) throw 42;
      }
  }
  static base::Status fill(Batch& batch) {
    auto values = floats_of(batch.inputs[0]);
    for (auto& v : values) v *= 2;
    batch.outputs = {floats("y", batch.inputs[0].shape, std::move(values))};
    return {};
  }

  const uint32_t depth_;
  const Throws what_;
  std::atomic<bool>& at_poll_;
  std::array<int, 8> looks_{};
  msg::ModelSpec spec_;
};

struct ThrowLab {
  explicit ThrowLab(uint32_t depth, Throws what = Throws::kNothing, bool ordered = false) {
    spec.batching.preserve_ordering = ordered;
    std::vector<std::unique_ptr<Engine>> made;
    for (int i = 0; i < (ordered ? 2 : 1); ++i) made.push_back(std::make_unique<Thrower>(depth, what, at_poll));
    lanes = make_lanes(std::move(made), spec, stats, base::heap());
  }
  ~ThrowLab() {
    left = -1;
    lanes.reset();
  }
  msg::Call& put(float value) {
    auto& call = calls.emplace_back();
    fill(call, 1, value);
    call.home = &home;
    lanes->put(&call);
    return call;
  }
  std::string said(float value) {
    auto& call = put(value);
    return recorder.until_last(call).back();
  }

  std::atomic<bool> at_poll{false};
  msg::ModelSpec spec = spec_of(8);
  bus::ModelStats stats;
  EventRecorder recorder;
  Home home{recorder};
  std::deque<msg::Call> calls;
  std::unique_ptr<msg::Inbox> lanes;
};

TEST(LaneThrow, WhateverAnEngineThrowsEndsTheCallThatItThrowsForAndNoOther) {
  for (uint32_t depth : {1u, 3u})
    for (auto what : {Throws::kNoMemory, Throws::kError, Throws::kNumber})
      for (bool at_poll : {false, true}) {
        ThrowLab t(depth, what);
        t.at_poll = at_poll;
        const std::string failed = what == Throws::kNoMemory ? "RESOURCE_EXHAUSTED" : "INTERNAL";
        std::vector<msg::Call*> good, bad;
        for (int i = 0; i < 40; ++i) (i % 5 == 3 ? bad : good).push_back(&t.put(i % 5 == 3 ? kBadRow : 5));
        for (auto* call : good) EXPECT_EQ(t.recorder.until_last(*call).back(), "10x1");
        for (auto* call : bad) EXPECT_EQ(t.recorder.until_last(*call).back(), failed);
        EXPECT_EQ(t.said(4), "8x1");
      }
}

// Every allocation in turn: of the queue, of gathering, of taking apart, of the answers, of what is told.
TEST(LaneThrow, WhicheverAllocationFailsEveryCallIsAnsweredAndTheLaneGoesOn) {
  for (bool ordered : {false, true})
    for (uint32_t depth : {1u, 3u}) {
      bool failed = true;
      for (int64_t nth = 0; failed; nth += 1 + nth / 40) {
        ThrowLab t(depth, Throws::kNothing, ordered);
        EXPECT_EQ(t.said(1), "2x1");  // the lane's thread is known
        left = nth;
        std::vector<msg::Call*> all;
        for (int i = 0; i < 12; ++i) all.push_back(&t.put(float(i)));
        for (int i = 0; i < 12; ++i) {
          auto word = t.recorder.until_last(*all[size_t(i)]).back();
          if (word == std::to_string(2 * i) + "x1") continue;
          EXPECT_EQ(word, "RESOURCE_EXHAUSTED") << "allocation " << nth;
        }
        failed = left.exchange(-1) < 0;
        EXPECT_EQ(t.said(7), "14x1") << "allocation " << nth;
        EXPECT_EQ(t.stats.pending, 0);
      }
    }
}

TEST(LaneThrow, AnswersWaitForTheMemoryThatTheyNeedToLeave) {
  for (bool ordered : {false, true}) {
    ThrowLab t(1, Throws::kNothing, ordered);
    t.home.fails = 5;
    EXPECT_EQ(t.said(3), "6x1");
    EXPECT_LE(t.home.fails, 0);
  }
}

}  // namespace
}  // namespace weir::sched
