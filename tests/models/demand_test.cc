// Models that come into memory when requests ask for them.
#include <thread>

#include "base/recent_warnings.h"
#include "demand_fixture.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

TEST_F(DemandModels, ModelsAreKnownAtStartAndLoadedByTheirFirstRequest) {
  const int before = made;
  open();
  EXPECT_EQ(made - before, 3) << "each was looked at";
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
  EXPECT_EQ(repo->now()->find("a", "").value()->spec.inputs.at(0).name, "x");
  EXPECT_EQ(repo->now()->find("a", "").value()->spec.max_batch, 32u);
  EXPECT_EQ(ask("a"), "1");
  EXPECT_EQ(made - before, 4);
  EXPECT_TRUE(becomes("a", "a/1 READY"));
  EXPECT_EQ(ask("a"), "1");
  EXPECT_EQ(made - before, 4);
}

TEST_F(DemandModels, TheLeastRecentlyUsedMakesRoom) {
  open();
  EXPECT_EQ(ask("a"), "1");
  EXPECT_EQ(ask("c"), "3");
  EXPECT_TRUE(becomes("c", "c/1 READY"));
  std::this_thread::sleep_for(5ms);  // times of use are told apart by milliseconds
  EXPECT_EQ(ask("c"), "3");
  EXPECT_EQ(ask("b"), "2");
  EXPECT_TRUE(becomes("b", "b/1 READY"));
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
  EXPECT_EQ(row("c"), "c/1 READY");
  EXPECT_EQ(ask("a"), "1") << "and back again";
}

TEST_F(DemandModels, ManyFirstRequestsShareOneLoad) {
  open();
  const int before = made;
  auto served = repo->now()->models.at("a").versions.at("1");
  std::vector<msg::Call*> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(caller.call(*served));
  for (auto* call : calls) EXPECT_EQ(caller.answer(call), "1");
  EXPECT_EQ(made - before, 1);
}

TEST_F(DemandModels, AModelThatDoesNotLoadIsSaidToAllWhoWait) {
  open();
  disk.write("a/1/model.onnx", "broken");
  EXPECT_EQ(ask("a"), "model 'a' cannot be loaded: cannot parse a/1/model.onnx (in 10 s)");
  EXPECT_TRUE(becomes("a", "a/1 UNAVAILABLE (cannot parse a/1/model.onnx; a request tries again)"));
  EXPECT_EQ(ask("b"), "2") << "others are as they were";
}

TEST_F(DemandModels, AModelThatIsGoneFailsItsRequest) {
  open();
  disk.remove("a");
  EXPECT_NE(ask("a").find("model 'a' cannot be loaded: no model 'a' in the repository"), std::string::npos);
  EXPECT_NE(base::log::recent_warnings().lines.back().find("a model that a request asks for is not loaded"),
            std::string::npos);
}

TEST_F(DemandModels, WhatIsLargerThanAllMemoryIsNoModel) {
  disk.write("a/model.yaml", "memory: 101");
  open();
  EXPECT_EQ(row("a"), "a/1 UNAVAILABLE (it takes 101 bytes of memory, and models.memory is 100)");
}

TEST_F(DemandModels, StartupNamesWhatIsLoadedAtOnce) {
  open([](RepositoryOptions& options) {
    on_demand(options);
    options.startup = {"b"};
  });
  EXPECT_TRUE(becomes("b", "b/1 READY"));
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
}

TEST_F(DemandModels, AChangedFileIsTakenWhetherItIsInMemoryOrNot) {
  open();
  EXPECT_EQ(ask("b"), "2");
  EXPECT_TRUE(becomes("b", "b/1 READY"));
  disk.write("a/1/model.onnx", "7");
  disk.write("b/1/model.onnx", "8");
  repo->rescan();
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
  EXPECT_EQ(row("b"), "b/1 READY");
  EXPECT_EQ(ask("b"), "8");
  EXPECT_EQ(ask("a"), "7");
}

