// The console's API: who follows requests, and which requests are kept.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "dialects/ops/feed_stream.h"
#include "dialects/ops/recent_requests.h"
#include "dialects/ops/request_feed.h"
#include "support/fake_wire.h"

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using support::FakeExchange;

// Shards whose posts run when the test says so.
struct Shards {
  base::FakeEnv env;
  std::deque<std::pair<base::ShardId, std::function<void()>>> posts;
  std::deque<wire::Router> routers;
  std::function<void(base::ShardId, std::function<void()>)> post() {
    return [this](base::ShardId shard, std::function<void()> work) { posts.emplace_back(shard, std::move(work)); };
  }
  void run() {
    while (!posts.empty()) {
      auto work = std::move(posts.front().second);
      posts.pop_front();
      work();
    }
  }
  void ask(FakeExchange& x, size_t shard) {
    x.time = env.now();
    (void)routers[shard].begin(x);
  }
  void leave(FakeExchange& x, size_t shard) {
    x.close(false);
    routers[shard].closed(x);
  }
};

// A request that has ended.
std::unique_ptr<FakeExchange> request(base::FakeEnv& env, std::string model, base::Duration took = 1ms,
                                      base::Code code = base::Code::kOk) {
  auto x = std::make_unique<FakeExchange>("POST", "/v2/models/m/infer");
  x->time = env.now();
  auto& record = x->record();
  record.protocol = "oip-rest", record.model = std::move(model), record.status = base::http_status(code);
  record.code = code, record.request_id = "r-" + record.model;
  record.began = env.now() - took;
  return x;
}

RequestFilter filter(const std::string& query) {
  FakeExchange x("GET", "/?" + query);
  return *RequestFilter::from_query(x.request());
}

TEST(RequestFilter, MatchesWhatItsParametersSay) {
  base::FakeEnv env;
  auto good = request(env, "a"), missing = request(env, "b", 1ms, base::Code::kNotFound);
  auto both = [&](const std::string& query) {
    const auto f = filter(query);
    return std::pair(f.matches(good->record(), 1ms), f.matches(missing->record(), 1ms));
  };
  EXPECT_EQ(both(""), std::pair(true, true));
  EXPECT_EQ(both("unknown=x"), std::pair(true, true));
  EXPECT_EQ(both("model=a"), std::pair(true, false));
  EXPECT_EQ(both("protocol=oip-rest"), std::pair(true, true));
  EXPECT_EQ(both("protocol=grps"), std::pair(false, false));
  EXPECT_EQ(both("status=ok"), std::pair(true, false));
  EXPECT_EQ(both("status=failed"), std::pair(false, true));
  EXPECT_EQ(both("status=404"), std::pair(false, true));
  EXPECT_EQ(both("status=4XX"), std::pair(false, true));
  EXPECT_EQ(both("status=not_found"), std::pair(false, true));
  EXPECT_EQ(both("slow=1ms"), std::pair(true, true));
  EXPECT_EQ(both("slow=2ms"), std::pair(false, false));
  EXPECT_EQ(both("model=b&status=ok"), std::pair(false, false));
}

TEST(RequestFilter, AParameterThatMeansNothingIsNamed) {
  for (const char* query : {"status=9xx", "status=99", "status=MAYBE", "slow=soon", "slow=-1s"}) {
    FakeExchange x("GET", std::string("/?") + query);
    auto made = RequestFilter::from_query(x.request());
    ASSERT_FALSE(made) << query;
    EXPECT_EQ(made.error().code, base::Code::kInvalidArgument);
  }
  FakeExchange x("GET", "/?model=" + std::string(300, 'm'));
  EXPECT_FALSE(RequestFilter::from_query(x.request()));
}

// --- the stream ------------------------------------------------------------------------------------------------------

struct Feed : testing::Test, Shards {
  Feed() {
    for (uint32_t i = 0; i < 2; ++i) feeds.push_back(all.on_shard(base::ShardId(i), env, routers.emplace_back(env)));
  }
  // A request ends on a shard, and its turn, too.
  void end(FakeExchange& x, size_t shard) {
    feeds[shard]->finished(x);
    feeds[shard]->flush();
    run();
  }
  RequestFeed all{2, post()};
  std::vector<std::unique_ptr<RequestFeed::ShardFeed>> feeds;
};

