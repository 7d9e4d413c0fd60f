// An exception inside a token lane ends sequences, never the lane. This program has an operator new that can be told
// which allocation of the lane's thread fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "../sched/event_recorder.h"
#include "../sched/failing_new.h"
#include "fake_engine.h"
#include "generation/lane.h"

namespace weir::generation {
namespace {

using sched::EventRecorder;
using testing::HasSubstr;

// Allocations of the engine and of the Calls' home are not the lane's; from the engine's first step on the thread is
// known.
class Uncounted {
 public:
  Uncounted() { counted = false; }
  ~Uncounted() { counted = true; }
};

class Home final : public msg::Home {
 public:
  explicit Home(EventRecorder& recorder) : recorder_(recorder) {}
  void post(std::vector<msg::Mail>& burst) override {
    Uncounted pause;
    recorder_.post(burst);
  }
  void post_here(msg::Mail&& mail) override { recorder_.post_here(std::move(mail)); }

 private:
  EventRecorder& recorder_;
};

// The fake engine, which marks its thread as the lane's, and throws from inside the scheduler when it is told to.
class Throwing final : public TokenEngine {
 public:
  explicit Throwing(const msg::ModelSpec& spec, bool overlaps) : fake_(spec), overlaps_(overlaps) {}
  const msg::TextSpec& text() const override { return fake_.text(); }
  size_t kv_bytes(size_t positions) const override { return fake_.kv_bytes(positions); }
  base::Status reserve(uint32_t blocks, uint32_t size) override { return fake_.reserve(blocks, size); }
  base::Status step(TokenStep& step) override {
    Uncounted pause;
    return fake_.step(step);
  }
  void copy_block(uint32_t from, uint32_t to, uint32_t n) override {
    if (throws.exchange(false)) throw std::runtime_error("at 0xdeadbeef");
    fake_.copy_block(from, to, n);
  }
  base::Result<ImageFeatures> encode_image(const msg::Image& image) override {
    Uncounted pause;
    return fake_.encode_image(image);
  }
  bool overlaps() const override { return overlaps_; }
  base::Status submit(TokenStep& step) override {
    Uncounted pause;
    TokenStep mine = step;
    auto status = fake_.step(mine);
    if (status.ok()) under_way_.push_back(std::move(mine));
    return status;
  }
  base::Status collect(TokenStep& step) override {
    Uncounted pause;
    base::check(!under_way_.empty(), "what was submitted is collected once");
    auto& made = under_way_.front();
    for (size_t i = 0; i < step.logits_requests.size(); ++i) {
      auto& request = made.logits_requests[i];
      step.logits_requests[i].id = request.id, step.logits_requests[i].logprob = request.logprob,
      step.logits_requests[i].best = std::move(request.best);
    }
    for (size_t i = 0; i < step.readouts.size(); ++i) step.readouts[i].values = std::move(made.readouts[i].values);
    under_way_.pop_front();
    return {};
  }

  std::atomic<bool> throws{false};

 private:
  FakeTokenEngine fake_;
  const bool overlaps_;
  std::deque<TokenStep> under_way_;
};

struct Lab {
  explicit Lab(bool overlaps) {
    auto made = std::make_unique<Throwing>(spec, overlaps);
    engine = made.get();
    TokenPolicy p;
    p.kv_bytes = 16 * 4 * 64, p.block_size = 4, p.max_running = 4, p.step_tokens = 16, p.max_waiting = 100;
    lane = make_token_lane(std::move(made), p, spec, stats);
  }
  msg::Call& make(uint32_t first, uint32_t max_tokens, uint32_t length) {
    auto& call = calls.emplace_back();
    call.home = &home;
    call.generation = std::make_unique<msg::Generation>();
    for (uint32_t i = 0; i < length; ++i) call.generation->append.push_back((first + i) % 80 + 5);
    call.generation->max_tokens = max_tokens;
    call.generation->sampling.temperature = 0;
    call.generation->ignore_eos = true;
    return call;
  }
  // Prompts that share a beginning, that are longer than a step, with scores, readouts, an image, without credit.
  std::vector<msg::Call*> storm() {
    std::vector<msg::Call*> all{&make(0, 5, 30), &make(0, 5, 22), &make(3, 1, 3),
                                &make(7, 4, 9),  &make(9, 6, 2),  &make(2, 3, 40)};
    all[1]->generation->logprobs = {{0, 100}};
    all[1]->generation->readouts = {{0, 100}};
    all[3]->generation->images.push_back({base::Bytes::copy_of("abcd"), "image/png", 1, 7});
    for (auto* call : all) lane->put(call);
    return all;
  }
  std::vector<std::string> expected(const msg::Call& call) {
    return Reference(*call.generation, *spec.text, 256).says();
  }

  msg::ModelSpec spec = token_spec();
  bus::ModelStats stats;
  EventRecorder recorder{[](const msg::Mail& mail) { return told(mail.event); }};
  Home home{recorder};
  std::deque<msg::Call> calls;
  Throwing* engine = nullptr;
  std::unique_ptr<msg::Inbox> lane;
};

// Every allocation in turn. Each Call hears its last once (EventRecorder sees to that), and what it heard before is
// right.
TEST(TokenThrow, WhicheverAllocationFailsEveryCallIsAnsweredAndTheLaneGoesOn) {
  for (bool overlaps : {false, true}) {
    bool failed = true;
    for (int64_t nth = 0; failed; nth += 1 + nth / 50) {
      Lab t(overlaps);
      auto& first = t.make(1, 1, 3);
      t.lane->put(&first);
      t.recorder.until_last(first);
      left = nth;
      auto storm = t.storm();
      for (auto* call : storm) {
        auto said = t.recorder.until_last(*call), right = t.expected(*call);
        if (said == right) continue;
        EXPECT_THAT(said.back(), HasSubstr("RESOURCE_EXHAUSTED")) << "allocation " << nth;
        said.pop_back();
        ASSERT_LE(said.size(), right.size());
        EXPECT_TRUE(std::equal(said.begin(), said.end(), right.begin())) << "allocation " << nth;
      }
      failed = left.exchange(-1) < 0;
      auto& after = t.make(0, 4, 30);
      t.lane->put(&after);
      EXPECT_EQ(t.recorder.until_last(after), t.expected(after)) << "allocation " << nth;
      t.lane.reset();
      EXPECT_EQ(t.stats.tokens->waiting.value() + t.stats.tokens->running.value(), 0);
      EXPECT_EQ(t.stats.tokens->blocks_used.value(), 0) << "allocation " << nth;
      EXPECT_EQ(t.stats.pending, 0);
    }
  }
}

TEST(TokenThrow, AnotherExceptionIsInternalToThoseThatAreThere) {
  Lab t(false);
  auto& shared = t.make(0, 5, 22);
  t.lane->put(&shared);
  t.recorder.until_last(shared);
  t.engine->throws = true;
  auto& recomputed = t.make(0, 5, 22);  // its prompt is cached, and is computed again for its readouts
  recomputed.generation->readouts = {{1, 100}};
  t.lane->put(&recomputed);
  EXPECT_EQ(t.recorder.until_last(recomputed).back(), "INTERNAL: internal error");
  EXPECT_FALSE(t.engine->throws);
  auto& after = t.make(0, 5, 22);
  t.lane->put(&after);
  EXPECT_EQ(t.recorder.until_last(after), t.expected(after));
}

}  // namespace
}  // namespace weir::generation
