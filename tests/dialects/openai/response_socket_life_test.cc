// Responses over a WebSocket: the life of a connection, and who may have one.
#include "dialects/openai/responses/socket.h"
#include "socket_bench.h"
#include "wire/authenticator.h"

namespace weir::openai {
namespace {

using std::chrono::seconds;

TEST_F(ResponseSockets, AClientThatLeavesEndsItsRequest) {
  for (const bool says_so : {true, false}) {
    auto x = connect();
    create(x);
    create(x);
    ASSERT_EQ(1u, inbox().held.size());
    says_so ? write(x, client_frame(kCloses, std::string("\x03\xe8", 2))) : x->close(false);
    EXPECT_TRUE(call()->cancelled.load()) << says_so;
    scripted().done();
    settle();
    EXPECT_TRUE(inbox().held.empty());
  }
}

TEST_F(ResponseSockets, OneThatIsTooOldEndsOnceItsResponseIsMade) {
  options.websocket_age = std::chrono::minutes(60);
  auto idle = connect();
  write(idle, client_frame(kPong, ""));
  auto busy = connect();
  create(busy);
  create(busy);
  for (int i = 0; i < 60 * 4; ++i) {
    env.advance(seconds(15));
    for (const auto* x : {&idle, &busy}) write(*x, client_frame(kPong, ""));
  }
  EXPECT_EQ(1001, close_code(idle));
  EXPECT_TRUE(idle->ended);
  EXPECT_EQ("400 websocket_connection_limit_reached -", failure(idle));
  EXPECT_FALSE(busy->ended);
  scripted().emit("ab");
  scripted().end();
  settle();
  EXPECT_TRUE(busy->ended);
  EXPECT_EQ(1001, close_code(busy));
  EXPECT_TRUE(inbox().held.empty());
  const std::vector<Json> events = told(busy);
  EXPECT_EQ("response.completed", events[events.size() - 2]["type"]);
  EXPECT_EQ("Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
            events.back()["error"]["message"]);
}

TEST_F(ResponseSockets, AServerThatGoesFinishesWhatRuns) {
  auto idle = connect(), busy = connect();
  create(busy);
  create(busy);
  openai->drain();
  EXPECT_EQ(1001, close_code(idle));
  EXPECT_TRUE(idle->ended);
  EXPECT_FALSE(busy->ended);
  scripted().emit("ab");
  scripted().end();
  settle();
  EXPECT_EQ(1001, close_code(busy));
  EXPECT_TRUE(busy->ended);
  EXPECT_TRUE(inbox().held.empty());
  EXPECT_EQ("response.completed", told(busy).back()["type"]);
  auto late = connect();
  EXPECT_EQ(1001, close_code(late));
}

TEST_F(ResponseSockets, ASilentClientIsAskedAndOneThatHasGoneIsLeft) {
  auto here = connect(), gone = connect();
  create(gone);
  const size_t before = env.armed();
  for (int i = 0; i < 10; ++i) {
    env.advance(seconds(15));
    settle();
    if (count(here, kPing) > 0) here->sent.clear(), write(here, client_frame(kPong, ""));
  }
  EXPECT_FALSE(here->ended);
  EXPECT_TRUE(gone->was_reset);
  EXPECT_GE(count(gone, kPing), 3u);
  EXPECT_TRUE(call()->cancelled.load());
  scripted().done();
  settle();
  EXPECT_LT(env.armed(), before);
}

TEST_F(ResponseSockets, AClientWithMuchToTakeIsNotSilent) {
  auto x = connect();
  x->fake_backlog = 1;
  for (int i = 0; i < 20; ++i) env.advance(seconds(15));
  EXPECT_FALSE(x->was_reset);
  x->fake_backlog = 0;
  for (int i = 0; i < 5; ++i) env.advance(seconds(15));
  EXPECT_TRUE(x->was_reset);
}

TEST_F(ResponseSockets, AReaderThatIsSlowHoldsTheModel) {
  auto x = connect();
  create(x);
  const int32_t credit = call()->credit.load();
  x->fake_backlog = wire::Exchange::kLowWater;
  auto model = scripted();
  model.emit(std::string(100, 'a'));
  settle();
  EXPECT_EQ(credit, call()->credit.load());
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(credit + 100, call()->credit.load());
  model.end();
  settle();
  EXPECT_EQ("response.completed", told(x).back()["type"]);
}

TEST_F(ResponseSockets, WhatIsNoHandshakeIsToldSo) {
  auto x = open("GET", "/v1/responses");
  EXPECT_EQ(426, x->response.status);
  EXPECT_EQ("websocket", x->response.fields.find("upgrade"));
  EXPECT_EQ("this path is for WebSockets", message(x));
  EXPECT_EQ(403, connect({{"origin", "https://evil.example"}})->response.status);
}

// Keys that may have one request at a time.
class OneAtATime final : public wire::Authenticator {
 public:
  explicit OneAtATime(base::Env& env) : env_(env) {
    base::UsageLimits limits;
    limits.concurrent = 1;
    identity->name = "k", identity->tenant = "k", identity->tenant_number = 2;
    identity->roles = {wire::Role::kInfer};
    identity->limiter = std::make_shared<base::UsageLimiter>("k", limits);
  }
  base::Result<wire::Caller> admit(const wire::Request& request, wire::Permission, std::string_view) override {
    if (request.fields.find("authorization") != "Bearer k" || revoked)
      return base::failure(base::Code::kUnauthenticated, "no such key");
    return wire::Caller::enter(identity, env_.now());
  }
  std::string name_of(const wire::Request&) override { return "k"; }
  base::Status permit(const wire::Request&, wire::Permission) override { return {}; }

  std::shared_ptr<wire::Identity> identity = std::make_shared<wire::Identity>();
  bool revoked = false;

 private:
  base::Env& env_;
};

TEST_F(ResponseSockets, EachRequestIsAskedForItsKeyAndTakesAPlace) {
  OneAtATime keys(env);
  router.authenticate(keys);
  EXPECT_EQ(401, connect()->response.status);
  auto x = connect({{"authorization", "Bearer k"}}), y = connect({{"authorization", "Bearer k"}});
  create(x);
  create(y);
  EXPECT_EQ("429 rate_limit_exceeded -", failure(y));
  answered(x);
  create(y);
  answered(y);
  keys.revoked = true;
  create(x);
  EXPECT_EQ("401 invalid_api_key -", failure(x));
  x.reset(), y.reset();
  EXPECT_TRUE(keys.identity->limiter->enter(env.now()).ok());
}

}  // namespace
}  // namespace weir::openai
