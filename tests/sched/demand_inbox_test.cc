#include "sched/demand_inbox.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "calls.h"
#include "fake_deadline_timer.h"

namespace weir::sched {
namespace {

using base::Code;

// Answers each Call with how many have come.
struct Counting final : msg::Inbox {
  void put(msg::Call* call) override {
    order.push_back(call->id);
    call->home->post_here({call, {msg::Outputs{}}});
  }
  void poke() override { ++pokes; }
  std::vector<std::string> order;
  int pokes = 0;
};

struct Reserve {
  explicit Reserve(DemandInbox::Bounds bounds = {.most = 3, .longest = 10s})
      : inbox("m", bounds, stats, timer, [this] {
          ++asked;
          return answers_asks;
        }) {}
  msg::Call& put(uint64_t tenant = 0) {
    auto& call = calls.emplace_back();
    call.home = &answers;
    call.tenant = tenant;
    call.id = std::to_string(calls.size());
    call.times.queued = timer->now();
    inbox.put(&call);
    return call;
  }
  std::shared_ptr<bus::Served> load() {
    auto served = std::make_shared<bus::Served>();
    auto counting = std::make_unique<Counting>();
    loaded = counting.get();
    served->inbox = std::move(counting);
    inbox.loaded(served);
    return served;
  }
  // "1 ok", "2 UNAVAILABLE".
  std::vector<std::string> heard() {
    std::vector<std::string> out;
    for (auto& mail : answers.mail) {
      auto* failed = std::get_if<msg::Failed>(&mail.event.what);
      out.push_back(mail.call->id + (failed ? " " + std::string(base::name(failed->status.code)) : " ok"));
    }
    answers.mail.clear();
    return out;
  }
  std::string text() {
    auto* failed = answers.mail.empty() ? nullptr : std::get_if<msg::Failed>(&answers.mail.back().event.what);
    return failed ? failed->status.text : "";
  }

  std::shared_ptr<FakeDeadlineTimer> timer = std::make_shared<FakeDeadlineTimer>();
  bus::ModelStats stats;
  Answers answers;
  std::deque<msg::Call> calls;
  int asked = 0;
  bool answers_asks = true;
  Counting* loaded = nullptr;
  DemandInbox inbox;
};

TEST(DemandInbox, CallsShareOneLoadAndGoOnInTheirOrder) {
  Reserve reserve;
  for (int i = 0; i < 3; ++i) reserve.put();
  EXPECT_EQ(reserve.asked, 1);
  EXPECT_EQ(reserve.inbox.waiting(), 3u);
  EXPECT_EQ(reserve.stats.waiting(), 3u);
  EXPECT_TRUE(reserve.heard().empty());
  auto served = reserve.load();
  EXPECT_EQ(reserve.loaded->order, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(reserve.heard(), (std::vector<std::string>{"1 ok", "2 ok", "3 ok"}));
  reserve.put();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"4 ok"});
  EXPECT_EQ(reserve.asked, 1);
  EXPECT_EQ(reserve.calls.back().home, &reserve.answers);
  reserve.inbox.poke();
  EXPECT_EQ(reserve.loaded->pokes, 1);
  EXPECT_EQ(served.use_count(), 2) << "the Calls inside need it";
}

TEST(DemandInbox, AfterItHasLeftMemoryTheNextCallAsksAgain) {
  Reserve reserve;
  reserve.put();
  std::weak_ptr<bus::Served> before = reserve.load();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"1 ok"});
  reserve.inbox.close();
  EXPECT_FALSE(before.expired());
  EXPECT_TRUE(reserve.inbox.settle());
  EXPECT_TRUE(before.expired());
  reserve.inbox.poke();
  reserve.put();
  EXPECT_TRUE(reserve.heard().empty());
  EXPECT_EQ(reserve.asked, 2);
  reserve.load();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"2 ok"});
}