TEST_F(DemandModels, APipelineLoadsItsNodesAsItsRequestsReachThem) {
  disk.write("p/model.yaml",
             "engine: pipeline\ndag: {nodes: [{model: a, outputs: {y: m}}, {model: b, inputs: {x: m}}]}");
  disk.write("p/1/.keep", "");
  open();
  EXPECT_EQ(row("p"), "p/1 READY");
  auto pipeline = repo->now()->models.at("p").versions.at("1").get();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask("p"), "2") << "both nodes, with room for one";
  EXPECT_EQ(ask("a"), "1");
  EXPECT_EQ(repo->now()->models.at("p").versions.at("1").get(), pipeline) << "it need not be built anew";
}

TEST_F(DemandModels, ALoadRequestBringsTheModelInAtOnce) {
  open();
  const int before = made;
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_EQ(made - before, 1);
  EXPECT_EQ(row("a"), "a/1 READY");
  EXPECT_EQ(ask("a"), "1");
  EXPECT_TRUE(repo->load("a").ok()) << "it is there";
  EXPECT_EQ(made - before, 1);
}

TEST_F(DemandModels, ALoadRequestMakesRoomAsACallDoes) {
  open();
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_TRUE(repo->load("b").ok());
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
  EXPECT_EQ(row("b"), "b/1 READY");
  EXPECT_EQ(ask("a"), "1");
}

TEST_F(DemandModels, ALoadRequestSaysWhatIsWrong) {
  open();
  disk.write("a/1/model.onnx", "broken");
  EXPECT_EQ(repo->load("a").text, "failed to load 'a': cannot parse a/1/model.onnx");
  EXPECT_EQ(repo->load("zebra").text, "failed to load 'zebra': no model 'zebra' in the repository");
  disk.write("b/model.yaml", "memory: 101");
  EXPECT_EQ(repo->load("b").text, "failed to load 'b': it takes 101 bytes of memory, and models.memory is 100");
}

TEST_F(DemandModels, WhatWasUnloadedStaysAwayUntilItIsLoaded) {
  open();
  EXPECT_EQ(ask("a"), "1");
  EXPECT_TRUE(repo->unload("a").ok());
  EXPECT_TRUE(becomes("a", "a/1 UNAVAILABLE (unloaded)"));
  EXPECT_EQ(ask("a"), "no such model");
  EXPECT_EQ(ask("b"), "2") << "its memory is free";
  EXPECT_TRUE(becomes("b", "b/1 READY"));
  repo->rescan();
  EXPECT_EQ(row("a"), "a/1 UNAVAILABLE (unloaded)");
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_EQ(row("a"), "a/1 READY");
  EXPECT_EQ(row("b"), std::string("b/1 READY (") + kWaits + ")");
}

constexpr const char* kComes = "it is being loaded, as a request asks for it";

TEST_F(HeldDemand, ALoadThatHangsKeepsOnlyThoseWaitingThatRequestsAskFor) {
  EXPECT_EQ(loads.most_at_once(), 1u) << "memory has one at a time at the start";
  loads.hold("a");
  auto* waits = call("a");
  ASSERT_TRUE(loads.begins("a"));
  EXPECT_TRUE(held->unload("c").ok());
  EXPECT_TRUE(held->becomes("a/1 READY (" + std::string(kComes) + ")\nb/1 READY (" + kWaits +
                            ")\nc/1 UNAVAILABLE (unloaded)\n"));
  disk.write("b/1/model.onnx", "7");
  held->rescan();
  EXPECT_EQ(loads.made("b"), 2) << "it was looked at";
  auto asked = held->begin_load("b");
  EXPECT_EQ(asked.wait_for(10ms), std::future_status::timeout);
  loads.release("a");
  EXPECT_EQ(caller.answer(waits), "1");
  EXPECT_TRUE(asked.get().ok());
  EXPECT_EQ(caller.answer(call("b")), "7");
}

