// Responses that are made in the background: their clients ask for them, and may cancel them.
#include "dialects/openai/responses/background.h"

#include <gtest/gtest.h>

#include "base/clients.h"
#include "bench.h"
#include "dialects/openai/responses/stored.h"
#include "jobs/shard_jobs.h"
#include "msg/tenant.h"
#include "support/posted_work.h"
#include "wire/authenticator.h"
#include "wire/offload.h"

namespace weir::openai {
namespace {

// The test's thread is the shard's. Nothing is kept on a disk.
class BackgroundResponse : public OpenaiBench {
 protected:
  BackgroundResponse() {
    options.stored = &stored;
    options.background = &background;
    options.jobs = &jobs;
  }
  ~BackgroundResponse() override {
    jobs.end();
    openai.reset();
  }
  Opened ask(Json body) {
    body.update({{"model", "m"}, {"input", "hi"}, {"background", true}});
    auto x = open("POST", "/v1/responses", body.dump());
    settle();
    return x;
  }
  Json get(const std::string& id) { return json(open("GET", "/v1/responses/" + id)); }
  Opened cancel(const std::string& id) { return open("POST", "/v1/responses/" + id + "/cancel"); }
  void settle() {
    turn();
    env.advance(std::chrono::milliseconds(1));
    turn();
  }

  support::PostedWork posted;
  jobs::Store store{"", {}, "off"};
  jobs::ShardJobs jobs{store, {env, base::ShardId(0), 1, router, nullptr, nullptr, [this](std::function<void()> w) {
                                 posted.post(std::move(w));
                               }}};
  responses::StoredResponses stored{std::chrono::minutes(10), 1 << 20};
  responses::StoredResponses small{std::chrono::minutes(10), 8 << 10};
  responses::BackgroundResponses background;
};

TEST_F(BackgroundResponse, IsAskedForUntilItIsOver) {
  auto x = ask({{"instructions", "be"}});
  ASSERT_EQ(x->response.status, 200) << x->sent;
  const Json queued = json(x);
  const std::string id = queued["id"];
  EXPECT_EQ(queued["status"], "queued");
  EXPECT_EQ(queued["background"], true);
  EXPECT_EQ(queued["output"], Json::array());
  ASSERT_EQ(inbox().held.size(), 1u) << "it is made without its client";
  EXPECT_EQ(support::prompt_of(*call()), "system:be\nuser:hi\nassistant:");
  EXPECT_EQ(get(id)["status"], "in_progress");
  scripted().emit("ab");
  scripted().end();
  settle();
  const Json over = get(id);
  EXPECT_EQ(over["status"], "completed");
  EXPECT_EQ(over["id"], id);
  EXPECT_EQ(over["background"], true);
  EXPECT_EQ(over["output"][0]["content"][0]["text"], "ab");
  EXPECT_EQ(json(cancel(id))["status"], "completed") << "it stays as it is";
  auto next = open("POST", "/v1/responses", Json{{"model", "m"}, {"input", "so"}, {"previous_response_id", id}}.dump());
  ASSERT_EQ(inbox().held.size(), 1u) << next->sent;
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:ab\nuser:so\nassistant:");
}

TEST_F(BackgroundResponse, IsCancelled) {
  const std::string id = json(ask({}))["id"];
  EXPECT_EQ(json(cancel(id))["status"], "cancelled");
  EXPECT_EQ(get(id)["status"], "cancelled");
  EXPECT_FALSE(call()->cancelled.load()) << "its shard is told";
  ASSERT_TRUE(posted.do_next());
  settle();
  EXPECT_TRUE(call()->cancelled.load());
  EXPECT_EQ(get(id)["status"], "cancelled");
  EXPECT_EQ(get(id)["error"], Json());
}

TEST_F(BackgroundResponse, ThatIsDeletedIsGone) {
  const std::string id = json(ask({}))["id"];
  EXPECT_EQ(json(open("DELETE", "/v1/responses/" + id))["deleted"], true);
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 404);
  ASSERT_TRUE(posted.do_next());
  settle();
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 404);
  EXPECT_EQ(stored.size(), 0u);
}

