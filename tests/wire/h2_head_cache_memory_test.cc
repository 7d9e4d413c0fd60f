// Known heads where memory is spent: what is given up, and what a refused request leaves behind.
#include "base/memory_ledger.h"
#include "support/h2_client.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;

std::string of(const Headers& head, std::string_view name) { return Answer::find(head, name); }

void expect_call(const support::FakeIntake::Seen& seen, const Headers& head) {
  EXPECT_EQ(seen.method, of(head, ":method"));
  EXPECT_EQ(seen.target, of(head, ":path"));
  EXPECT_EQ(seen.authority, of(head, ":authority"));
  Headers fields;
  for (const auto& field : head)
    if (field.first[0] != ':') fields.push_back(field);
  EXPECT_EQ(seen.fields, fields);
}

void answer(Exchange& x) {
  wire::Response r;
  r.fields.add("content-type", "application/grpc");
  x.head(std::move(r));
  x.body(Bytes::copy_of("message"));
  wire::Fields trailers;
  trailers.add("grpc-status", "0");
  x.end(std::move(trailers));
}

// A server whose memory is a ledger that can be spent, and given back.
struct Ledgered {
  Ledgered() {
    server.slabs.memory = &ledger;
    server.restart();
    server.intake.on_whole = answer;
  }
  // So many requests at once.
  void ask(const Headers& head, int times) {
    for (int i = 0; i < times; ++i) client.request(head, "body");
    client.talk(server);
  }
  // So many requests stay open.
  void hold(const Headers& head, int times) {
    for (int i = 0; i < times; ++i) {
      open.push_back(client.request(head, {}, true));
      client.talk(server);
      refused = client[open.back()].reset.has_value();
    }
  }
  void let_go() {
    for (int32_t id : open)
      if (client[id].status().empty()) client.reset(id);
    open.clear();
    client.talk(server);
  }
  void spend() { spent = kBudget - ledger.held(), ledger.add(base::MemoryKind::kInput, spent); }
  void give_back() { ledger.give(base::MemoryKind::kInput, std::exchange(spent, 0)); }

  static constexpr uint64_t kBudget = uint64_t(4) << 20;
  base::MemoryLedger ledger{kBudget};
  uint64_t spent = 0;
  std::vector<int32_t> open;
  Server server;
  Client client;
  bool refused = false;  // the last one
};
Headers call_of(const std::string& key) {
  return with({{":method", "POST"}, {":scheme", "http"}, {":path", "/of/" + key}, {":authority", "host:1"}},
              {{"te", "trailers"}, {"content-type", "application/grpc"}, {"authorization", key}});
}

// Known heads are given up when there is no memory for them. An Exchange that still has an earlier head is not taken
// for one that has the head which is learned first afterwards.
TEST(H2HeadCacheMemory, AHeadThatIsLearnedAfterAllWereGivenUpIsNotAnEarlierOne) {
  for (int i = 0; i < 96; ++i) {  // so that one of them meets the end of what is charged already with its last head
    const int held = i % 16;
    const char last = char('a' + i / 16);
    Ledgered t;
    for (int times = 0; times < 3; ++times) t.ask(call_of("first"), 16);  // sixteen Exchanges have it
    t.hold(call_of("first"), held);
    t.spend();
    for (char c = 'a'; c <= last; ++c)
      for (int times = 0; times < 3; ++times) t.ask(call_of(std::string(500, c)), 1);
    t.give_back();
    for (int times = 0; times < 6; ++times) t.ask(call_of("second"), 1);
    t.server.intake.seen.clear();
    t.ask(call_of("second"), 16);
    ASSERT_EQ(t.server.intake.seen.size(), 16u);
    for (const auto& seen : t.server.intake.seen) expect_call(seen, call_of("second"));
  }
}

// A request that is refused for want of memory leaves no half of its head behind.
TEST(H2HeadCacheMemory, ARefusedRequestLeavesNothingOfItsHead) {
  int refused = 0;
  for (int held = 0; held < 16; ++held) {
    Ledgered t;
    const Headers head = call_of(std::string(500, 'x'));
    for (int i = 0; i < 3; ++i) t.ask(head, 8);
    for (int i = 0; i < 3; ++i)
      t.ask(call_of("small"), 8);  // eight have this one, and the room that the large one took
    t.hold(call_of("small"), held);
    t.spend();
    for (int i = 0; i < 40 && !t.refused; ++i) t.hold(head, 1);
    refused += t.refused;
    t.give_back();
    t.let_go();
    t.server.intake.seen.clear();
    for (int i = 0; i < 12; ++i) t.ask(head, 4);
    ASSERT_EQ(t.server.intake.seen.size(), 48u);
    for (const auto& seen : t.server.intake.seen) expect_call(seen, head);
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace weir::test
