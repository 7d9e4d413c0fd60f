// The stream of requests: its followers, and the lines that each is told.
#include "dialects/ops/request_feed.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clients.h"
#include "dialects/ops/feed_stream.h"
#include "ops_shards.h"
#include "wire/identity.h"

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using support::FakeExchange;

struct Feed : testing::Test, Shards {
  Feed() {
    for (uint32_t i = 0; i < 2; ++i) feeds.push_back(all.on_shard(base::ShardId(i), env, routers.emplace_back(env)));
  }
  // A request ends on a shard.
  void end(FakeExchange& x, size_t shard) { feeds[shard]->finished(x); }
  // The shards send what they have gathered.
  void send() {
    env.advance(RequestFeed::kEvery);
    run();
  }
  static size_t count(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
    return n;
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
  send();
  ASSERT_TRUE(follower.sent.starts_with("data: {\"time\":")) << follower.sent;
  const json line = json::parse(follower.sent.substr(6));
  EXPECT_EQ(line["model"], "m");
  EXPECT_EQ(line["seconds"], 0.001);
  follower.sent.clear();
  end(*request(env, "m"), 1);
  send();
  EXPECT_NE(follower.sent.find("\"model\":\"m\""), std::string::npos);
  leave(follower, 1);
}

TEST_F(Feed, WhatHasComeIsSentAtOnceAndLater) {
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 1);
  follower.sent.clear();
  for (int i = 0; i < 100; ++i) end(*request(env, "m"), i % 2);
  EXPECT_EQ(env.armed(), 3u) << "a timer for each shard, and the sign of life";
  run();
  EXPECT_EQ(follower.sent, "") << "nothing yet";
  env.advance(RequestFeed::kEvery);
  EXPECT_EQ(posts.size(), 1u) << "one batch from the other shard";
  run();
  EXPECT_EQ(count(follower.sent, "data: {"), 100u);
  leave(follower, 1);
}

TEST_F(Feed, WhoAsksForTheSameGetsTheSameBytesAndOthersTheirOwn) {
  FakeExchange a("GET", "/console/v1/requests?model=m"), b("GET", "/console/v1/requests?model=m&x=1"),
      other("GET", "/console/v1/requests?model=n"), all_of_them("GET", "/console/v1/requests");
  ask(a, 0), ask(b, 0), ask(other, 0), ask(all_of_them, 1);
  for (auto* x : {&a, &b, &other, &all_of_them}) x->sent.clear();
  end(*request(env, "m"), 0);
  end(*request(env, "n"), 0);
  send();
  EXPECT_EQ(a.sent, b.sent);
  EXPECT_EQ(count(a.sent, "data: {"), 1u);
  EXPECT_EQ(count(a.sent, "\"model\":\"m\""), 1u);
  EXPECT_EQ(count(other.sent, "\"model\":\"n\""), 1u);
  EXPECT_EQ(count(other.sent, "data: {"), 1u);
  EXPECT_EQ(all_of_them.sent, a.sent + other.sent);
  leave(a, 0);
  end(*request(env, "m"), 1);
  b.sent.clear();
  send();
  EXPECT_EQ(count(b.sent, "data: {"), 1u) << "the one that stays";
  leave(b, 0), leave(other, 0), leave(all_of_them, 1);
}

TEST_F(Feed, AKeyOfSomeModelsIsToldOfTheirRequestsAlone) {
  wire::Identity identity;
  identity.models = std::make_shared<const base::ModelScope>(std::vector<std::string>{"m"});
  FakeExchange some("GET", "/console/v1/requests"), everything("GET", "/console/v1/requests");
  some.mutable_request().identity = &identity;
  ask(some, 0), ask(everything, 0);
  for (auto* x : {&some, &everything}) x->sent.clear();
  for (const char* model : {"m", "n", ""}) end(*request(env, model), 1);
  send();
  EXPECT_EQ(count(some.sent, "data: {"), 1u) << some.sent;
  EXPECT_EQ(count(some.sent, "\"model\":\"m\""), 1u);
  EXPECT_EQ(count(everything.sent, "data: {"), 3u);
  leave(some, 0), leave(everything, 0);
}