TEST_F(Feed, RequestsOfAnyShardReachWhoFollowsOnOne) {
  FakeExchange follower("GET", "/console/v1/requests?model=m");
  ask(follower, 1);
  EXPECT_EQ(follower.response.status, 200);
  EXPECT_EQ(follower.response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  follower.sent.clear();
  end(*request(env, "m"), 0);
  end(*request(env, "other"), 0);
  ASSERT_TRUE(follower.sent.starts_with("data: {\"time\":")) << follower.sent;
  const json line = json::parse(follower.sent.substr(6));
  EXPECT_EQ(line["model"], "m");
  EXPECT_EQ(line["seconds"], 0.001);
  follower.sent.clear();
  end(*request(env, "m"), 1);
  EXPECT_NE(follower.sent.find("\"model\":\"m\""), std::string::npos);
  leave(follower, 1);
}

TEST_F(Feed, WhereNobodyFollowsNothingIsMade) {
  end(*request(env, "m"), 0);
  EXPECT_TRUE(posts.empty());
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 1);
  leave(follower, 1);
  feeds[0]->finished(*request(env, "m"));
  feeds[0]->flush();
  EXPECT_TRUE(posts.empty());
  EXPECT_EQ(feeds[1]->followers(), 0u);
}

TEST_F(Feed, WhoDoesNotReadIsToldHowMuchItHasMissed) {
  FakeExchange follower("GET", "/console/v1/requests?model=m");
  ask(follower, 0);
  follower.sent.clear();
  follower.fake_backlog = RequestFeed::kMostBacklog;
  for (int i = 0; i < 5; ++i) end(*request(env, "m"), 1);
  end(*request(env, "other"), 1);
  EXPECT_EQ(follower.sent, "");
  follower.fake_backlog = 0;
  end(*request(env, "m"), 1);
  EXPECT_TRUE(follower.sent.starts_with("event: dropped\ndata: {\"dropped\":5}\n\ndata: {")) << follower.sent;
  leave(follower, 0);
}

TEST_F(Feed, WhatAShardIsTooBusyToTakeIsDroppedAndCounted) {
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 0);
  follower.sent.clear();
  size_t most = 0;
  for (int i = 0; i < 20000; ++i) {
    feeds[1]->finished(*request(env, "m"));
    feeds[1]->flush();
    most = std::max(most, posts.size());
  }
  EXPECT_LT(most, 10000u) << "the way between shards is bounded";
  run();
  EXPECT_NE(follower.sent.find("event: dropped"), std::string::npos);
  leave(follower, 0);
}

TEST_F(Feed, ATurnWithVeryMuchToTellTellsPartOfIt) {
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 0);
  follower.sent.clear();
  for (int i = 0; i < 20000; ++i) feeds[0]->finished(*request(env, "m"));
  feeds[0]->flush();
  run();
  EXPECT_LT(follower.sent.size(), 1'000'000u);
  EXPECT_TRUE(follower.sent.starts_with("event: dropped")) << follower.sent.substr(0, 100);
  leave(follower, 0);
}

TEST_F(Feed, FollowersAreBoundedAndGoWithTheServer) {
  std::deque<FakeExchange> followers;
  for (size_t i = 0; i < kMostFollowers; ++i) {
    ask(followers.emplace_back("GET", "/console/v1/requests"), 0);
    EXPECT_EQ(followers.back().response.status, 200);
  }
  FakeExchange more("GET", "/console/v1/requests");
  ask(more, 0);
  EXPECT_EQ(more.response.status, 503);
  feeds[0]->drain();
  for (auto& follower : followers) {
    EXPECT_TRUE(follower.ended);
    leave(follower, 0);
  }
  FakeExchange late("GET", "/console/v1/requests");
  ask(late, 0);
  EXPECT_EQ(late.response.status, 503);
  EXPECT_EQ(feeds[0]->followers(), 0u);
}

TEST_F(Feed, AQuietStreamShowsThatItLives) {
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 0);
  follower.sent.clear();
  env.advance(25s);
  EXPECT_EQ(follower.sent, ": ping\n\n: ping\n\n");
  leave(follower, 0);
  env.advance(60s);
  EXPECT_EQ(env.armed(), 0u) << "no timer where nobody follows";
}

TEST_F(Feed, WhatNeverBecameARequestIsTold) {
  FakeExchange follower("GET", "/console/v1/requests?status=failed"), good("GET", "/console/v1/requests?status=ok");
  ask(follower, 0), ask(good, 0);
  follower.sent.clear(), good.sent.clear();
  feeds[1]->rejected("framing_te", *follower.request().peer);
  feeds[1]->flush();
  run();
  EXPECT_NE(follower.sent.find("\"reason\":\"framing_te\""), std::string::npos);
  EXPECT_EQ(good.sent, "");
  leave(follower, 0), leave(good, 0);
}

TEST_F(Feed, AMistakeInAFilterIsAnswered) {
  FakeExchange follower("GET", "/console/v1/requests?slow=soon");
  ask(follower, 0);
  EXPECT_EQ(follower.response.status, 400);
  EXPECT_NE(follower.sent.find("slow: "), std::string::npos);
}

