// Models that come into memory when requests ask for them.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "held_loads.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

using namespace std::chrono_literals;

// A shard that calls, and waits for what it hears.
struct Caller final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    std::lock_guard lock(mutex);
    for (auto& mail : burst) heard[mail.call] = text_of(mail.event);
    burst.clear();
    changed.notify_all();
  }
  void post_here(msg::Mail&& mail) override {
    std::vector<msg::Mail> burst;
    burst.push_back(std::move(mail));
    post(burst);
  }
  static std::string text_of(msg::Event& event) {
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) return failed->status.text;
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    return outputs ? std::string(outputs->tensors.at(0).data.view()) : "?";
  }
  msg::Call* call(bus::Served& served) {
    auto& call = calls.emplace_back();
    call.home = this;
    call.inputs.push_back({"x", msg::DType::kUint8, {1, 1}, base::Bytes::constant("x")});
    served.inbox->put(&call);
    return &call;
  }
  std::string answer(const msg::Call* call) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 20s, [&] { return heard.contains(call); });
    return heard[call];
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<msg::Call> calls;
  std::map<const msg::Call*, std::string> heard;
};

void on_demand(RepositoryOptions& options) {
  options.control = Control::kDemand;
  options.memory = 100;
}

constexpr const char* kWaits = "not in memory: the next request loads it";

class Demand : public ::testing::Test {
 protected:
  Demand()
      : disk({{"a/1/model.onnx", "1"},
              {"a/model.yaml", "memory: 60"},
              {"b/1/model.onnx", "2"},
              {"b/model.yaml", "memory: 50"},
              {"c/1/model.onnx", "3"},
              {"c/model.yaml", "memory: 10"}}) {}
  void open(const Change& change = on_demand) {
    repo = std::make_unique<Repo>(disk, change);
    ASSERT_TRUE(repo->repository->start().ok());
  }
  void TearDown() override {
    if (repo) repo->repository->stop();
  }
  std::string ask(const std::string& model) {
    std::shared_ptr<bus::Served> served;  // and nothing else of the catalog: what is held does not leave memory
    auto held = repo->now();
    if (auto found = held->models.find(model); found != held->models.end())
      served = found->second.versions.begin()->second;
    held.reset();
    return served ? caller.answer(caller.call(*served)) : "no such model";
  }
  std::string row(const std::string& model) {
    auto rows = repo->rows();
    size_t at = rows.find(model + "/1 ");
    return at == std::string::npos ? rows : rows.substr(at, rows.find('\n', at) - at);
  }
  // Once that is so; what is published last comes a moment after the answer.
  bool becomes(const std::string& model, const std::string& expected) {
    for (int i = 0; i < 2000 && row(model) != expected; ++i) std::this_thread::sleep_for(10ms);
    return row(model) == expected;
  }

  test::Disk disk;
  Caller caller;
  std::unique_ptr<Repo> repo;
};

TEST_F(Demand, ModelsAreKnownAtStartAndLoadedByTheirFirstRequest) {
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

TEST_F(Demand, TheLeastRecentlyUsedMakesRoom) {
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

TEST_F(Demand, ManyFirstRequestsShareOneLoad) {
  open();
  const int before = made;
  auto served = repo->now()->models.at("a").versions.at("1");
  std::vector<msg::Call*> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(caller.call(*served));
  for (auto* call : calls) EXPECT_EQ(caller.answer(call), "1");
  EXPECT_EQ(made - before, 1);
}

TEST_F(Demand, AModelThatDoesNotLoadIsSaidToAllWhoWait) {
  open();
  disk.write("a/1/model.onnx", "broken");
  EXPECT_EQ(ask("a"), "model 'a' cannot be loaded: cannot parse a/1/model.onnx");
  EXPECT_TRUE(becomes("a", "a/1 UNAVAILABLE (cannot parse a/1/model.onnx; a request tries again)"));
  EXPECT_EQ(ask("b"), "2") << "others are as they were";
}

TEST_F(Demand, AModelThatIsGoneFailsItsRequest) {
  open();
  disk.remove("a");
  EXPECT_NE(ask("a").find("model 'a' cannot be loaded: no model 'a' in the repository"), std::string::npos);
}

TEST_F(Demand, WhatIsLargerThanAllMemoryIsNoModel) {
  disk.write("a/model.yaml", "memory: 101");
  open();
  EXPECT_EQ(row("a"), "a/1 UNAVAILABLE (it takes 101 bytes of memory, and models.memory is 100)");
}

TEST_F(Demand, StartupNamesWhatIsLoadedAtOnce) {
  open([](RepositoryOptions& options) {
    on_demand(options);
    options.startup = {"b"};
  });
  EXPECT_TRUE(becomes("b", "b/1 READY"));
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
}

TEST_F(Demand, AChangedFileIsTakenWhetherItIsInMemoryOrNot) {
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

TEST_F(Demand, APipelineLoadsItsNodesAsItsRequestsReachThem) {
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

TEST_F(Demand, ALoadRequestBringsTheModelInAtOnce) {
  open();
  const int before = made;
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_EQ(made - before, 1);
  EXPECT_EQ(row("a"), "a/1 READY");
  EXPECT_EQ(ask("a"), "1");
  EXPECT_TRUE(repo->load("a").ok()) << "it is there";
  EXPECT_EQ(made - before, 1);
}

TEST_F(Demand, ALoadRequestMakesRoomAsACallDoes) {
  open();
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_TRUE(repo->load("b").ok());
  EXPECT_EQ(row("a"), std::string("a/1 READY (") + kWaits + ")");
  EXPECT_EQ(row("b"), "b/1 READY");
  EXPECT_EQ(ask("a"), "1");
}

TEST_F(Demand, ALoadRequestSaysWhatIsWrong) {
  open();
  disk.write("a/1/model.onnx", "broken");
  EXPECT_EQ(repo->load("a").text, "failed to load 'a': cannot parse a/1/model.onnx");
  EXPECT_EQ(repo->load("zebra").text, "failed to load 'zebra': no model 'zebra' in the repository");
  disk.write("b/model.yaml", "memory: 101");
  EXPECT_EQ(repo->load("b").text, "failed to load 'b': it takes 101 bytes of memory, and models.memory is 100");
}

TEST_F(Demand, WhatWasUnloadedStaysAwayUntilItIsLoaded) {
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

// The same models, whose loads the test holds.
class HeldDemand : public Demand {
 protected:
  void SetUp() override {
    RepositoryOptions options;
    on_demand(options);
    held = std::make_unique<HeldRepo>(disk, loads, std::move(options));
    ASSERT_TRUE(held->repository->start().ok());
  }
  void TearDown() override { held->repository->stop(); }
  msg::Call* call(const std::string& model) {
    auto served = held->now()->models.at(model).versions.begin()->second;
    return caller.call(*served);
  }
  static std::string all_wait() {
    const std::string why = std::string("/1 READY (") + kWaits + ")\n";
    return "a" + why + "b" + why + "c" + why;
  }

  HeldLoads loads;
  std::unique_ptr<HeldRepo> held;
};

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

TEST_F(Demand, WhatIsNotInMemoryCanBeUnloaded) {
  open();
  EXPECT_TRUE(repo->unload("a").ok());
  EXPECT_TRUE(becomes("a", "a/1 UNAVAILABLE (unloaded)"));
  EXPECT_EQ(repo->unload("z").code, base::Code::kNotFound);
}

}  // namespace
}  // namespace weir::models