TEST_F(Feed, WhoComesLateIsNotToldOfWhatWasBefore) {
  FakeExchange first("GET", "/console/v1/requests"), late("GET", "/console/v1/requests?model=late");
  ask(first, 0);
  end(*request(env, "m"), 1);
  ask(late, 0);
  late.sent.clear(), first.sent.clear();
  end(*request(env, "late"), 1);
  send();
  EXPECT_EQ(count(first.sent, "data: {"), 2u) << "what was gathered stays when others come";
  EXPECT_EQ(count(late.sent, "data: {"), 1u);
  leave(late, 0);
  leave(first, 0);
}

TEST_F(Feed, MoreThanAreWantedAreCountedAndFailuresHaveTheirOwnRoom) {
  FakeExchange follower("GET", "/console/v1/requests?most=50"), everything("GET", "/console/v1/requests");
  ask(follower, 0), ask(everything, 0);
  follower.sent.clear(), everything.sent.clear();
  for (int i = 0; i < 20; ++i) end(*request(env, "good"), 0);
  for (int i = 0; i < 2; ++i) end(*request(env, "bad", 1ms, base::Code::kInternal), 0);
  send();
  EXPECT_TRUE(follower.sent.starts_with("event: dropped\ndata: {\"dropped\":15}\n\n")) << follower.sent;
  EXPECT_EQ(count(follower.sent, "\"model\":\"good\""), 5u);
  EXPECT_EQ(count(follower.sent, "\"model\":\"bad\""), 2u);
  EXPECT_EQ(count(everything.sent, "\"model\":\"good\""), 20u);
  EXPECT_EQ(count(everything.sent, "dropped"), 0u);
  follower.sent.clear();
  end(*request(env, "good"), 0);
  send();
  EXPECT_EQ(count(follower.sent, "data: {"), 1u) << "the next 100 ms have room again";
  leave(follower, 0), leave(everything, 0);
}

TEST_F(Feed, WhereNobodyFollowsNothingIsMade) {
  end(*request(env, "m"), 0);
  EXPECT_EQ(env.armed(), 0u);
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 1);
  end(*request(env, "m"), 0);
  leave(follower, 1);
  end(*request(env, "m"), 0);
  send();
  EXPECT_TRUE(posts.empty());
  EXPECT_EQ(feeds[1]->followers(), 0u);
}

TEST_F(Feed, WhoDoesNotReadIsToldHowMuchItHasMissed) {
  FakeExchange follower("GET", "/console/v1/requests?model=m");
  ask(follower, 0);
  follower.sent.clear();
  follower.fake_backlog = RequestFeed::kMostBacklog;
  for (int i = 0; i < 5; ++i) end(*request(env, "m"), 1), send();
  end(*request(env, "other"), 1), send();
  EXPECT_EQ(follower.sent, "");
  follower.fake_backlog = 0;
  end(*request(env, "m"), 1), send();
  EXPECT_TRUE(follower.sent.starts_with("event: dropped\ndata: {\"dropped\":5}\n\ndata: {")) << follower.sent;
  leave(follower, 0);
}

TEST_F(Feed, WhatAShardIsTooBusyToTakeIsDroppedAndCounted) {
  FakeExchange follower("GET", "/console/v1/requests");
  ask(follower, 0);
  follower.sent.clear();
  const auto x = request(env, "m");
  for (int i = 0; i < 20000; ++i) {
    end(*x, 1);
    if (i % 500 == 499) env.advance(RequestFeed::kEvery);
  }
  EXPECT_LT(posts.size(), 20u) << "the way between shards is bounded";
  run();
  const size_t told = count(follower.sent, "data: {\"time");
  EXPECT_LT(told, 10000u);
  follower.sent.clear();
  end(*x, 1), send();
  EXPECT_NE(follower.sent.find("{\"dropped\":" + std::to_string(20000 - told) + "}"), std::string::npos)
      << follower.sent.substr(0, 100);
  leave(follower, 0);
}