// --- timelines -------------------------------------------------------------------------------------------------------

struct Timelines : testing::Test, Shards {
  explicit Timelines(RecentRules rules = {4, 100ms}) : all(2, post(), rules) {
    for (uint32_t i = 0; i < 2; ++i) kept.push_back(all.on_shard(base::ShardId(i), env, routers.emplace_back(env)));
  }
  std::string get(const std::string& query, size_t shard = 0) {
    FakeExchange x("GET", "/console/v1/timelines?" + query);
    ask(x, shard);
    run();
    leave(x, shard);
    return std::to_string(x.response.status) + ' ' + x.sent;
  }
  std::string models(const std::string& query) {
    std::string out;
    const json answer = json::parse(get(query).substr(4));
    for (const auto& each : answer["requests"]) out += each["model"].get<std::string>() + ' ';
    return out;
  }
  RecentRequests all;
  std::vector<std::unique_ptr<RecentRequests::ShardRequests>> kept;
};

TEST_F(Timelines, ARequestHasItsPartsInTheirOrder) {
  auto x = request(env, "m", 10ms);
  auto& record = x->record();
  const base::Time began = record.began;
  record.queue = 2ms, record.compute = 4ms;
  record.times = {began + 1ms, began + 2ms, began + 4ms, began + 5ms, began + 9ms};
  record.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  kept[1]->finished(*x);
  for (const char* id : {"r-m", "0af7651916cd43dd8448eb211c80319c"}) {
    const json found = json::parse(get(std::string("id=") + id).substr(4))["requests"].at(0);
    EXPECT_EQ(found["request_id"], "r-m");
    json parts = json::array();
    for (const auto& part : found["parts"]) {
      parts.push_back(part["name"]);
      parts.push_back(std::lround(part["start"].get<double>() * 1000));
      parts.push_back(std::lround(part["seconds"].get<double>() * 1000));
    }
    EXPECT_EQ(parts,
              json({"receive", 0, 1, "decode", 1, 1, "queue", 2, 2, "stage", 4, 1, "compute", 5, 4, "send", 9, 1}));
  }
  EXPECT_TRUE(get("id=unknown").starts_with("404 "));
}

TEST_F(Timelines, OrdinaryRequestsMakeWayAndNotableOnesStay) {
  kept[0]->finished(*request(env, "slow", 200ms));
  kept[0]->finished(*request(env, "bad", 1ms, base::Code::kInternal));
  for (int i = 0; i < 10; ++i) {
    env.advance(1ms);
    kept[i % 2]->finished(*request(env, std::to_string(i)));
  }
  EXPECT_EQ(models("last=3"), "9 8 7 ");
  EXPECT_EQ(models("slowest=1"), "slow ");
  EXPECT_EQ(models("status=failed"), "bad ");
  EXPECT_EQ(models("last=200"), "9 8 7 6 5 4 3 2 slow bad ");
  EXPECT_EQ(json::parse(get("").substr(4))["kept"], 10);
  EXPECT_TRUE(get("slow=soon").starts_with("400 "));
}

TEST_F(Timelines, OfVeryManyRequestsSomeAreKept) {
  FakeExchange x("POST", "/");
  x.time = env.now();
  x.record().protocol = "oip-rest", x.record().began = env.now();
  for (int i = 0; i < 1000; ++i) {
    x.record().request_id = std::to_string(i);
    kept[0]->finished(x);
  }
  const json last = json::parse(get("last=1").substr(4))["requests"].at(0);
  EXPECT_EQ(last["request_id"], "199") << "200 a second";
}

TEST_F(Timelines, ProbesScrapesAndTheConsoleItselfAreLeftOut) {
  for (const char* protocol : {"health", "metrics", "console"}) {
    auto x = request(env, "m", 1s);
    x->record().protocol = protocol;
    kept[0]->finished(*x);
  }
  EXPECT_EQ(json::parse(get("").substr(4))["kept"], 0);
}

TEST_F(Timelines, WhoLeavesBeforeTheAnswerCostsNothing) {
  FakeExchange x("GET", "/console/v1/timelines");
  ask(x, 0);
  leave(x, 0);
  run();
  EXPECT_FALSE(x.headed);
}

struct NoTimelines : Timelines {
  NoTimelines() : Timelines({0, 100ms}) {}
};

TEST_F(NoTimelines, TheSettingThatTurnsThemOffIsNamed) {
  kept[0]->finished(*request(env, "m"));
  EXPECT_NE(get("").find("console.timelines"), std::string::npos);
}

}  // namespace
}  // namespace weir::ops
