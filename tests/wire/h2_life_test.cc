// HTTP/2: how Exchanges and connections end, and what they leave behind.
#include <new>
#include <random>
#include <stdexcept>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using base::Bytes;
using support::Heard;
using support::RecordingReader;
using wire::Exchange;
using namespace std::chrono_literals;

// An exception leaves what was at work half done.
TEST(H2, LackOfMemoryEndsTheConnectionWithAGoaway) {
  for (bool other : {false, true}) {
    Server s;
    s.intake.on_whole = [&](Exchange&) { other ? throw std::runtime_error("broken") : throw std::bad_alloc(); };
    s.feed(opening() + get(1));
    auto frames = frames_of(s.take());
    ASSERT_FALSE(frames.empty());
    EXPECT_EQ(frames.back().type, 7);
    EXPECT_EQ(frames.back().payload.substr(4, 4), u32(2));
    EXPECT_TRUE(s.codec->finished());
    EXPECT_EQ(s.intake.closes, 1u);
  }
}

TEST(H2, OnCloseWaitsForTheSocket) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening());
  s.take();
  s.feed(get(1));
  Exchange& x = *streamed.order.at(0);
  Heard& heard = streamed.heard[&x];
  x.respond(200, "a/b", Bytes::copy_of("body"));
  std::array<iovec, 4> pieces;
  ASSERT_EQ(s.codec->pending(pieces), 1u);
  size_t n = pieces[0].iov_len;
  s.codec->consumed(n - 1);
  EXPECT_EQ(heard.closes, 0);
  EXPECT_FALSE(s.codec->idle());
  s.codec->consumed(1);
  EXPECT_EQ(heard.closes, 1);
  EXPECT_TRUE(heard.complete);
  EXPECT_TRUE(s.codec->idle());
}

TEST(H2, AClientsResetClosesTheExchangeAtOnce) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + post(1));
  Exchange& x = *streamed.order.at(0);
  Heard& heard = streamed.heard[&x];
  x.head({});
  x.body(Bytes::adopt(text_of(100000)));
  s.feed(rst(1));
  EXPECT_EQ(heard.closes, 1);
  EXPECT_FALSE(heard.complete);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_TRUE(s.codec->idle());
  for (const Frame& f : frames_of(s.take())) EXPECT_NE(f.stream, 1u);
}

TEST(H2, OurResetIsOneFrame) {
  for (auto [why, code] :
       {std::pair(wire::Reset::kCancel, 8u), {wire::Reset::kInternal, 2u}, {wire::Reset::kRefused, 7u}}) {
    Server s;
    Streamed streamed;
    streamed.serve(s);
    s.feed(opening() + get(1));
    s.take();
    Exchange& x = *streamed.order.at(0);
    x.head({});
    x.reset(why);
    x.body(Bytes::copy_of("late"));
    x.end();
    auto frames = frames_of(s.take());
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].type, 3);
    EXPECT_EQ(frames[0].payload, u32(code));
    EXPECT_EQ(streamed.heard[&x].closes, 1);
    EXPECT_FALSE(streamed.heard[&x].complete);
  }
}

TEST(H2, ExchangesAreUsedAgainAndComeClean) {
  Server s;
  Client c;
  c.request(with(kPost, {{"x-secret", "1"}, {"cookie", "a=b"}}), "body");
  c.talk(s);
  Exchange* first = nullptr;
  s.intake.on_begin = [&](Exchange& x) {
    first = &x;
    EXPECT_EQ(x.request().fields.size(), 0u);
    EXPECT_TRUE(x.content().empty());
    EXPECT_EQ(x.record().bytes_in, 0u);
    EXPECT_EQ(x.record().status, 0);
    EXPECT_FALSE(x.responding());
    return wire::Plan{};
  };
  for (int i = 0; i < 5; ++i) {
    Exchange* before = first;
    int32_t id = c.request(kGet);
    c.talk(s);
    EXPECT_EQ(c[id].body, "ok");
    EXPECT_TRUE(!before || before == first);
  }
}

TEST(H2, DrainAnnouncesThenRefusesAndEndsWhenIdle) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1));
  s.take();
  s.codec->drain(wire::Drain::kAnnounce);
  auto frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].type, 7);
  EXPECT_EQ(frames[0].payload, u32(0x7fffffff) + u32(0));
  s.feed(get(3));  // still welcome
  ASSERT_EQ(streamed.order.size(), 2u);
  s.codec->drain(wire::Drain::kRefuse);
  frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload, u32(3) + u32(0));
  s.feed(get(5));  // not any more
  EXPECT_EQ(streamed.order.size(), 2u);
  EXPECT_FALSE(s.codec->finished());
  for (Exchange* x : streamed.order) x->respond(200, "a/b", Bytes::copy_of("bye"));
  EXPECT_FALSE(s.codec->finished());
  frames = frames_of(s.take());
  EXPECT_EQ(frames.size(), 4u);
  EXPECT_TRUE(s.codec->finished());
  EXPECT_EQ(s.intake.closes, 2u);
  EXPECT_TRUE(s.intake.rejections.empty());
}

