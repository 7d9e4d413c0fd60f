// HTTP/2: flow control both ways, large bodies, fairness, being held back.
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/body_memory.h"
#include "wire/coding.h"

namespace weir::test {
namespace {

using base::Bytes;
using support::Heard;
using support::RecordingReader;
using wire::Exchange;
using namespace std::chrono_literals;

TEST(H2, LargeBodiesPassThroughSmallWindowsBothWays) {
  std::string big = text_of(3 << 20);
  for (uint32_t window : {1000u, 65535u, 1u << 20}) {
    wire::Limits limits;
    limits.stream_window = window;
    limits.conn_window = std::max(window, 65535u);
    Server s(limits);
    s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", x.content()); };
    Client c(window);
    int32_t id = c.request(kPost, big);
    int32_t other = c.request(kPost, text_of(100000));
    c.talk(s);
    for (; std::exchange(s.wire.tick_wanted, false); c.talk(s)) s.codec->tick(s.wire.now());  // it moves over turns
    EXPECT_TRUE(c[id].body == big) << window;
    EXPECT_EQ(c[other].body.size(), 100000u);
    EXPECT_TRUE(c[id].ended);
    EXPECT_EQ(s.intake.closes, 2u);
    EXPECT_TRUE(s.codec->idle());
  }
}

TEST(H2, PartialWritesAtAnyByteLoseNothing) {
  for (size_t bite : {1u, 7u, 1000u, 16393u}) {
    Server s;
    s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", x.content()); };
    Client c;
    std::string body = text_of(bite == 1 ? 3000 : 50000);
    int32_t id = c.request(kPost, body);
    c.talk(s, 0, bite);
    EXPECT_TRUE(c[id].body == body);
    EXPECT_EQ(s.intake.closes, 1u);
  }
}

TEST(H2, LargePiecesAreReferencedNotCopied) {
  Server s;
  Bytes big = Bytes::adopt(text_of(100000));
  s.intake.on_whole = [&](Exchange& x) { x.respond(200, "a/b", big); };
  s.feed(opening());
  s.take();
  s.feed(get(1));
  std::array<iovec, 16> pieces;
  size_t n = s.codec->pending(pieces), inside = 0;
  for (size_t i = 0; i < n; ++i) {
    auto* at = static_cast<const std::byte*>(pieces[i].iov_base);
    if (at >= big.data() && at < big.data() + big.size()) inside += pieces[i].iov_len;
  }
  EXPECT_EQ(inside, 65535u);  // the client's first window
}

TEST(H2, SmallAnswersOvertakeALargeOne) {
  Server s;
  Client c(4 << 20);
  c.talk(s);
  s.intake.on_whole = [](Exchange& x) {
    x.respond(200, "a/b", x.request().target == "/big" ? Bytes::adopt(text_of(4 << 20)) : Bytes::copy_of("small"));
  };
  nghttp2_session_set_local_window_size(c.session, 0, 0, 16 << 20);
  c.talk(s);
  int32_t big = c.request({{":method", "GET"}, {":scheme", "http"}, {":path", "/big"}, {":authority", "h"}});
  s.feed(c.output());
  s.write_once();  // the elephant is on its way
  int32_t small = c.request(kGet);
  s.feed(c.output());
  EXPECT_EQ(s.intake.begun, 2u);
  size_t before = 0;
  bool seen = false;
  for (int i = 0; i < 100 && !seen; ++i) {
    for (const Frame& f : frames_of(s.write_once())) {
      if (f.stream == uint32_t(small)) seen = true;
      if (f.stream == uint32_t(big) && !seen) before += f.payload.size();
    }
  }
  EXPECT_TRUE(seen);
  EXPECT_LE(before, 512u << 10);
}

TEST(H2, TwoLargeAnswersTakeTurns) {
  Server s;
  Client c(8 << 20);
  nghttp2_session_set_local_window_size(c.session, 0, 0, 16 << 20);
  c.talk(s);
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(2 << 20))); };
  c.request(kGet);
  c.request(kGet);
  s.feed(c.output());
  std::map<uint32_t, size_t> got;
  for (int i = 0; i < 4; ++i)
    for (const Frame& f : frames_of(s.write_once()))
      if (f.type == 0) got[f.stream] += f.payload.size();
  EXPECT_GT(got[1], 0u);
  EXPECT_LE(std::max(got[1], got[3]) - std::min(got[1], got[3]), 65536u);
}