TEST_F(BackgroundResponse, SaysWhyItFailed) {
  const std::string id = json(ask({}))["id"];
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  EXPECT_EQ(get(id)["status"], "failed");
  EXPECT_EQ(get(id)["error"], Json::parse(R"({"code":"server_error","message":"gone"})"));
}

TEST_F(BackgroundResponse, ThatWasNotCompletedIsNotGoneOnBehind) {
  const Json next{{"model", "m"}, {"input", "so"}};
  const auto behind = [&](const std::string& id) {
    Json body = next;
    body["previous_response_id"] = id;
    return open("POST", "/v1/responses", body.dump());
  };
  const std::string cancelled = json(ask({}))["id"];
  cancel(cancelled);
  ASSERT_TRUE(posted.do_next());
  settle();
  models.finish_all();
  settle();
  const std::string failed = json(ask({}))["id"];
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  for (const auto& id : {cancelled, failed}) {
    auto x = behind(id);
    ASSERT_EQ(x->response.status, 400) << "it would be answered without what was said before";
    EXPECT_EQ(error(x), "400 invalid_request_error previous_response_not_found previous_response_id");
  }
}

TEST_F(BackgroundResponse, WithoutRoomForItHasFailed) {
  const std::string text(500, 'a');
  const Json large{{"a", text}, {"b", text}, {"c", text}};
  options.stored = &small;
  const std::string id = json(ask({{"metadata", large}}))["id"];
  scripted().emit("ab");
  scripted().end();
  settle();
  const Json over = get(id);
  EXPECT_EQ(over["status"], "failed") << over;
  EXPECT_EQ(over["error"]["code"], "server_error");
  EXPECT_EQ(over["id"], id);
  EXPECT_EQ(over["model"], "m");
  EXPECT_EQ(over["output"], Json::array());
  const std::string other = json(ask({{"metadata", large}}))["id"];
  cancel(other);
  ASSERT_TRUE(posted.do_next());
  settle();
  EXPECT_EQ(get(other)["status"], "cancelled");
}

TEST_F(BackgroundResponse, SaysThatItsRequestWasWrong) {
  const std::string id = json(ask({}))["id"];
  scripted().fail(base::Code::kOutOfRange, "the prompt is too long");
  settle();
  EXPECT_EQ(get(id)["error"], Json::parse(R"({"code":"invalid_prompt","message":"the prompt is too long"})"));
}

// A key of which one request may run at once.
struct OneAtOnce final : wire::Authenticator {
  explicit OneAtOnce(base::Env& e) : env(e) {
    base::UsageLimits one;
    one.concurrent = 1;
    identity->tenant_number = 2;
    identity->roles = {wire::Role::kInfer};
    identity->limiter = std::make_shared<base::UsageLimiter>("k", one);
  }
  base::Result<wire::Caller> admit(const wire::Request&, wire::Permission, std::string_view) override {
    return wire::Caller::enter(identity, env.now());
  }
  std::string name_of(const wire::Request&) override { return "k"; }
  base::Status permit(const wire::Request&, wire::Permission) override { return {}; }
  base::Env& env;
  std::shared_ptr<wire::Identity> identity = std::make_shared<wire::Identity>();
};

TEST_F(BackgroundResponse, BeginsOnceTheRequestForItIsOver) {
  OneAtOnce key(env);
  router.authenticate(key);
  auto x = open("POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})");
  const std::string id = json(x)["id"];
  x.reset();
  settle();
  EXPECT_EQ(inbox().held.size(), 1u);
  scripted().end();
  settle();
  EXPECT_EQ(get(id)["status"], "completed");
}

