// The console's API: filters, and which requests are kept.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "dialects/ops/recent_requests.h"
#include "ops_shards.h"

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using support::FakeExchange;

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

// Two shards with what their codecs have kept, and a client on loopback or elsewhere.
struct Bodies : testing::Test, Shards {
  static constexpr size_t kEach = 8;
  Bodies() : all(2, post(), {4, 100ms, kEach}) {
    for (uint32_t i = 0; i < 2; ++i) {
      starts.emplace_back(kEach, &ledger);
      kept.push_back(all.on_shard(base::ShardId(i), env, routers.emplace_back(env), &starts.back()));
    }
  }
  json get(const std::string& query, wire::AdminMethods admin = wire::AdminMethods::kServed) {
    FakeExchange x("GET", "/console/v1/timelines?" + query);
    wire::PeerInfo peer = *x.request().peer;
    peer.admin = admin;
    x.mutable_request().peer = &peer;
    ask(x, 0);
    run();
    leave(x, 0);
    return json::parse(x.sent)["requests"].at(0);
  }
  base::MemoryLedger ledger{1 << 20};
  std::deque<wire::BodyStarts> starts;
  RecentRequests all;
  std::vector<std::unique_ptr<RecentRequests::ShardRequests>> kept;
};

TEST_F(Bodies, AreToldByIdToWhoMayChangeTheServer) {
  auto x = request(env, "m");
  x->set_content("question?");
  starts[1].sent(*x, base::Bytes::copy_of("ans"));
  starts[1].sent(*x, base::Bytes::copy_of("wer of the model"));
  kept[1]->finished(*x);
  const json shown = get("id=r-m");
  EXPECT_EQ(shown["request_body"], base::base64_encode("question"));
  EXPECT_EQ(shown["answer_body"], base::base64_encode("answer o"));
  EXPECT_FALSE(get("id=r-m", wire::AdminMethods::kElsewhere).contains("request_body"));
  EXPECT_FALSE(get("last=1").contains("request_body")) << "one at a time";
}

TEST_F(Bodies, OfRequestsThatAreNotKeptNothingStays) {
  auto x = request(env, "m");
  x->record().protocol = "health";
  starts[0].sent(*x, base::Bytes::copy_of("answer"));
  kept[0]->finished(*x);
  EXPECT_EQ(starts[0].open(), 0u);
  EXPECT_EQ(ledger.held(), 0u);
}

TEST_F(Bodies, TheirMemoryEndsWithTheRequestsThatAreKept) {
  for (int i = 0; i < 100; ++i) {
    auto x = request(env, std::to_string(i));
    x->set_content("question?");
    starts[0].sent(*x, base::Bytes::copy_of("answer"));
    kept[0]->finished(*x);
  }
  EXPECT_EQ(ledger.held(), 4 * (8 + 6u));
  kept.clear();
  EXPECT_EQ(ledger.held(), 0u);
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
