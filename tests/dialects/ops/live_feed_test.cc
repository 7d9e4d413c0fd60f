// The console's live data: what its events say, and who gets them.
#include "dialects/ops/console/live_feed.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "dialects/ops/feed_stream.h"
#include "support/fake_wire.h"
#include "wire/authenticator.h"
#include "wire/identity.h"

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using support::FakeExchange;
using Shown = LiveState::Warnings;

LiveState::Source source(std::string metrics, std::string not_ready = "") {
  LiveState::Source out;
  out.at = base::WallTime(1700000000123ms);
  out.metrics = std::move(metrics);
  out.not_ready = std::move(not_ready);
  return out;
}

TEST(LiveState, AStateIsEverySeriesOfTheMetricsAsItStands) {
  const LiveState state(source("# HELP a b\n# TYPE a counter\na 1\nb{x=\"1 \\\" {\",le=\"+Inf\"} 0.5\nc 1e-05\n"));
  const json out = json::parse(state.whole(Shown::kShown));
  EXPECT_EQ(out["time"], 1700000000123);
  EXPECT_EQ(out["values"], json({{"a", 1}, {"b{x=\"1 \\\" {\",le=\"+Inf\"}", 0.5}, {"c", 1e-05}}));
  EXPECT_EQ(out["warnings"], json::array());
  EXPECT_EQ(out["models"], json::array());
}

TEST(LiveState, WhatIsNoNumberInJsonIsLeftOut) {
  const LiveState state(source("a NaN\nb +Inf\nc -3\nd\n\ne 7\nf 1.\ng 0x1\n"));
  EXPECT_EQ(json::parse(state.whole(Shown::kShown))["values"], json({{"c", -3}, {"e", 7}}));
}

TEST(LiveState, AChangeHasWhatIsNewAndNamesWhatIsGone) {
  const LiveState first(source("a 1\nb 2\nc 3\ne 1\n")), second(source("a 1\nb 4\nd 5\ne 1\n", "models are loading"));
  const json out = json::parse(second.change_from(first, Shown::kShown));
  EXPECT_EQ(out["values"], json({{"b", 4}, {"d", 5}}));
  EXPECT_EQ(out["gone"], json({"c"}));
  EXPECT_EQ(out["not_ready"], "models are loading");
  EXPECT_FALSE(out.contains("models"));
  EXPECT_FALSE(out.contains("warnings"));
  const json none = json::parse(second.change_from(second, Shown::kShown));
  EXPECT_EQ(none, json({{"time", 1700000000123}, {"values", json::object()}}));
}

TEST(LiveState, NamesAndLinesOfAnyBytesStayText) {
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->index.push_back({"</script>\x01\xff", "1", bus::ModelState::kUnavailable, "\"\n<img>"});
  auto from = source("");
  from.catalog = catalog;
  from.warnings = {1, {"<b>\r\n\ndata: forged\x1b[31m"}};
  const LiveState state(std::move(from));
  const json out = json::parse(state.whole(Shown::kShown));
  EXPECT_EQ(out["models"][0]["name"], "</script>\x01\xef\xbf\xbd");
  EXPECT_EQ(out["models"][0]["state"], "UNAVAILABLE");
  EXPECT_EQ(out["models"][0]["reason"], "\"\n<img>");
  EXPECT_EQ(out["warnings"][0], "<b>\r\n\ndata: forged\x1b[31m");
  EXPECT_EQ(state.whole(Shown::kShown).find('\n'), std::string::npos);
  EXPECT_FALSE(json::parse(state.whole(Shown::kHidden)).contains("warnings"));
}

// A version leaves memory once nobody keeps it: no browser that was there a while ago may.
TEST(LiveState, NoModelIsKeptForIt) {
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->index.push_back({"m", "1", bus::ModelState::kReady, ""});
  auto served = std::make_shared<bus::Served>();
  served->spec.engine = "onnx";
  catalog->models["m"].versions["1"] = served;
  auto from = source("");
  from.catalog = std::move(catalog);
  const LiveState state(std::move(from));
  EXPECT_EQ(served.use_count(), 1);
  EXPECT_EQ(json::parse(state.whole(Shown::kShown))["models"][0]["engine"], "onnx");
}

