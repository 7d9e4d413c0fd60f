// Models that come into memory when requests ask for them, and who calls them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "held_loads.h"
#include "repository_fixture.h"

namespace weir::models {

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
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) {
      const auto after = base::retry_after(failed->status).count();
      return failed->status.text + (after > 1 ? " (in " + std::to_string(after) + " s)" : "");
    }
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    return outputs ? std::string(outputs->tensors.at(0).data.view()) : "?";
  }
  // As a model calls others, where there is no tenant.
  msg::Call* call(bus::Served& served, uint64_t tenant = 0) {
    auto& call = calls.emplace_back();
    call.home = this;
    call.tenant = tenant;
    call.inputs.push_back({"x", msg::DType::kUint8, {1, 1}, base::Bytes::constant("x")});
    served.inbox->put(&call);
    return &call;
  }
  std::string answer(const msg::Call* call) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return heard.contains(call); });
    return heard[call];
  }
  bool heard_of(const msg::Call* call) {
    std::lock_guard lock(mutex);
    return heard.contains(call);
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<msg::Call> calls;
  std::map<const msg::Call*, std::string> heard;
};

inline void on_demand(RepositoryOptions& options) {
  options.control = Control::kDemand;
  options.memory = 100;
}

inline constexpr const char* kWaits = "not in memory: the next request loads it";

class DemandModels : public ::testing::Test {
 protected:
  DemandModels()
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
    for (int i = 0; i < 2000 && row(model) != expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return row(model) == expected;
  }

  test::Disk disk;
  Caller caller;
  std::unique_ptr<Repo> repo;
};

// The same models, whose loads the test holds.
class HeldDemand : public DemandModels {
 protected:
  void SetUp() override {
    RepositoryOptions options;
    on_demand(options);
    options.waits = waits;
    held = std::make_unique<HeldRepo>(disk, loads, std::move(options));
    ASSERT_TRUE(held->repository->start().ok());
  }
  void TearDown() override { held->repository->stop(); }
  msg::Call* call(const std::string& model, uint64_t tenant = 0) {
    auto served = held->now()->models.at(model).versions.begin()->second;
    return caller.call(*served, tenant);
  }
  // Its client does.
  void leave(msg::Call* waiting, const std::string& model) {
    waiting->cancelled = true;
    held->now()->models.at(model).versions.begin()->second->inbox->poke();
    EXPECT_NE(caller.answer(waiting), "");
  }
  static std::string all_wait() {
    const std::string why = std::string("/1 READY (") + kWaits + ")\n";
    return "a" + why + "b" + why + "c" + why;
  }

  // A Call that runs until release_runs().
  msg::Call* run(const std::string& model) {
    loads.hold_runs(model);
    auto* inside = call(model);
    EXPECT_TRUE(loads.runs(model));
    return inside;
  }

  HeldLoads loads;
  ModelWaits waits;
  std::unique_ptr<HeldRepo> held;
};

}  // namespace weir::models
