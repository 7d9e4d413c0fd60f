// Models that come into memory when models that run ask for them.
#include <atomic>
#include <future>
#include <memory>

#include "demand_fixture.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

std::string no_room(const std::string& model) {
  return "model '" + model + "' cannot be loaded: models.memory has no room for it beside the models that wait for it";
}

TEST_F(HeldDemand, AModelThatRunsDoesNotLeaveForWhatItAsksFor) {
  auto* inside = run("a");
  auto wait = waits.begin("a", "b");
  EXPECT_EQ(caller.answer(call("b")), no_room("b"));
  EXPECT_EQ(caller.answer(call("c")), "3") << "nobody waits behind it";
  wait.reset();
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  EXPECT_EQ(caller.answer(call("b")), "2") << "nothing is wrong with it";
}

TEST_F(HeldDemand, NorForWhatAnotherAsksForOnItsBehalf) {
  disk.write("p/model.yaml", "engine: pipeline\ndag: {nodes: [{model: b}]}");
  disk.write("p/1/.keep", "");
  held->rescan();
  auto* first = run("a");
  auto* second = run("c");
  auto wait = waits.begin("a", "c"), through = waits.begin("c", "p");
  EXPECT_NE(caller.answer(call("p")).find(no_room("b")), std::string::npos);
  loads.release_runs("a"), loads.release_runs("c");
  EXPECT_EQ(caller.answer(first), "1");
  EXPECT_EQ(caller.answer(second), "3");
}

// It asks for the same as they do, and is refused.
TEST_F(HeldDemand, ClientsWaitUntilTheModelThatAsksHasLeft) {
  auto* inside = run("a");
  auto wait = waits.begin("a", "b");
  auto* client = call("b", 2);
  auto load = held->begin_load("b");
  EXPECT_EQ(caller.answer(call("b")), no_room("b"));
  EXPECT_FALSE(held->begin_load("b", {"a"}).get().ok());
  ASSERT_TRUE(held->becomes(all_wait())) << "a is let go";
  EXPECT_EQ(caller.answer(call("b")), no_room("b")) << "a would not leave";
  EXPECT_FALSE(caller.heard_of(client));
  EXPECT_EQ(load.wait_for(0s), std::future_status::timeout);
  wait.reset();
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  EXPECT_EQ(caller.answer(client), "2");
  EXPECT_TRUE(load.get().ok());
  EXPECT_EQ(caller.answer(call("b")), "2") << "models are not refused any more";
}

// The model that they have asked for is refused to the one that runs, and is wanted no more.
TEST_F(HeldDemand, ClientsThatComeOnceOthersHaveLeftAskAgain) {
  auto* inside = run("a");
  auto wait = waits.begin("a", "b");
  auto* client = call("b", 2);
  ASSERT_TRUE(held->becomes(all_wait())) << "a is let go";
  leave(client, "b");
  EXPECT_EQ(caller.answer(call("b")), no_room("b"));
  held->begin_load("c", {"a"}).wait();
  auto* next = call("b", 2);
  wait.reset();
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  const std::string said = caller.answer(next);
  EXPECT_TRUE(said == "2" || said == no_room("b")) << said;
  EXPECT_EQ(caller.answer(call("b", 2)), "2");
}

TEST_F(HeldDemand, NorForALoadThatItAsksFor) {
  auto* inside = run("a");
  auto asked = held->begin_load("b", {"a"});
  ASSERT_EQ(asked.wait_for(20s), std::future_status::ready);
  EXPECT_EQ(asked.get().text,
            "failed to load 'b': models.memory has no room for it beside the models that wait for it");
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
}

TEST_F(HeldDemand, AModelThatServesMayAskForALoadWhileItIsReloaded) {
  EXPECT_EQ(caller.answer(call("a")), "1");
  disk.write("a/1/model.onnx", "7");
  loads.hold("a");
  auto reload = held->begin_load("a");
  ASSERT_TRUE(loads.begins("a"));
  auto asked = held->begin_load("c", {"a", std::make_shared<const std::atomic<bool>>(true)});
  EXPECT_TRUE(asked.get().ok());
  EXPECT_FALSE(held->begin_load("b", {"a", std::make_shared<const std::atomic<bool>>(false)}).get().ok());
  loads.release("a");
  EXPECT_TRUE(reload.get().ok());
}

// It has been let go, and the load of b waits for its Call, which asks only then.
TEST_F(HeldDemand, WhatAModelThatLeavesAsksForComesBeforeItHasLeft) {
  auto* inside = run("a");
  auto* other = call("b");
  ASSERT_TRUE(held->becomes(all_wait()));
  auto wait = waits.begin("a", "c");
  EXPECT_EQ(caller.answer(call("c")), "3");
  wait.reset();
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  EXPECT_EQ(caller.answer(other), "2");
}

TEST_F(HeldDemand, OfModelsThatWaitForEachOthersRoomOneIsRefused) {
  disk.write("d/1/model.onnx", "4"), disk.write("d/model.yaml", "memory: 40");
  held->rescan();
  auto* first = run("c");
  auto* second = run("a");
  auto wait = waits.begin("c", "b"), other = waits.begin("a", "d");
  auto* refused = call("b");
  auto* comes = call("d");
  EXPECT_EQ(caller.answer(refused), no_room("b"));
  wait.reset();
  loads.release_runs("c");
  EXPECT_EQ(caller.answer(first), "3");
  EXPECT_EQ(caller.answer(comes), "4");
  other.reset();
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(second), "1");
}

}  // namespace
}  // namespace weir::models