// How much further the server has opened the window of `stream` in what it says.
size_t opened(std::string_view output, uint32_t stream) {
  size_t sum = 0;
  for (const Frame& f : frames_of(output)) {
    if (f.type != 8 || f.stream != stream) continue;
    size_t by = 0;
    for (char c : f.payload) by = by << 8 | uint8_t(c);
    sum += by;
  }
  return sum;
}

TEST(H2, AStreamsWindowOpensAsFarAsItsBodyHasMemory) {
  wire::Limits limits;
  limits.stream_window = 100'000;
  limits.conn_window = 4 << 20;
  Server s(limits);
  s.feed(opening());
  s.take();
  std::string data = frame(0, 0, 1, std::string(10'000, 'x'));
  // All of it is expected once so much has come that it has all its memory: 610,000 bytes less what is open still.
  s.feed(frame(1, kEndHeaders, 1, block(with(kPost, {{"content-length", "700000"}}))) + data);
  for (int i = 0; i < 7; ++i) s.feed(data);
  EXPECT_LE(opened(s.take(), 1), 80'000u);
  s.feed(data);
  EXPECT_GE(opened(s.take(), 1), 610'000u - 100'000u);
  // A body that has a part only is sent no more than usual.
  data[8] = 3;
  s.feed(frame(1, kEndHeaders, 3, block(with(kPost, {{"content-length", "9000000"}}))) + data);
  EXPECT_EQ(opened(s.take(), 3), 0u);
  // And not further than the connection's.
  data[8] = 5;
  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  s.feed(frame(1, kEndHeaders, 5, block(kPost)) + data);
  s.take();
  Exchange& x = *s.intake.open.back();
  x.expect(64 << 20);
  EXPECT_EQ(opened(s.take(), 5), (4u << 20) - 100'000);
  x.expect(63 << 20);
  EXPECT_EQ(opened(s.take(), 5), 0u);
  x.expect(0);
  EXPECT_EQ(opened(s.take(), 5), 0u);
}

TEST(H2, AStreamedBodyIsHeldBackByWhatIsNotConsumed) {
  wire::Limits limits;
  limits.stream_window = 100000;
  Heard heard;
  Server s(limits);
  s.intake.on_begin = [&](Exchange& x) {
    x.attach(std::make_unique<RecordingReader>(heard));
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  Client c;
  c.talk(s);
  c.request(kPost, text_of(300000));
  c.talk(s);
  EXPECT_EQ(heard.data.size(), 100000u);
  Exchange& x = *s.intake.open.at(0);
  x.consume(60000);
  c.talk(s);
  EXPECT_EQ(heard.data.size(), 160000u);
  x.consume(1 << 30);  // more than there is
  c.talk(s);
  EXPECT_EQ(heard.data.size(), 260000u);
  EXPECT_EQ(heard.ends, 0);
}

TEST(H2, AResetStreamGivesTheConnectionsWindowBack) {
  wire::Limits limits;
  limits.stream_window = limits.conn_window = 70000;
  Heard heard;
  Server s(limits);
  s.intake.on_begin = [&](Exchange& x) {
    x.attach(std::make_unique<RecordingReader>(heard));
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  Client c;
  c.talk(s);
  for (int i = 0; i < 5; ++i) {
    heard = {};
    int32_t id = c.request(kPost, text_of(200000));
    c.talk(s);
    ASSERT_EQ(heard.data.size(), 70000u) << i;
    c.reset(id);
    c.talk(s);
    EXPECT_EQ(heard.closes, 1);
    EXPECT_FALSE(heard.complete);
  }
}

TEST(H2, NoSlabHoldsTheWindowUntilThereIsOne) {
  wire::Limits limits;
  limits.stream_window = 100000;
  Server s(limits);
  Client c;
  c.talk(s);
  s.slabs.empty = true;
  std::string body = text_of(300000);
  int32_t id = c.request(with(kPost, {{"content-length", "300000"}}), body);
  int32_t other = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(s.intake.wholes, 1u);
  EXPECT_EQ(c[other].status(), "200");
  s.advance(60s);  // waiting for us is not slowness of theirs
  c.talk(s);
  EXPECT_FALSE(c[id].reset);
  s.slabs.empty = false;
  s.codec->tick(s.wire.env.now());
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_TRUE(s.intake.seen[0].body == body);
}

TEST(H2, WhoWaitsForASlabInVainIsRefusedAndWhoIsSilentGivesWay) {
  Server s;
  wire::BodyMemory::Need need;
  wire::BodyMemory memory(s.wire.env, need, {});
  s.restart({.intake = s.intake, .slabs = s.slabs, .limits = s.limits, .bodies = &memory});
  Client c;
  c.talk(s);
  int32_t silent = c.request(with(kPost, {{"content-length", "100"}}), "ab", true);
  c.talk(s);
  s.advance(3s);
  c.talk(s);
  EXPECT_TRUE(c[silent].head.empty()) << "nobody needs what it holds";
  s.slabs.empty = true;
  int32_t late = c.request(kPost, "hello"), grpc = c.request(with(kPost, {{"content-type", "application/grpc"}}), "x");
  c.talk(s);
  EXPECT_EQ(memory.waiting(), 2u);
  s.advance(2s);
  c.talk(s);
  EXPECT_EQ(c[silent].status(), "408");
  EXPECT_EQ(c[late].status(), "503");
  EXPECT_EQ(c[late].field("retry-after"), "1");
  EXPECT_EQ(c[grpc].field("grpc-status"), "8");
  EXPECT_EQ(memory.waiting(), 0u);
  s.codec.reset();
}

TEST(H2, AnAnswerWhileTheBodyWaitsForMemoryEndsTheWait) {
  Server s;
  wire::BodyMemory::Need need;
  wire::BodyMemory memory(s.wire.env, need, {});
  s.restart({.intake = s.intake, .slabs = s.slabs, .limits = s.limits, .bodies = &memory});
  Client c;
  c.talk(s);
  s.slabs.empty = true;
  int32_t id = c.request(kPost, "hello");
  c.talk(s);
  EXPECT_EQ(memory.waiting(), 1u);
  s.intake.open.front()->head({});
  s.slabs.empty = false;
  s.codec->tick(s.wire.env.now());
  EXPECT_EQ(memory.waiting(), 0u);
  s.intake.open.front()->end();
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_EQ(s.intake.wholes, 0u) << "nothing is handed on that is answered already";
  s.codec.reset();
}

TEST(H2, ALongCodedBodyIsInflatedOverTurns) {
  wire::Limits limits;
  limits.inflate_ratio = 10'000;
  Server s(limits);
  Client c;
  base::Bytes text = base::Bytes::adopt(std::string(5 << 20, 'a'));
  std::string coded(wire::deflate(wire::Coding::kGzip, {&text, 1}).view());
  int32_t id = c.request(with(kPost, {{"content-encoding", "gzip"}}), coded);
  c.talk(s);
  int ticks = 0;
  for (; std::exchange(s.wire.tick_wanted, false); ++ticks) {
    EXPECT_EQ(s.intake.wholes, 0u);
    ASSERT_LT(ticks, 100);
    s.codec->tick(s.wire.env.now());
  }
  EXPECT_GE(size_t(ticks), text.size() / wire::kInflateSlice - 1);
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_EQ(s.intake.seen[0].body.size(), text.size());
}

TEST(H2, CodedBodiesOfAConnectionShareWhatATurnInflates) {
  wire::Limits limits;
  limits.inflate_ratio = 10'000;
  Server s(limits);
  Client c;
  base::Bytes text = base::Bytes::adopt(std::string(2 << 20, 'a'));
  std::string coded(wire::deflate(wire::Coding::kGzip, {&text, 1}).view());
  for (int i = 0; i < 8; ++i) c.request(with(kPost, {{"content-encoding", "gzip"}}), coded);
  c.talk(s);
  int ticks = 0;
  for (; std::exchange(s.wire.tick_wanted, false); ++ticks) {
    ASSERT_LT(ticks, 40);
    s.codec->tick(s.wire.env.now());
  }
  EXPECT_GE(ticks, 15);
  EXPECT_EQ(s.intake.wholes, 8u);
}

TEST(H2, BodiesOverTheLimitAre413) {
  Server s;
  s.intake.plan.limit = 1000;
  Client c;
  int32_t declared = c.request(with(kPost, {{"content-length", "2000"}}), text_of(2000));
  int32_t silent = c.request(kPost, text_of(200000));
  int32_t fine = c.request(kPost, text_of(1000));
  int32_t grpc = c.request(with(kPost, {{"content-type", "application/grpc+proto"}}), text_of(2000));
  c.talk(s);
  EXPECT_EQ(c[declared].status(), "413");
  EXPECT_EQ(c[silent].status(), "413");
  EXPECT_EQ(c[fine].status(), "200");
  EXPECT_EQ(c[grpc].status(), "200");
  EXPECT_EQ(c[grpc].field("grpc-status"), "8");
  EXPECT_TRUE(c[silent].ended);
  EXPECT_FALSE(c[silent].reset);
  EXPECT_EQ(s.intake.closes, 4u);
  EXPECT_TRUE(s.codec->idle());
}

TEST(H2, OnDrainComesAtTheLowWaterMark) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  Client c(8 << 20);
  nghttp2_session_set_local_window_size(c.session, 0, 0, 16 << 20);
  c.request(kGet);
  c.talk(s);
  Exchange& x = *streamed.order.at(0);
  Heard& heard = streamed.heard[&x];
  x.head({});
  x.body(Bytes::adopt(text_of(1 << 20)));
  EXPECT_EQ(x.backlog(), size_t(1) << 20);
  while (x.backlog() >= Exchange::kLowWater) {
    EXPECT_EQ(heard.drains, 0);
    size_t before = x.backlog();
    std::array<iovec, 4> pieces;
    ASSERT_GT(s.codec->pending(pieces), 0u);
    s.codec->consumed(pieces[0].iov_len);
    EXPECT_LE(x.backlog(), before);
  }
  EXPECT_EQ(heard.drains, 1);
  s.take();
  EXPECT_EQ(x.backlog(), 0u);
  EXPECT_EQ(heard.drains, 1);
  EXPECT_EQ(heard.closes, 0);
  for (int i = 0; i < 3; ++i) x.body(Bytes::adopt(text_of(1000))), s.take();
  EXPECT_EQ(heard.drains, 1) << "it never was above the mark again";
  x.body(Bytes::adopt(text_of(1 << 20)));
  s.take();
  EXPECT_EQ(heard.drains, 2);
}

TEST(H2, OneTurnStartsAsManyRequestsAsAllowed) {
  Server s;
  s.limits.requests_per_read = 4;
  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  std::string bytes = opening();
  for (uint32_t i = 0; i < 10; ++i) bytes += get(2 * i + 1);
  s.feed(bytes);
  EXPECT_EQ(s.intake.begun, 4u);
  EXPECT_FALSE(s.codec->wants_read());
  EXPECT_GT(s.wire.output_calls, 0);
  s.take();
  EXPECT_EQ(s.intake.begun, 4u) << "also when all is written";
  EXPECT_TRUE(std::exchange(s.wire.tick_wanted, false));
  s.codec->tick(s.wire.env.now());  // in the next turn
  s.take();
  EXPECT_EQ(s.intake.begun, 8u);
  s.wire.env.advance(1ns);
  s.take();
  EXPECT_EQ(s.intake.begun, 10u) << "a turn in which there was something to write does as well";
  EXPECT_TRUE(s.codec->wants_read());
}

}  // namespace
}  // namespace weir::test
