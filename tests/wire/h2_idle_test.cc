// HTTP/2: a connection that has been idle, and what it has given back meanwhile.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/h2_client.h"
#include "support/h2_service.h"
#include "support/heap_in_use.h"

namespace weir::test {
namespace {

using wire::Exchange;
using namespace std::chrono_literals;

// Idle, the coders have given their page back; their tables of fields are as they were, and streams find room.
TEST(H2Idle, AfterAnIdleTimeAConnectionGoesOnWhereItWas) {
  for (uint32_t streams : {3u, 90u, 600u}) {  // the table of streams grows
    wire::Limits limits;
    limits.streams = limits.requests_per_read = 1000;
    Server s(limits);
    Client c;
    for (int round = 0; round < 4; ++round) {
      std::map<int32_t, std::string> sent;
      for (uint32_t i = 0; i < streams; ++i) {
        const std::string body = text_of(20 * i);
        sent[c.request(with(kPost, {{"x-kept-in-the-table", "of fields"}}), body)] = body;
      }
      s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", x.content()); };
      c.talk(s);
      for (const auto& [id, body] : sent) ASSERT_EQ(c[id].body, body) << id;
      s.advance(3s);
      c.talk(s);
    }
    EXPECT_TRUE(c.goaways.empty());
  }
}

// Its end gives back the codec itself and the packed state of its coders, little more.
TEST(H2Idle, AConnectionHoldsLittle) {
  constexpr size_t kMany = 200;  // malloc keeps the first few of each size for itself
  std::vector<std::unique_ptr<Server>> servers;
  for (size_t i = 0; i < kMany; ++i) {
    Server& s = *servers.emplace_back(std::make_unique<Server>());
    s.feed(opening() + get(1) + get(3));
    s.take();
    s.advance(3s);
  }
  const size_t idle = support::heap_in_use();
  if (idle == 0) GTEST_SKIP() << "a sanitizer's malloc";
  for (auto& s : servers) s->codec.reset();
  EXPECT_LT((idle - support::heap_in_use()) / kMany, 2500u);
}

// Its client may ask again, elsewhere, for all that its GOAWAY does not name.
TEST(H2Idle, NothingIsTakenBehindItsGoaway) {
  Server s;
  s.feed(opening() + get(1));
  s.take();
  s.advance(s.limits.idle + 1s);
  EXPECT_TRUE(s.codec->finished());
  s.feed(get(3));
  s.take();
  EXPECT_EQ(s.intake.begun, 1u);
  EXPECT_TRUE(s.codec->idle());
}

// A stream that waits for its body is no idle connection's.
TEST(H2Idle, TicksWhileAStreamIsOpenTakeNothingFromIt) {
  Server s;
  Client c;
  int32_t id = c.request(kPost, "ab", true);
  c.talk(s);
  s.advance(2s);
  c.talk(s);
  c.more(id, "cd", true);
  c.talk(s);
  EXPECT_EQ(c[id].body, "ok");
  EXPECT_EQ(s.intake.seen.at(0).body, "abcd");
}

// A file that is piped into a connection: the FIN comes with the last request.
TEST(H2, WhatIsAnsweredAtOnceIsAnsweredBeforeTheEof) {
  Server s;
  s.feed(opening() + get(1) + get(3));
  s.codec->eof();
  int answers = 0;
  for (const Frame& f : frames_of(s.take())) answers += f.type == 0 && f.payload == "ok";
  EXPECT_EQ(answers, 2);
  EXPECT_TRUE(s.codec->finished());
}

}  // namespace
}  // namespace weir::test