TEST_F(Feed, VeryMuchToTellIsToldInPart) {
  FakeExchange follower("GET", "/console/v1/requests?most=100000");
  std::deque<FakeExchange> others;
  ask(follower, 0);
  follower.sent.clear();
  const auto x = request(env, "m");
  for (int i = 0; i < 20000; ++i) end(*x, 0);
  send();
  EXPECT_LT(follower.sent.size(), RequestFeed::kMostGathered + 1000);
  EXPECT_TRUE(follower.sent.starts_with("event: dropped")) << follower.sent.substr(0, 100);
  // Those that ask for something else share the same bound.
  for (size_t i = 0; i + 1 < kMostFollowers; ++i)
    ask(others.emplace_back("GET", "/console/v1/requests?most=" + std::to_string(99999 - i)), 0);
  size_t all_bytes = 0;
  follower.sent.clear();
  for (auto& other : others) other.sent.clear();
  for (int i = 0; i < 20000; ++i) end(*x, 0);
  send();
  for (auto& other : others) all_bytes += other.sent.size();
  EXPECT_LT(all_bytes + follower.sent.size(), RequestFeed::kMostGathered + 1000 * kMostFollowers);
  leave(follower, 0);
  for (auto& other : others) leave(other, 0);
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
  end(*request(env, "last"), 0);
  feeds[0]->drain();
  for (auto& follower : followers) {
    EXPECT_TRUE(follower.ended);
    EXPECT_NE(follower.sent.find("\"model\":\"last\""), std::string::npos) << "what was gathered is sent";
    leave(follower, 0);
  }
  FakeExchange late("GET", "/console/v1/requests");
  ask(late, 0);
  EXPECT_EQ(late.response.status, 503);
  EXPECT_EQ(feeds[0]->followers(), 0u);
}

TEST_F(Feed, OneClientDoesNotTakeAllPlaces) {
  base::Clients clients;
  auto peer = [&](const std::string& host) {
    return wire::PeerInfo{.address = host + ":5000", .client = clients.enter(host, base::Client::Limited::kYes)};
  };
  const auto greedy = peer("10.0.0.1"), other = peer("10.0.0.2");
  std::deque<FakeExchange> followers;
  auto follow = [&](const wire::PeerInfo& peer) {
    auto& x = followers.emplace_back("GET", "/console/v1/requests?most=" + std::to_string(followers.size() + 1));
    x.mutable_request().peer = &peer;
    ask(x, 0);
    return x.response.status;
  };
  for (size_t i = 0; i < kMostFollowers / 2; ++i) EXPECT_EQ(follow(greedy), 200);
  EXPECT_EQ(follow(greedy), 503) << "half of the places are taken, and all are its own";
  for (size_t i = 0; i < kMostFollowers / 4; ++i) EXPECT_EQ(follow(other), 200);
  EXPECT_EQ(follow(other), 503) << "a quarter of the places";
  for (auto& x : followers)
    if (x.response.status == 200) leave(x, 0);
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
  send();
  EXPECT_NE(follower.sent.find("\"reason\":\"framing_te\""), std::string::npos);
  EXPECT_EQ(good.sent, "");
  leave(follower, 0), leave(good, 0);
}

TEST_F(Feed, AMistakeInAFilterIsAnswered) {
  FakeExchange follower("GET", "/console/v1/requests?slow=soon");
  ask(follower, 0);
  EXPECT_EQ(follower.response.status, 400);
  EXPECT_NE(follower.sent.find("slow: "), std::string::npos);
  for (const char* most : {"0", "100001", "-1", "many", "5x"}) {
    FakeExchange wrong("GET", std::string("/console/v1/requests?most=") + most);
    ask(wrong, 0);
    EXPECT_EQ(wrong.response.status, 400) << most;
    EXPECT_NE(wrong.sent.find("most: "), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::ops