TEST(H2, AnIdleConnectionEndsAtTheDrainAndAtTheIdleTimeout) {
  Server s;
  s.feed(opening());
  s.take();
  s.codec->drain(wire::Drain::kRefuse);
  s.take();
  EXPECT_TRUE(s.codec->finished());
  Server t;
  t.feed(opening());
  t.take();
  t.advance(74s);
  EXPECT_FALSE(t.codec->finished());
  t.advance(2s);
  auto frames = frames_of(t.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload.substr(4), u32(0));
  EXPECT_TRUE(t.codec->finished());
}

TEST(H2, AfterEofWhatIsAnsweredIsSentAndTheRestIsCancelled) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening());
  s.take();
  s.feed(get(1) + get(3) + get(5) + post(7));
  auto heard = [&](size_t i) -> Heard& { return streamed.heard[streamed.order.at(i)]; };
  streamed.order[0]->respond(200, "a/b", Bytes::copy_of("whole"));
  streamed.order[1]->head({});
  streamed.order[1]->body(Bytes::copy_of("a part"));
  s.codec->eof();
  EXPECT_FALSE(s.codec->finished()) << "an answer is to be sent";
  std::map<uint32_t, std::string> resets, bodies;
  for (const Frame& f : frames_of(s.take())) {
    if (f.type == 3) resets[f.stream] = f.payload;
    if (f.type == 0) bodies[f.stream] += f.payload;
  }
  const std::map<uint32_t, std::string> cancelled{{3, u32(8)}, {5, u32(8)}, {7, u32(8)}};
  EXPECT_EQ(resets, cancelled);
  EXPECT_EQ(bodies[1], "whole");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(heard(i).closes, 1) << i;
  EXPECT_TRUE(heard(0).complete);
  EXPECT_FALSE(heard(2).complete) << "though its request was whole";
  EXPECT_EQ(s.intake.closes, 4u);
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, AfterEofWhatWasReadIsStillServedInHelpings) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  std::string much = opening();
  for (uint32_t i = 0; i < 3 * s.limits.requests_per_read; ++i) much += get(2 * i + 1);
  much += post(20001);
  s.feed(much);
  s.codec->eof();
  EXPECT_EQ(s.intake.begun, s.limits.requests_per_read) << "one helping in a turn";
  for (int turn = 0; turn < 100 && !s.codec->finished(); ++turn) {
    s.take();
    for (Exchange* x : streamed.order)
      if (x->request().method == "GET" && streamed.heard[x].closes == 0) x->respond(200, "a/b", Bytes::copy_of("x"));
    streamed.order.clear();
    s.wire.env.advance(1ms);
    s.codec->tick(s.wire.env.now());
  }
  EXPECT_EQ(s.intake.begun, 3 * s.limits.requests_per_read + 1);
  EXPECT_EQ(s.intake.closes, s.intake.begun) << "one whose body does not come is cancelled, too";
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, AClosedSocketEndsEveryExchange) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1) + post(3) + get(5));
  streamed.order[0]->respond(200, "a/b", Bytes::copy_of("x"));
  std::array<iovec, 4> pieces;
  EXPECT_GT(s.codec->pending(pieces), 0u);
  s.codec->closed();
  for (auto& [x, heard] : streamed.heard) {
    EXPECT_EQ(heard.closes, 1);
    EXPECT_FALSE(heard.complete);
  }
  EXPECT_EQ(s.intake.closes, 3u);
  EXPECT_EQ(s.codec->pending(pieces), 0u);
  EXPECT_TRUE(s.codec->finished());
  s.feed(get(7));
  s.codec->tick(s.wire.env.now());
  s.codec->drain(wire::Drain::kRefuse);
  s.codec->eof();
  EXPECT_EQ(s.intake.begun, 3u);
}

TEST(H2, AResetMakesRoomForANewStreamInTheSameRead) {
  Streamed streamed;
  Server s;
  s.limits.streams = 4;
  s.restart();
  streamed.serve(s);
  s.feed(opening() + post(1) + post(3) + post(5) + post(7));
  s.take();
  streamed.order[0]->head({});
  streamed.order[0]->body(Bytes::copy_of("part"));
  std::array<iovec, 4> pieces;
  EXPECT_GT(s.codec->pending(pieces), 0u);  // and the socket takes nothing
  s.feed(rst(1) + rst(3) + post(9) + post(11) + rst(11) + post(13));
  EXPECT_EQ(s.intake.begun, 7u);
  for (const Frame& f : frames_of(s.take())) EXPECT_NE(f.type, 3);
}