// Two shards whose posts run when the test says so, and an hour that it sets.
struct LiveFeeds : testing::Test {
  LiveFeeds() {
    for (uint32_t i = 0; i < 2; ++i) lives.push_back(all.on_shard(base::ShardId(i), routers.emplace_back(env)));
  }
  void ask(FakeExchange& x, size_t shard) {
    x.time = env.now();
    (void)routers[shard].begin(x);
  }
  void leave(FakeExchange& x, size_t shard) {
    x.close(false);
    routers[shard].closed(x);
  }
  void turn() {
    all.turn();
    while (!posts.empty()) {
      auto work = std::move(posts.front());
      posts.pop_front();
      work();
    }
  }
  // The events that have come since it was last asked.
  static std::vector<std::pair<std::string, json>> events(FakeExchange& x) {
    std::vector<std::pair<std::string, json>> out;
    std::string_view text = x.sent;
    while (!text.empty()) {
      const auto event = text.substr(0, text.find("\n\n"));
      text.remove_prefix(std::min(event.size() + 2, text.size()));
      if (!event.starts_with("event: ")) continue;
      const size_t line = event.find("\ndata: ");
      out.emplace_back(event.substr(7, line - 7), json::parse(event.substr(line + 7)));
    }
    x.sent.clear();
    return out;
  }

  base::FakeEnv env;
  std::deque<std::function<void()>> posts;
  std::deque<wire::Router> routers;
  int value = 0, looks = 0;
  LiveFeed all{2, [this](base::ShardId, std::function<void()> work) { posts.push_back(std::move(work)); },
               [this] {
                 ++looks;
                 auto out = source("same 1\nvalue " + std::to_string(value) + "\n");
                 out.warnings = {uint64_t(value), {"line " + std::to_string(value)}};
                 return out;
               }};
  std::vector<std::unique_ptr<LiveFeed::ShardLive>> lives;
};

TEST_F(LiveFeeds, TheFirstEventIsTheStateAndThoseBehindItAreChanges) {
  FakeExchange a("GET", "/console/v1/live"), b("GET", "/console/v1/live");
  ask(a, 0);
  EXPECT_EQ(a.response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  turn();
  value = 1;
  ask(b, 1);
  turn();
  auto of_a = events(a), of_b = events(b);
  ASSERT_EQ(of_a.size(), 2u);
  EXPECT_EQ(of_a[0].first, "state");
  EXPECT_EQ(of_a[1].first, "change");
  EXPECT_EQ(of_a[1].second["values"], json({{"value", 1}}));
  EXPECT_EQ(of_a[1].second["warnings"], json({"line 1"}));
  ASSERT_EQ(of_b.size(), 1u);
  EXPECT_EQ(of_b[0].first, "state");
  EXPECT_EQ(of_b[0].second["values"], json({{"same", 1}, {"value", 1}}));
  leave(a, 0), leave(b, 1);
}

TEST_F(LiveFeeds, WhereNobodyFollowsNothingIsLookedAt) {
  turn();
  FakeExchange a("GET", "/console/v1/live");
  ask(a, 0);
  leave(a, 0);
  turn();
  EXPECT_EQ(looks, 0);
  EXPECT_EQ(lives[0]->followers(), 0u);
}

TEST_F(LiveFeeds, WhoDoesNotReadGetsTheStateWhenHeReadsAgain) {
  FakeExchange a("GET", "/console/v1/live");
  ask(a, 0);
  turn();
  (void)events(a);
  a.fake_backlog = LiveFeed::kMostBacklog;
  for (value = 1; value < 100; ++value) turn();
  EXPECT_EQ(a.sent, "");
  a.fake_backlog = 0;
  turn();
  EXPECT_EQ(a.sent, "") << "states are made for who is known to want one";
  turn();
  turn();
  auto heard = events(a);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].first, "state");
  EXPECT_EQ(heard[1].first, "change");
  leave(a, 0);
}

TEST_F(LiveFeeds, AShardThatTakesNothingIsSentNoMore) {
  FakeExchange a("GET", "/console/v1/live");
  ask(a, 0);
  for (value = 1; value < 1000; ++value) all.turn();
  EXPECT_LT(posts.size(), 10u);
  turn();
  EXPECT_EQ(events(a)[0].first, "state");
  leave(a, 0);
}

TEST_F(LiveFeeds, AShardHasSoManyFollowersAndNoMore) {
  std::deque<FakeExchange> many;
  for (size_t i = 0; i < kMostFollowers; ++i) ask(many.emplace_back("GET", "/console/v1/live"), 0);
  FakeExchange last("GET", "/console/v1/live");
  ask(last, 0);
  EXPECT_EQ(last.response.status, 503);
  for (auto& x : many) leave(x, 0);
}

