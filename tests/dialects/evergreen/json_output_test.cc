// Long fragments as JSON: in pieces, as the client takes them and the shard has time.
#include "base/encoding.h"
#include "bench.h"
#include "dialects/evergreen/graph/turn_budget.h"

namespace weir::evergreen {
namespace {

constexpr size_t kPerTurn = 1 << 20;  // bytes of text

Bench quick_turns() { return Bench({.steps_per_turn = kPerTurn / kBytesPerStep}); }

std::string long_text() { return base::base64_encode(std::string(3 << 20, 'x') + "y"); }
std::string fragment(std::string_view id, std::string_view text, std::string_view more = "") {
  return R"({"nodeFragments":[{"id":")" + std::string(id) + R"(",)" + std::string(more) +
         R"("chunkFragment":{"metadata":{"mimetype":"a/b"},"data":")" + std::string(text) + R"("}}]})";
}
const std::string kMore = R"("continued":true,)";

// Payloads of the frames that a server sends, those of one message together.
std::vector<std::string> messages(std::string_view sent) {
  std::vector<std::string> out;
  for (bool begun = false; !sent.empty();) {
    auto at = [&](size_t i) { return uint64_t(uint8_t(sent[i])); };
    uint64_t size = at(1), head = size < 126 ? 2 : size == 126 ? 4 : 10;
    if (head > 2) size = 0;
    for (uint64_t i = 2; i < head; ++i) size = size << 8 | at(i);
    EXPECT_EQ(at(0) & 15, begun ? 0u : at(0) & 15) << "a continuation";
    if (!begun) out.emplace_back();
    out.back() += sent.substr(head, size);
    begun = (at(0) & 0x80) == 0;
    sent.remove_prefix(head + size);
  }
  return out;
}

TEST(EvergreenJsonOutput, ALongFragmentIsWrittenInTurnsAsTheClientTakesIt) {
  Bench t = quick_turns();
  auto x = t.open_http("POST", {});
  x->fake_backlog = wire::Exchange::kHighWater;
  t.rpc.data(*x, kEchoJson + "\n" + fragment("in", long_text(), kMore) + "\n");
  for (int i = 0; i < 10; ++i) t.turn();
  EXPECT_EQ(x->sent, "") << "the client takes nothing";
  const std::string all = fragment("out", long_text(), kMore) + "\n";
  int turns = 0;
  for (size_t before = 0; x->sent.size() < all.size() && turns < 100; ++turns) {
    x->fake_backlog = 0;
    x->listener()->on_drain(*x);
    EXPECT_LT(x->sent.size() - before, kPerTurn + kPerTurn / 2);
    before = x->sent.size();
    x->fake_backlog = wire::Exchange::kHighWater;
    t.turn();
  }
  EXPECT_GE(turns, 4);
  EXPECT_EQ(x->sent, all);
}

TEST(EvergreenJsonOutput, WhatComesAfterALongFragmentWaitsAndTheEndIsTheLast) {
  Bench t = quick_turns();
  auto x = t.open_http("POST", {});
  t.rpc.data(
      *x, kEchoJson + "\n" + fragment("in", long_text(), kMore) + "\n" + fragment("in", "AAAA", R"("seq":1,)") + "\n");
  t.rpc.end(*x);
  EXPECT_FALSE(x->ended);
  for (int i = 0; i < 100 && !x->ended; ++i) t.later_turn();
  EXPECT_EQ(x->sent,
            fragment("out", long_text(), kMore) + "\n" +
                R"({"nodeFragments":[{"id":"out","seq":1,"continued":true,"chunkFragment":{"data":"AAAA"}}]})" + "\n" +
                R"({"nodeFragments":[{"id":"out","seq":2,"chunkFragment":{"data":""}}]})" + "\n");
}

TEST(EvergreenJsonOutput, AFailureIsToldBehindALongFragment) {
  Bench t({.steps_per_turn = kPerTurn / kBytesPerStep, .max_age = std::chrono::seconds(1)});
  auto x = t.open_http("POST", {});
  t.rpc.data(*x, kEchoJson + "\n" + fragment("in", long_text(), kMore) + "\n");
  x->fake_backlog = wire::Exchange::kHighWater;
  t.rpc.env.advance(std::chrono::seconds(2));
  EXPECT_FALSE(x->ended);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  for (int i = 0; i < 100 && !x->ended; ++i) t.turn();
  EXPECT_TRUE(x->ended);
  const std::string all = fragment("out", long_text(), kMore) + "\n";
  EXPECT_EQ(x->sent.substr(0, all.size()), all);
  EXPECT_EQ(x->sent.substr(all.size()).find(R"({"error":)"), 0u);
}

TEST(EvergreenJsonOutput, AClientThatLeavesIsWrittenNothingMore) {
  Bench t = quick_turns();
  auto x = t.open_http("POST", {});
  t.rpc.data(*x, kEchoJson + "\n" + fragment("in", long_text(), kMore) + "\n");
  x->close(false);
  const size_t sent = x->sent.size();
  for (int i = 0; i < 10; ++i) t.turn();
  EXPECT_EQ(x->sent.size(), sent);
}

TEST(EvergreenJsonOutput, OverAWebSocketTheFramesOfALongMessageAreOneMessage) {
  Bench t = quick_turns();
  auto x = t.open_http("GET", kUpgrade);
  t.rpc.data(*x, frame(0x81, kEchoJson));
  const std::string large = fragment("in", long_text(), kMore);
  std::string wide{char(0x81), char(0xff)};
  for (int i = 7; i >= 0; --i) wide += char(uint64_t(large.size()) >> (8 * i));
  t.rpc.data(*x, wide.append("\0\0\0\0", 4) + large);
  for (int i = 0; i < 100; ++i) t.later_turn();
  t.rpc.data(*x, frame(0x81, fragment("in", "AAAA", R"("seq":1,)")));
  t.later_turn();
  const std::vector<std::string> seen = messages(x->sent);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], fragment("out", long_text(), kMore));
  EXPECT_GT(x->sent.size(), seen[0].size() + 20 * 10) << "many frames";
}

// A message of theirs becomes JSON by the library, at a few megabytes a second.
TEST(EvergreenJsonOutput, ExperimentalMetadataIsBoundedAndTakesItsTurns) {
  Bench t({.steps_per_turn = 64});
  auto x = t.open_http("POST", {});
  const std::string any = R"({"@type":"type.googleapis.com/google.protobuf.StringValue","value":")";
  auto leaf = [&](std::string_view id, size_t bytes) {
    return R"({"nodeFragments":[{"id":")" + std::string(id) +
           R"(","chunkFragment":{"metadata":{"mimetype":"a/b","experimental":[)" + any + std::string(bytes, 'x') +
           R"("}]},"data":""}}]})" + "\n";
  };
  t.rpc.data(*x, leaf("large", 65'000) + kEchoJson + "\n" + leaf("in", 1 << 10));
  for (int i = 0; i < 100; ++i) t.later_turn();
  EXPECT_NE(x->sent.find(std::string(1 << 10, 'x')), std::string::npos);
  EXPECT_FALSE(x->ended);
  t.rpc.data(*x, leaf("larger", 70'000));
  for (int i = 0; i < 100 && !x->ended; ++i) t.later_turn();
  EXPECT_NE(x->sent.find("ChunkMetadata has at most 65536 bytes"), std::string::npos) << x->sent;
}

}  // namespace
}  // namespace weir::evergreen
