// A pipeline for which there is no memory: whichever allocation of the thread that puts a Call, or answers a node,
// fails, each Call is answered once, and a Call that was refused keeps nothing. This program has an operator new that
// fails.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/attempt.h"
#include "bus/mail_bursts.h"
#include "failing_new.h"
#include "pipeline_lab.h"

namespace weir::sched {
namespace {

// A model whose answers the test posts.
struct Scripted final : msg::Inbox {
  void put(msg::Call* call) override { calls.push_back(call); }
  std::vector<msg::Call*> calls;
};

struct Ends final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (const auto& mail : burst) count += mail.event.last();
    burst.clear();
  }
  void post_here(msg::Mail&& mail) override { count += mail.event.last(); }
  int count = 0;
};

struct MemoryLab {
  MemoryLab() {
    auto served = std::make_shared<bus::Served>();
    served->spec = spec_of(8);
    auto inbox = std::make_unique<Scripted>();
    inbox->calls.reserve(8);
    node = inbox.get();
    served->inbox = std::move(inbox);
    pipeline = make_pipeline(chain({served}), stats);
  }
  // Runs `work` with the nth allocation failing. False: it has made fewer.
  template <class Work>
  static bool fails(int64_t nth, Work work) {
    bool failed = false;
    std::thread([&] {
      left = nth, counted = true;
      work();
      counted = false, failed = left.exchange(-1) < 0;
    }).join();
    return failed;
  }
  static msg::Event answer() { return {msg::Outputs{.tensors = {floats("y", {1, 2}, {1, 2})}}}; }

  Ends home;
  bus::ModelStats stats;
  Scripted* node = nullptr;
  std::unique_ptr<msg::Inbox> pipeline;
};

TEST(PipelineMemory, ACallThatIsRefusedKeepsNoTensors) {
  bool failed = true;
  for (int64_t nth = 0; failed; ++nth) {
    MemoryLab lab;
    msg::Call call;
    fill(call, 1, 1);
    call.home = &lab.home;
    bool refused = false;
    failed = MemoryLab::fails(nth, [&] { refused = !base::attempt("a test", [&] { lab.pipeline->put(&call); }).ok(); });
    if (refused) {
      EXPECT_EQ(1u, call.inputs[0].data.slab()->refs.load()) << nth;
    }
    for (auto* leg : lab.node->calls) bus::post_one(leg, MemoryLab::answer());
    EXPECT_EQ(refused ? 0 : 1, lab.home.count) << nth;
  }
}

TEST(PipelineMemory, EachOfSeveralCallsIsAnswered) {
  bool failed = true;
  for (int64_t nth = 0; failed; ++nth) {
    MemoryLab lab;
    std::vector<msg::Call> calls(5);
    for (auto& call : calls) {
      fill(call, 1, 1);
      call.home = &lab.home;
      lab.pipeline->put(&call);
    }
    ASSERT_EQ(calls.size(), lab.node->calls.size());
    std::vector<msg::Event> answers;
    for (size_t i = 0; i < calls.size(); ++i) answers.push_back(MemoryLab::answer());
    size_t thrown = 0;
    failed = MemoryLab::fails(nth, [&] {
      for (size_t i = 0; i < calls.size(); ++i)
        thrown += !base::attempt("a test", [&] { bus::post_one(lab.node->calls[i], std::move(answers[i])); }).ok();
    });
    EXPECT_EQ(0u, thrown) << nth;
    EXPECT_EQ(int(calls.size()), lab.home.count) << nth;
  }
}

}  // namespace
}  // namespace weir::sched