// The stand-in has what was loaded before as long as one of its Calls is inside.
TEST_F(HeldDemand, AReloadWaitsForCallsInsideWhatHasLeftMeanwhile) {
  loads.hold_runs("a");
  auto* inside = call("a");
  ASSERT_TRUE(loads.runs("a"));
  disk.write("a/1/model.onnx", "7");
  loads.hold("a");
  auto reload = held->begin_load("a");
  ASSERT_TRUE(loads.begins("a"));
  auto* other = call("b");
  ASSERT_TRUE(held->becomes(all_wait()));
  loads.release("a");
  EXPECT_EQ(reload.wait_for(50ms), std::future_status::timeout);
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  EXPECT_TRUE(reload.get().ok());
  EXPECT_EQ(caller.answer(other), "2");
  EXPECT_EQ(caller.answer(call("a")), "7");
}

TEST_F(HeldDemand, ALoadWaitsForCallsInsideWhatHasLeftBefore) {
  loads.hold_runs("a");
  auto* inside = call("a");
  ASSERT_TRUE(loads.runs("a"));
  auto* other = call("b");
  ASSERT_TRUE(held->becomes(all_wait()));
  disk.write("a/1/model.onnx", "7");
  auto load = held->begin_load("a");
  EXPECT_EQ(load.wait_for(50ms), std::future_status::timeout);
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
  EXPECT_EQ(caller.answer(other), "2");
  EXPECT_TRUE(load.get().ok());
  EXPECT_EQ(caller.answer(call("a")), "7");
}

TEST_F(HeldDemand, TheEndDoesNotWaitForCallsInsideWhatHasLeft) {
  loads.hold_runs("a");
  auto* inside = call("a");
  ASSERT_TRUE(loads.runs("a"));
  call("b");
  ASSERT_TRUE(held->becomes(all_wait()));
  disk.write("a/1/model.onnx", "7");
  auto load = held->begin_load("a");
  EXPECT_EQ(load.wait_for(50ms), std::future_status::timeout);
  held->repository->stop();
  EXPECT_FALSE(load.get().ok());
  loads.release_runs("a");
  EXPECT_EQ(caller.answer(inside), "1");
}

TEST_F(HeldDemand, ARequestDuringALoadDoesNotUndoTheUnloadBehindIt) {
  disk.write("a/1/model.onnx", "7");
  loads.hold("a");
  auto load = held->begin_load("a");
  ASSERT_TRUE(loads.begins("a"));
  auto unload = held->begin_unload("a");
  auto* waits = call("a");
  const std::string rest = std::string("\nb/1 READY (") + kWaits + ")\nc/1 READY (" + kWaits + ")\n";
  ASSERT_TRUE(held->becomes("a/1 READY (" + std::string(kComes) + ")" + rest));
  loads.release("a");
  EXPECT_TRUE(unload.get().ok());
  EXPECT_EQ(caller.answer(waits), "7") << "of the load that came before";
  EXPECT_EQ(caller.answer(call("c")), "3") << "behind what was asked of a";
  EXPECT_EQ(loads.made("a"), 2);
  EXPECT_TRUE(held->becomes("a/1 UNAVAILABLE (unloaded)\nb/1 READY (" + std::string(kWaits) + ")\nc/1 READY\n"));
}

TEST_F(HeldDemand, WhatGrowsBesideALoadLeavesItsRoomToThat) {
  EXPECT_EQ(caller.answer(call("c")), "3");
  loads.hold("a");
  auto* waits = call("a");
  ASSERT_TRUE(loads.begins("a"));
  disk.write("c/model.yaml", "memory: 50");
  held->rescan();
  const std::string rest = std::string("\nb/1 READY (") + kWaits + ")\nc/1 READY (" + kWaits + ")\n";
  EXPECT_TRUE(held->becomes("a/1 READY (" + std::string(kComes) + ")" + rest));
  loads.release("a");
  EXPECT_EQ(caller.answer(waits), "1");
  EXPECT_TRUE(held->becomes("a/1 READY" + rest));
}

TEST_F(DemandModels, WhatIsNotInMemoryCanBeUnloaded) {
  open();
  EXPECT_TRUE(repo->unload("a").ok());
  EXPECT_TRUE(becomes("a", "a/1 UNAVAILABLE (unloaded)"));
  EXPECT_EQ(repo->unload("z").code, base::Code::kNotFound);
}

}  // namespace
}  // namespace weir::models
