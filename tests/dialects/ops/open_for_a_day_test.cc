// A console that is left open for a day of the shards' clock: what the server keeps for it does not grow.
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>

#include "base/memory_ledger.h"
#include "dialects/ops/console/live_feed.h"
#include "dialects/ops/recent_requests.h"
#include "dialects/ops/request_feed.h"
#include "ops_shards.h"

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using support::FakeExchange;

constexpr int kDay = 86'400;
constexpr size_t kMayDiffer = 64 << 10;  // of the heap: what a request is made of

size_t allocated() { return mallinfo2().uordblks; }  // 0 under the sanitizers

struct OpenConsole : testing::Test, Shards {
  OpenConsole() {
    for (uint32_t i = 0; i < 2; ++i) {
      const auto shard = base::ShardId(i);
      auto& router = routers.emplace_back(env);
      lives.push_back(live.on_shard(shard, router));
      feeds.push_back(feed.on_shard(shard, env, router));
      kept.push_back(recent.on_shard(shard, env, router, &starts[i]));
    }
    ask(follows_live, 0), ask(follows_requests, 1);
  }
  ~OpenConsole() override { leave(follows_live, 0), leave(follows_requests, 1); }

  // A second of it: a request ends on each shard, with its own id, and the console is told.
  void second() {
    for (size_t i = 0; i < 2; ++i) {
      auto x = request(env, std::to_string(++number % 7));
      x->record().request_id = std::to_string(number);
      x->set_content("question");
      starts[i].sent(*x, base::Bytes::constant("answer"));
      feeds[i]->finished(*x), kept[i]->finished(*x);
    }
    env.advance(1s);
    live.turn();
    run();
    told += follows_live.sent.size(), lines += follows_requests.sent.size();
    follows_live.sent.clear(), follows_requests.sent.clear();
  }

  uint64_t number = 0, told = 0, lines = 0;
  base::MemoryLedger ledger{1 << 20};
  wire::BodyStarts starts[2] = {{64, &ledger}, {64, &ledger}};
  LiveFeed live{2, post(), [this] {
                  LiveState::Source out;
                  out.metrics = "same 1\nvalue " + std::to_string(number) + "\n";
                  return out;
                }};
  RequestFeed feed{2, post()};
  RecentRequests recent{2, post(), {256, 500ms, 64}};
  std::vector<std::unique_ptr<LiveFeed::ShardLive>> lives;
  std::vector<std::unique_ptr<RequestFeed::ShardFeed>> feeds;
  std::vector<std::unique_ptr<RecentRequests::ShardRequests>> kept;
  FakeExchange follows_live{"GET", "/console/v1/live"}, follows_requests{"GET", "/console/v1/requests"};
};

TEST_F(OpenConsole, ADayOfItTakesNoMoreMemoryThanItsFirstMinutes) {
  for (int i = 0; i < 1000; ++i) second();  // the rings are full
  const size_t early = allocated(), charged = ledger.held(), timers = env.armed();
  told = lines = 0;
  for (int i = 0; i < kDay; ++i) second();
  EXPECT_GT(told, size_t(kDay) * 20) << "a change a second";
  EXPECT_GT(lines, size_t(kDay) * 200) << "two lines a second";
  EXPECT_LT(allocated(), early + kMayDiffer);
  EXPECT_EQ(ledger.held(), charged);
  EXPECT_EQ(env.armed(), timers);
  EXPECT_EQ(starts[0].open() + starts[1].open(), 0u);
}

}  // namespace
}  // namespace weir::ops
