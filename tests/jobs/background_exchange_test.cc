#include "jobs/background_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/fake_env.h"
#include "wire/router.h"

namespace weir::jobs {
namespace {

using wire::BodyPlan;
using wire::Exchange;

// Counts what a service is told of its Exchange.
struct Told {
  int closed = 0, drained = 0;
  bool complete = false;
};
struct Listener final : wire::ExchangeListener {
  explicit Listener(Told& t) : told(t) {}
  void on_drain(Exchange&) override { ++told.drained; }
  void on_close(Exchange&, bool complete) override { ++told.closed, told.complete = complete; }
  Told& told;
};

struct Service final : wire::Service {
  void serve(Exchange& exchange, const wire::PathArgs&) override { answer(exchange); }
  std::function<void(Exchange&)> answer;
};

class Background : public testing::Test {
 protected:
  Background() {
    router.add({"POST", "/x", &service, "test", {BodyPlan::kWhole, 100}, wire::Permission::kInfer});
    router.add({"POST", "/stream", &service, "test", {BodyPlan::kStream, 100}, wire::Permission::kInfer});
  }
  BackgroundExchange& run(std::string target = "/x", std::string body = "{}", uint64_t most = 1000) {
    Job job;
    job.target = std::move(target), job.body = std::move(body), job.fields = "content-type: text/x\nno field\n";
    exchange = std::make_unique<BackgroundExchange>(BackgroundExchange::Surroundings{env, router, nullptr, most}, peer,
                                                    job, [this](Outcome o) { outcome = std::move(o); });
    exchange->start();
    return *exchange;
  }
  void turn() { env.advance(base::Duration(1)); }

  base::FakeEnv env;
  wire::Router router{env};
  Service service;
  wire::PeerInfo peer;
  Told told;
  std::optional<Outcome> outcome;
  std::unique_ptr<BackgroundExchange> exchange;
};

TEST_F(Background, AnAnswerIsGatheredInALaterTurn) {
  service.answer = [&](Exchange& x) {
    EXPECT_EQ("{}", x.content().view());
    EXPECT_EQ("text/x", x.request().fields.find("content-type"));
    EXPECT_EQ(1u, x.request().fields.size());
    x.attach(std::make_unique<Listener>(told));
    x.respond(201, "text/plain", base::Bytes::copy_of("made"));
  };
  run();
  EXPECT_FALSE(outcome);
  turn();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(201, outcome->status);
  EXPECT_EQ("made", outcome->body);
  EXPECT_NE(std::string::npos, outcome->fields.find("content-type: text/plain\n"));
  EXPECT_NE(std::string::npos, outcome->fields.find("x-request-id: "));
  EXPECT_EQ(1, told.closed);
  EXPECT_TRUE(told.complete);
}

TEST_F(Background, AnAnswerMayComeBitByBit) {
  service.answer = [&](Exchange& x) {
    x.attach(std::make_unique<Listener>(told));
    x.head({});
    x.body(base::Bytes::copy_of("a"));
    EXPECT_EQ(1u, x.backlog());
    x.call_on_drain();
  };
  auto& x = run();
  turn();
  EXPECT_EQ(1, told.drained);
  EXPECT_EQ(0u, x.backlog());
  x.body(base::Bytes::copy_of("b"));
  x.end({});
  x.body(base::Bytes::copy_of("late"));
  turn();
  ASSERT_TRUE(outcome);
  EXPECT_EQ("ab", outcome->body);
}

TEST_F(Background, WhatIsTooLongEndsWithAnError) {
  service.answer = [&](Exchange& x) {
    x.attach(std::make_unique<Listener>(told));
    x.respond(200, "", base::Bytes::copy_of(std::string(2000, 'x')));
  };
  run();
  turn();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(500, outcome->status);
  EXPECT_NE(std::string::npos, outcome->body.find("jobs.max_result"));
  EXPECT_LT(outcome->body.size(), 300u);
}

TEST_F(Background, PathsAndBodiesAreJudgedAsLiveOnes) {
  service.answer = [](Exchange&) { FAIL(); };
  run("/unknown");
  turn();
  EXPECT_EQ(404, outcome->status);
  outcome.reset();
  run("/x", std::string(101, 'x'));
  turn();
  EXPECT_EQ(413, outcome->status);
}

TEST_F(Background, ABrokenAnswerHasNoStatus) {
  service.answer = [&](Exchange& x) {
    x.attach(std::make_unique<Listener>(told));
    x.head({});
    x.body(base::Bytes::copy_of("half"));
    x.reset(wire::Reset::kInternal);
  };
  run();
  turn();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(0, outcome->status);
  EXPECT_EQ("", outcome->body);
  EXPECT_FALSE(told.complete);
}

TEST_F(Background, OneThatIsAbandonedOrDestroyedClosesItsListenerOnce) {
  service.answer = [&](Exchange& x) { x.attach(std::make_unique<Listener>(told)); };
  run().abandon();
  turn();
  EXPECT_EQ(0, outcome->status);
  EXPECT_EQ(1, told.closed);
  outcome.reset();
  run();
  exchange.reset();
  turn();
  EXPECT_EQ(2, told.closed);
  EXPECT_FALSE(outcome);
  EXPECT_EQ(0u, env.armed());
}

TEST_F(Background, AServiceThatThrowsEndsItsOwnRequest) {
  service.answer = [](Exchange&) { throw std::runtime_error("x"); };
  run();
  turn();
  EXPECT_EQ(500, outcome->status);
}

}  // namespace
}  // namespace weir::jobs