// Eight streams, twice what may be open, that their client has reset and whose work goes on. The id of the next.
uint32_t eight_at_work(Server& s, std::vector<base::Ticket>& tickets) {
  s.intake.on_begin = [&tickets](Exchange& x) {
    tickets.push_back(x.ticket());
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  s.feed(opening());
  uint32_t id = 1;
  for (int i = 0; i < 8; ++i, id += 2) s.feed(post(id) + rst(id));
  return id;
}

TEST(H2, TicketsCountAsLiveWorkUntilTheyComeBack) {
  Server s;
  s.limits.streams = 4;
  s.restart();
  std::vector<base::Ticket> tickets;
  uint32_t id = eight_at_work(s, tickets);
  EXPECT_EQ(s.intake.closes, 8u);
  EXPECT_EQ(s.intake.begun, 8u);
  s.take();
  s.feed(post(id));
  EXPECT_EQ(s.intake.begun, 8u);
  auto frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload, u32(7));  // REFUSED_STREAM
  tickets.pop_back();
  s.codec->tick(s.wire.env.now());
  id += 2;
  s.feed(post(id));
  EXPECT_EQ(s.intake.begun, 9u);
  s.codec->closed();
  s.codec.reset();
  tickets.clear();  // after the connection
}

TEST(H2, WhoHasResetAllItsStreamsMayOpenAsManyAgain) {
  Server s;
  s.limits.streams = 4;
  s.restart();
  std::vector<base::Ticket> tickets;
  s.intake.on_begin = [&tickets](Exchange& x) {
    tickets.push_back(x.ticket());
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  s.feed(opening() + post(1) + post(3) + post(5) + post(7));
  s.take();
  s.feed(rst(1) + rst(3) + rst(5) + rst(7) + post(9) + post(11) + post(13) + post(15));
  EXPECT_EQ(s.intake.begun, 8u);
  EXPECT_TRUE(frames_of(s.take()).empty());
  tickets.clear();
}

// The client cannot know what still runs here: refusing it is no fault of its.
TEST(H2, StreamsRefusedForLiveWorkDoNotEndTheConnection) {
  Server s;
  s.limits.streams = 4;
  s.limits.glitches = {3, 0};
  s.restart();
  std::vector<base::Ticket> tickets;
  uint32_t id = eight_at_work(s, tickets);
  s.take();
  for (int i = 0; i < 20; ++i, id += 2) {
    s.feed(post(id));
    auto frames = frames_of(s.take());
    ASSERT_EQ(frames.size(), 1u) << i;
    EXPECT_EQ(frames[0].type, 3);
    EXPECT_EQ(frames[0].payload, u32(7));
  }
  EXPECT_FALSE(s.codec->finished());
  EXPECT_EQ(s.intake.begun, 8u);
  tickets.clear();
  s.codec->tick(s.wire.env.now());
  s.feed(post(id));
  EXPECT_EQ(s.intake.begun, 9u);
  // Its own resets still count, also of streams that were refused.
  for (int i = 0; i < 300 && !s.codec->finished(); ++i) id += 2, s.feed(post(id) + rst(id)), s.take();
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, RandomClientsGetWhatTheySentWhateverTheirTiming) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](uint32_t n) { return uint32_t(random() % n); };
    wire::Limits limits;
    limits.stream_window = 1000 + pick(100000);
    limits.conn_window = 65535 + pick(1 << 20);
    Server s(limits);
    s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", x.content()); };
    Client c(500 + pick(100000));
    std::map<int32_t, std::string> sent;
    std::vector<int32_t> cancelled;
    for (int turn = 0; turn < 60; ++turn) {
      if (pick(3) == 0) {
        std::string body = text_of(pick(4) == 0 ? pick(200000) : pick(300));
        int32_t id = c.request(kPost, body);
        sent[id] = body;
        if (pick(8) == 0) {
          std::string up = c.output();
          if (pick(2)) s.feed(up), up.clear();
          c.reset(id);
          cancelled.push_back(id);
          s.feed(up);
        }
      }
      std::string up = c.output();
      for (size_t at = 0; at < up.size();) {
        size_t n = 1 + pick(40000);
        s.feed(std::string_view(up).substr(at, n));
        at += n;
        if (pick(2)) c.input(s.write_once());
      }
    }
    c.talk(s);
    for (int32_t id : cancelled) sent.erase(id);
    for (auto& [id, body] : sent) {
      EXPECT_TRUE(c[id].ended) << seed;
      EXPECT_TRUE(c[id].body == body) << seed << ' ' << id;
    }
    EXPECT_EQ(s.intake.begun, s.intake.closes);
    EXPECT_TRUE(s.codec->idle());
    EXPECT_TRUE(c.goaways.empty());
  }
}

}  // namespace
}  // namespace weir::test