// A Call that came in before close() ends where it is.
TEST(DemandInbox, WhatWasLoadedStaysUntilItsCallsHaveLeft) {
  struct Keeping final : msg::Inbox {
    void put(msg::Call* call) override { kept = call; }
    msg::Call* kept = nullptr;
  };
  Reserve reserve;
  auto served = std::make_shared<bus::Served>();
  auto inbox = std::make_unique<Keeping>();
  Keeping& keeping = *inbox;
  served->inbox = std::move(inbox);
  reserve.inbox.loaded(served);
  reserve.put();
  reserve.inbox.close();
  EXPECT_TRUE(reserve.inbox.busy());
  EXPECT_FALSE(reserve.inbox.settle());
  reserve.put();
  EXPECT_EQ(reserve.inbox.waiting(), 1u);
  keeping.kept->home->post_here({keeping.kept, {msg::Outputs{}}});
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"1 ok"});
  EXPECT_TRUE(reserve.inbox.settle());
  EXPECT_EQ(served.use_count(), 1);
  reserve.load();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"2 ok"});
}

TEST(DemandInbox, AFailedLoadFailsAllAndTheNextOneIsTriedAfterAWhile) {
  Reserve reserve;
  reserve.put(), reserve.put();
  reserve.inbox.failed(base::failure(Code::kUnavailable, "it is broken"), reserve.timer->now() + 10s);
  EXPECT_EQ(reserve.text(), "it is broken");
  EXPECT_EQ(reserve.heard(), (std::vector<std::string>{"1 UNAVAILABLE", "2 UNAVAILABLE"}));
  reserve.timer->advance(9s);
  reserve.put();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"3 UNAVAILABLE"});
  EXPECT_EQ(reserve.asked, 1);
  reserve.timer->advance(1s);
  reserve.put();
  EXPECT_TRUE(reserve.heard().empty());
  EXPECT_EQ(reserve.asked, 2);
  reserve.load();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"4 ok"});
}

TEST(DemandInbox, ModelsAreRefusedWhileClientsWaitOn) {
  Reserve reserve;
  reserve.put(2), reserve.put();
  EXPECT_TRUE(reserve.inbox.clients_wait());
  reserve.inbox.refuse_models(base::failure(Code::kUnavailable, "no room"), base::Time::max());
  reserve.put(), reserve.put(2);
  EXPECT_EQ(reserve.heard(), (std::vector<std::string>{"2 UNAVAILABLE", "3 UNAVAILABLE"}));
  EXPECT_EQ(reserve.inbox.waiting(), 2u);
  reserve.load();
  reserve.put();
  EXPECT_EQ(reserve.heard(), (std::vector<std::string>{"1 ok", "4 ok", "5 ok"}));
  EXPECT_FALSE(reserve.inbox.clients_wait());
}

TEST(DemandInbox, OnlySoManyWaitAndOnlySoLong) {
  Reserve reserve;
  for (int i = 0; i < 4; ++i) reserve.put();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"4 RESOURCE_EXHAUSTED"});
  reserve.timer->advance(10s);
  EXPECT_NE(reserve.text().find("for model 'm' to be loaded; try again later"), std::string::npos) << reserve.text();
  EXPECT_EQ(reserve.heard(), (std::vector<std::string>{"1 UNAVAILABLE", "2 UNAVAILABLE", "3 UNAVAILABLE"}));
  reserve.load();
  EXPECT_TRUE(reserve.loaded->order.empty());
}

TEST(DemandInbox, WhoeverLeavesWaitsNoLonger) {
  Reserve reserve;
  auto& left = reserve.put();
  reserve.put();
  left.cancelled = true;
  reserve.inbox.poke();
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"1 CANCELLED"});
  reserve.load();
  EXPECT_EQ(reserve.loaded->order, std::vector<std::string>{"2"});
}

TEST(DemandInbox, WhereNothingIsLoadedAnyMoreCallsFailAtOnce) {
  Reserve reserve;
  reserve.answers_asks = false;
  reserve.put();
  EXPECT_EQ(reserve.text(), "the server is shutting down");
  EXPECT_EQ(reserve.heard(), std::vector<std::string>{"1 UNAVAILABLE"});
}

}  // namespace
}  // namespace weir::sched
