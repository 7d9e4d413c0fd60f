// Two shards of sessions in one thread, and what a Borrower is told.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "session/session_id.h"
#include "session/sessions.h"

namespace weir::session {

using base::Code;
using base::SessionId;
using base::ShardId;

inline constexpr Tenant kMe{0};

// Takes what is lent, and keeps it until somebody says end().
class KeptInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  int releases = 0;
  SessionId released{};
  void put(msg::Call* call) override {
    if (call->generation->aim == msg::Aim::kRelease) {
      ++releases;
      released = call->session;
      EXPECT_EQ(call->model + "/" + call->version, "chat/1");
      return call->home->post_here({call, {msg::Done{}}});
    }
    held.push_back(call);
  }
};

inline std::shared_ptr<bus::Catalog> catalog() {
  auto out = std::make_shared<bus::Catalog>();
  auto served = std::make_shared<bus::Served>();
  served->spec.name = "chat", served->spec.version = "1";
  served->spec.text = std::make_shared<const msg::TextSpec>();
  served->inbox = std::make_unique<KeptInbox>();
  out->models["chat"].preferred = served.get();
  out->models["chat"].versions["1"] = served;
  return out;
}

// The events at a Borrower, in words.
struct Told final : Borrower {
  std::optional<base::Result<Lease>> answer;
  bool ended = false;
  std::function<void()> then;
  void granted(base::Result<Lease> lease) override {
    answer.emplace(std::move(lease));
    if (then) then();
  }
  void revoked() override { ended = true; }
};

// Two shards in one thread: posts wait until they are cranked.
struct Pair {
  Pair() {
    for (uint16_t i = 0; i < 2; ++i) {
      buses.push_back(std::make_unique<bus::Bus>(env, ShardId(i), [] {}));
      buses.back()->publish(served);
      doors.push_back(std::make_unique<Sessions>(*buses[i], ShardId(i), homes, quota, SessionLimits{}, metrics));
    }
    model = {"chat", "1", served->models["chat"].preferred->spec.text};
  }
  ~Pair() {
    for (auto& bus : buses) bus->turn();
  }
  // The first shard's bus, which has room for so many Calls at a time.
  void refill(uint32_t room) {
    doors[0] = nullptr;
    buses[0] = std::make_unique<bus::Bus>(
        env, ShardId(0), [] {}, bus::BusLimits{room});
    buses[0]->publish(served);
    doors[0] = std::make_unique<Sessions>(*buses[0], ShardId(0), homes, quota, SessionLimits{}, metrics);
  }
  void crank() {
    while (!posts.empty()) {
      auto work = std::move(posts.front());
      posts.pop_front();
      work();
    }
    for (auto& bus : buses) bus->turn();
  }
  // A metric without labels, as /metrics shows it.
  uint64_t metric(const std::string& name) {
    const std::string text = metrics.text();
    auto at = text.find("\n" + name + " ");
    return at == std::string::npos ? UINT64_MAX : std::stoull(text.substr(at + name.size() + 2));
  }
  KeptInbox& inbox() { return static_cast<KeptInbox&>(*served->models["chat"].preferred->inbox); }

  base::FakeEnv env;
  base::Metrics metrics;
  std::deque<std::function<void()>> posts;
  std::shared_ptr<bus::Catalog> served = catalog();
  std::vector<std::unique_ptr<bus::Bus>> buses;
  Homes homes{2, [this](ShardId, std::function<void()> work) { posts.push_back(std::move(work)); }};
  Quota quota{1};
  std::vector<std::unique_ptr<Sessions>> doors;
  SessionModel model;
};

}  // namespace weir::session