TEST_F(BackgroundResponse, ThatIsRefusedForNowIsTriedAgain) {
  OneAtOnce key(env);
  router.authenticate(key);
  auto x = ask({});
  const std::string id = json(x)["id"];
  EXPECT_TRUE(inbox().held.empty()) << "the first request is still there";
  x.reset();
  EXPECT_EQ(get(id)["status"], "in_progress");
  env.advance(std::chrono::seconds(2));
  turn();
  ASSERT_EQ(inbox().held.size(), 1u);
  scripted().fail(base::Code::kUnavailable, "for now");
  settle();
  EXPECT_TRUE(inbox().held.empty());
  env.advance(std::chrono::seconds(2));
  turn();
  ASSERT_EQ(inbox().held.size(), 1u);
  scripted().end();
  settle();
  EXPECT_EQ(get(id)["status"], "completed");
}

TEST_F(BackgroundResponse, ThatIsRefusedForTooLongHasFailed) {
  OneAtOnce key(env);
  router.authenticate(key);
  const std::string id = json(ask({}))["id"];
  base::UsageLimiter& limiter = *key.identity->limiter;
  ASSERT_TRUE(limiter.enter(env.now()).ok()) << "another request of the key runs";
  for (int minute = 0; minute < 9; ++minute) env.advance(std::chrono::minutes(1));
  limiter.leave();
  EXPECT_EQ(get(id)["status"], "in_progress");
  ASSERT_TRUE(limiter.enter(env.now()).ok());
  for (int second = 0; second < 60; ++second) env.advance(std::chrono::seconds(1));
  limiter.leave();
  const Json over = get(id);
  EXPECT_EQ(over["status"], "failed");
  EXPECT_EQ(over["error"]["code"], "rate_limit_exceeded");
  env.advance(std::chrono::minutes(1));
  turn();
  EXPECT_TRUE(inbox().held.empty());
}

TEST_F(BackgroundResponse, ThatWaitsIsCancelled) {
  OneAtOnce key(env);
  router.authenticate(key);
  auto x = ask({});
  const std::string id = json(x)["id"];
  x.reset();
  EXPECT_EQ(json(cancel(id))["status"], "cancelled");
  ASSERT_TRUE(posted.do_next());
  env.advance(std::chrono::minutes(1));
  turn();
  EXPECT_TRUE(inbox().held.empty());
  EXPECT_EQ(get(id)["status"], "cancelled");
}

TEST_F(BackgroundResponse, GoesOnWhileTheShardDrains) {
  const std::string id = json(ask({}))["id"];
  const std::string cut_off = json(ask({}))["id"];
  jobs.drain();
  EXPECT_EQ(ask({})->response.status, 503);
  EXPECT_EQ(get(id)["status"], "in_progress");
  ASSERT_EQ(inbox().held.size(), 2u);
  scripted().emit("ab");
  scripted().end();
  settle();
  EXPECT_EQ(get(id)["status"], "completed");
  jobs.end();
  EXPECT_EQ(get(cut_off)["status"], "failed");
  EXPECT_EQ(get(cut_off)["error"]["message"], "the server ended the request");
}

TEST_F(BackgroundResponse, OfAProxyThatNamesNobodyIsItsOwn) {
  base::Clients clients;
  wire::PeerInfo proxy{"10.0.0.1:5000"};
  proxy.client = clients.enter("10.0.0.1", base::Client::Limited::kNo);
  const auto from_proxy = [&](std::string method, std::string target, std::string_view body = {}) {
    if (!openai) openai = std::make_unique<Openai>(bus, router, load, options);
    Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&router});
    x->mutable_request().peer = &proxy;
    if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
    settle();
    return x;
  };
  const std::string id =
      json(from_proxy("POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})"))["id"];
  ASSERT_EQ(inbox().held.size(), 1u);
  EXPECT_TRUE(msg::speaks_for_many(call()->tenant));
  scripted().end();
  settle();
  EXPECT_EQ(json(from_proxy("GET", "/v1/responses/" + id))["status"], "completed");
}

// The types of the events of a stream.
std::vector<std::string> types_of(std::string_view sent) {
  std::vector<std::string> out;
  for (size_t at; (at = sent.find("event: ")) != sent.npos;) {
    sent.remove_prefix(at + 7);
    out.emplace_back(sent.substr(0, sent.find('\n')));
  }
  return out;
}