TEST_F(LiveFeeds, StreamsEndWhenTheServerGoes) {
  FakeExchange a("GET", "/console/v1/live");
  ask(a, 0);
  lives[0]->drain();
  EXPECT_TRUE(a.ended);
  FakeExchange b("GET", "/console/v1/live");
  ask(b, 0);
  EXPECT_EQ(b.response.status, 503);
  leave(a, 0);
}

// Lets everybody in, and shows the requests of others to nobody.
struct Closed final : wire::Authenticator {
  base::Result<wire::Caller> admit(const wire::Request&, wire::Permission, std::string_view) override {
    return wire::Caller();
  }
  std::string name_of(const wire::Request&) override { return {}; }
  base::Status permit(const wire::Request&, wire::Permission permission) override {
    return permission == wire::Permission::kObserve ? base::failure(base::Code::kPermissionDenied, "no")
                                                    : base::Status();
  }
};

TEST_F(LiveFeeds, WhoMayNotSeeTheRequestsOfOthersGetsNoLinesOfTheLog) {
  Closed closed;
  routers[0].authenticate(closed);
  FakeExchange a("GET", "/console/v1/live");
  ask(a, 0);
  turn();
  value = 1;
  turn();
  auto heard = events(a);
  ASSERT_EQ(heard.size(), 2u);
  for (const auto& [name, data] : heard) EXPECT_FALSE(data.contains("warnings")) << name;
  EXPECT_EQ(heard[1].second["values"], json({{"value", 1}}));
  EXPECT_TRUE(a.record().reject.empty()) << "it is no refusal";
  FakeExchange b("GET", "/console/v1/live");  // who may, on the other shard
  ask(b, 1);
  value = 2;
  turn();
  value = 3;
  turn();
  heard = events(b);
  ASSERT_EQ(heard.size(), 2u);
  for (const auto& [name, data] : heard) EXPECT_TRUE(data.contains("warnings")) << name;
  heard = events(a);
  ASSERT_EQ(heard.size(), 2u);
  for (const auto& [name, data] : heard) EXPECT_FALSE(data.contains("warnings")) << name;
  leave(b, 1);
  leave(a, 0);
}

TEST_F(LiveFeeds, AKeyOfSomeModelsSeesTheseAlone) {
  auto catalog = std::make_shared<bus::Catalog>();
  for (const char* name : {"chat", "digits"}) catalog->index.push_back({name, "1", bus::ModelState::kLoading, ""});
  LiveState::Source now = source("x{model=\"chat\"} 1\nx{model=\"digits\"} 1\ny 1\n");
  now.catalog = catalog;
  LiveFeed feed{1, [this](base::ShardId, std::function<void()> work) { posts.push_back(std::move(work)); },
                [&] { return now; }};
  auto live = feed.on_shard(base::ShardId(0), routers.emplace_back(env));
  auto look = [&] {
    feed.turn();
    for (; !posts.empty(); posts.pop_front()) posts.front()();
  };
  wire::Identity identity;
  identity.models = std::make_shared<const base::ModelScope>(std::vector<std::string>{"chat"});
  FakeExchange some("GET", "/console/v1/live"), everything("GET", "/console/v1/live");
  some.mutable_request().identity = &identity;
  ask(some, 2), ask(everything, 2);
  look();
  now.metrics = "x{model=\"chat\"} 2\nz{model=\"digits\"} 2\ny 1\n";
  catalog = std::make_shared<bus::Catalog>(*catalog);
  catalog->index[1].state = bus::ModelState::kReady;
  now.catalog = catalog;
  look();
  auto heard = events(some);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].second["models"].size(), 1u);
  EXPECT_EQ(heard[0].second["values"], json({{"x{model=\"chat\"}", 1}, {"y", 1}}));
  EXPECT_FALSE(heard[0].second.contains("warnings")) << "lines of the log name models";
  EXPECT_FALSE(heard[1].second.contains("models"));
  EXPECT_FALSE(heard[1].second.contains("gone"));
  EXPECT_EQ(heard[1].second["values"], json({{"x{model=\"chat\"}", 2}}));
  heard = events(everything);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].second["models"].size(), 2u);
  EXPECT_EQ(heard[1].second["models"].size(), 2u);
  EXPECT_EQ(heard[1].second["gone"], json({"x{model=\"digits\"}"}));
  leave(some, 2), leave(everything, 2);
}

TEST_F(LiveFeeds, TheThreadTellsWhoComesAndEndsWhenItIsToldTo) {
  LiveFeed feed{1, [](base::ShardId, std::function<void()>) {}, [] { return source(""); }};
  feed.start();
  feed.stop();
  feed.stop();
}

}  // namespace
}  // namespace weir::ops
