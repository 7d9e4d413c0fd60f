// A Bus with two models: "digits", which keeps its Calls until the test answers, and "echo", which answers at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "support/submit.h"

namespace weir::bus {

using namespace std::chrono_literals;

// Keeps what is lent to it until the test answers.
class HeldInbox final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { held.push_back(call); }
  void poke() override {
    ++pokes;
    if (on_poke) on_poke();
  }

  std::vector<msg::Call*> held;
  int pokes = 0;
  std::function<void()> on_poke;
};

// Answers at once, on the shard, as inline engines do.
class EchoInbox final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Outputs{}}}); }
};

struct Recorder final : msg::Sink {
  void on(msg::Call& call, msg::Event&& event) override {
    if (auto* failed = std::get_if<msg::Failed>(&event.what))
      heard.push_back(call.id + ":" + std::string(base::name(failed->status.code)));
    else
      heard.push_back(call.id + (event.last() ? ":last" : ":more"));
    if (then) then();
  }
  std::vector<std::string> heard;
  std::function<void()> then;
};

struct Bench {
  explicit Bench(BusLimits limits = {})
      : bus(
            env, base::ShardId(3), [this] { ++wakes; }, limits) {
    auto catalog = std::make_shared<Catalog>();
    add(*catalog, "digits", "2", std::make_unique<HeldInbox>());
    add(*catalog, "echo", "1", std::make_unique<EchoInbox>());
    catalog->index = {{"broken", "1", ModelState::kUnavailable, "the file is cut short"},
                      {"digits", "1", ModelState::kUnavailable, "version policy"},
                      {"digits", "2", ModelState::kReady, ""},
                      {"echo", "1", ModelState::kReady, ""}};
    bus.publish(catalog);
  }
  void add(Catalog& catalog, std::string name, std::string version, std::unique_ptr<msg::Inbox> inbox) {
    auto served = std::make_shared<Served>();
    served->spec.name = name, served->spec.version = version;
    served->inbox = std::move(inbox);
    auto& model = catalog.models[name];
    model.preferred = served.get();
    model.versions[version] = served;
    all.push_back(served);
  }
  HeldInbox& digits() { return static_cast<HeldInbox&>(*all[0]->inbox); }
  Served& served() { return *all[0]; }

  msg::Call* call(std::string id, base::Duration timeout = 0s, std::string model = "digits") {
    auto* made = bus.make_call();
    made->model = std::move(model), made->id = std::move(id), made->sink = &sink;
    if (timeout != 0s) made->deadline = env.now() + timeout;
    return made;
  }
  msg::Call* sent(std::string id, base::Duration timeout = 0s, std::string model = "digits") {
    auto* made = call(std::move(id), timeout, std::move(model));
    EXPECT_TRUE(support::submit(bus, made).ok());
    return made;
  }
  base::Status refused(msg::Call* made) {
    auto status = support::submit(bus, made);
    EXPECT_FALSE(status.ok());
    bus.discard(made);
    return status;
  }
  void answer(msg::Call* made, msg::Event event = {msg::Outputs{}}) {
    std::erase(digits().held, made);
    std::vector<msg::Mail> burst;
    burst.push_back({made, std::move(event)});
    made->home->post(burst);
  }

  base::FakeEnv env;
  std::vector<std::shared_ptr<Served>> all;
  int wakes = 0;
  Recorder sink;
  Bus bus;
};

using Heard = std::vector<std::string>;

}  // namespace weir::bus