TEST_F(BackgroundResponse, IsStreamedToWhoeverAsks) {
  auto x = ask({{"stream", true}});
  const std::vector<std::string> begun{"response.created", "response.in_progress"};
  EXPECT_EQ(types_of(x->sent), begun);
  EXPECT_FALSE(x->ended);
  const Json created = Json::parse(
      std::string_view(x->sent).substr(x->sent.find("data: ") + 6, x->sent.find("\n\n") - x->sent.find("data: ") - 6));
  const std::string id = created["response"]["id"], path = "/v1/responses/" + id + "?stream=true";
  auto later = open("GET", path), rest = open("GET", path + "&starting_after=4");
  EXPECT_EQ(types_of(rest->sent).size(), 0u);
  ASSERT_EQ(inbox().held.size(), 1u);
  scripted().emit("ab");
  scripted().end();
  settle();
  env.advance(std::chrono::milliseconds(200));
  turn();
  for (const auto* one : {&x, &later, &rest}) EXPECT_TRUE((*one)->ended);
  EXPECT_EQ(types_of(x->sent).size(), 9u) << x->sent;
  EXPECT_EQ(types_of(x->sent).back(), "response.completed");
  EXPECT_EQ(later->sent, x->sent);
  EXPECT_EQ(open("GET", path)->sent, x->sent);
  EXPECT_EQ(types_of(rest->sent).size(), 4u);
  EXPECT_TRUE(x->sent.ends_with(rest->sent));
}

TEST_F(BackgroundResponse, OfALongRequestAllEventsComeInTheEnd) {
  auto x = ask({{"stream", true}, {"instructions", std::string(wire::kLongBody, 'a')}, {"model", "long"}});
  EXPECT_EQ(x->sent, "");
  EXPECT_TRUE(x->headed);
  settle();
  env.advance(std::chrono::milliseconds(200));
  turn();
  EXPECT_EQ(types_of(x->sent).front(), "response.created");
  EXPECT_TRUE(x->ended);
}

TEST_F(BackgroundResponse, AStreamEndsWithOneThatFails) {
  auto x = ask({{"stream", true}});
  auto gone = open("GET", "/v1/responses/resp_1?stream=true");
  EXPECT_EQ(gone->response.status, 404);
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  env.advance(std::chrono::milliseconds(200));
  turn();
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(types_of(x->sent).back(), "response.failed");
}

TEST_F(BackgroundResponse, AStreamOfOneThatIsDeletedEnds) {
  auto x = ask({{"stream", true}});
  const std::string id = "resp_" + x->sent.substr(x->sent.find("resp_") + 5, 24);
  EXPECT_EQ(json(open("DELETE", "/v1/responses/" + id))["deleted"], true);
  ASSERT_TRUE(posted.do_next());
  settle();
  for (int i = 0; i < 25; ++i) env.advance(std::chrono::milliseconds(100)), turn();
  EXPECT_TRUE(x->ended);
  auto left = ask({{"stream", true}});
  left.reset();
  env.advance(std::chrono::seconds(1));
}

TEST_F(BackgroundResponse, HasToBeStored) {
  EXPECT_EQ(error(ask({{"store", false}})), "400 invalid_request_error - background");
  auto live = open("POST", "/v1/responses", Json{{"model", "m"}, {"input", "hi"}}.dump());
  scripted().end();
  turn();
  EXPECT_EQ(error(cancel(json(live)["id"])), "400 invalid_request_error - response_id");
  EXPECT_EQ(cancel("resp_1")->response.status, 404);
}

TEST_F(BackgroundResponse, ATenantHasAQuarterOfThePlaces) {
  for (size_t i = 0; i < responses::BackgroundResponses::kMost / 4; ++i)
    ASSERT_TRUE(background.begin(std::to_string(i), {.tenant = 7}));
  EXPECT_FALSE(background.begin("a", {.tenant = 7}));
  EXPECT_TRUE(background.begin("a", {.tenant = 8}));
  EXPECT_FALSE(background.stop(7, "a", responses::BackgroundResponses::Ending::kCancelled)) << "another's";
}

}  // namespace
}  // namespace weir::openai
