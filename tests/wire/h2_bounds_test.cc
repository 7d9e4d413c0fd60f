// HTTP/2: what is allowed up to its bound, and not beyond it; and what is told of it.
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/body_memory.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;
using namespace std::chrono_literals;

TEST(H2, AFrameThatIsNotCompleteHasItsTimeAndNoMore) {
  Server s;
  s.feed(opening());
  s.take();
  s.feed(get(1).substr(0, 20));
  s.advance(9s);
  EXPECT_FALSE(s.codec->finished());
  s.feed(get(1).substr(20));
  s.take();
  s.feed(get(3).substr(0, 20));
  s.advance(9s);
  EXPECT_FALSE(s.codec->finished()) << "each frame has its own time";
  s.advance(1s);
  EXPECT_TRUE(s.codec->finished());
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"slow_header"});
  EXPECT_FALSE(s.codec->flooded()) << "a slow peer costs nobody work";
}

// Whoever asks without a pause may be in the middle of a frame whenever something is read.
TEST(H2, ReadsThatEndInsideOfFramesAreNoSlowFrame) {
  Server s;
  s.feed(opening() + get(1).substr(0, 20));
  for (uint32_t id = 1; id < 41; id += 2) {
    s.feed(get(id).substr(20) + get(id + 2).substr(0, 20));
    s.take();
    s.advance(1s);
  }
  EXPECT_FALSE(s.codec->finished());
  s.feed(get(41).substr(20, 1));
  s.advance(5s);
  s.feed(get(41).substr(21, 1));
  s.advance(5s);
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, AHeaderBlockOfSeveralFramesHasTheTimeOfOne) {
  Server s;
  const auto more = [](int flags) { return frame(9, flags, 1, block({{"a", "b"}})); };
  s.feed(opening() + frame(1, kEndStream, 1, block(kGet)));
  for (int i = 0; i < 4; ++i) {
    s.advance(3s);
    s.feed(more(0).substr(0, 12));
    EXPECT_EQ(s.codec->finished(), i == 3);
    s.feed(more(0).substr(12));
  }
}

TEST(H2, AFloodIsToldApartFromOtherEnds) {
  Server s;
  s.feed(opening());
  s.take();
  EXPECT_FALSE(s.codec->flooded());
  for (int i = 0; i < 200 && !s.codec->finished(); ++i) s.feed(frame(6, 0, 0, "12345678")), s.take();
  EXPECT_TRUE(s.codec->finished());
  EXPECT_TRUE(s.codec->flooded());
  Server t;
  t.feed(opening() + frame(0, 0, 0, "x"));
  t.take();
  EXPECT_TRUE(t.codec->finished());
  EXPECT_FALSE(t.codec->flooded()) << "a mistake is no flood";
}

TEST(H2, TheLastGoawayWaitsForTheSocketASecond) {
  Server s;
  s.wire.env.advance(50s);
  s.feed("GET / HTTP/1.1\r\nHost: example\r\n\r\n");
  ASSERT_TRUE(s.codec->finished());
  std::array<iovec, 8> pieces;
  s.wire.env.advance(999ms);
  s.codec->tick(s.wire.env.now());
  EXPECT_GT(s.codec->pending(pieces), 0u);
  s.wire.env.advance(1ms);
  s.codec->tick(s.wire.env.now());
  EXPECT_EQ(s.codec->pending(pieces), 0u);
}

TEST(H2, AGoawayNamesTheLastStreamTheCodeAndWhy) {
  Server s;
  s.feed(opening() + get(1) + get(3));
  s.take();
  for (int i = 0; i < 200 && !s.codec->finished(); ++i) s.feed(frame(6, 0, 0, "12345678"));
  Frame last{};
  for (const Frame& f : frames_of(s.take()))
    if (f.type == 7) last = f;
  EXPECT_EQ(last.stream, 0u);
  EXPECT_EQ(last.flags, 0);
  EXPECT_EQ(last.payload, u32(3) + u32(11) + "too_many_pings");
}

TEST(H2, DataWithoutItsPaddingsLengthIsNoEndOfARequest) {
  Server s;
  s.feed(opening() + post(1) + frame(0, kEndStream | kPadded, 1, ""));
  EXPECT_TRUE(s.codec->finished());
  EXPECT_EQ(s.intake.wholes, 0u);
}

// RFC 9113 §6.8: who goes, but not at once, names the largest stream first, and the last one later.
TEST(H2, AClientMayGoInTwoSteps) {
  Server s;
  s.feed(opening() + get(1) + frame(7, 0, 0, u32(0x7fffffff) + u32(0)) + frame(7, 0, 0, u32(0) + u32(0)));
  std::map<int, size_t> seen;
  for (const Frame& f : frames_of(s.take())) ++seen[f.type];
  EXPECT_EQ(seen[1], 1u) << "the request is answered";
  EXPECT_EQ(seen[7], 0u) << "and nothing is wrong";
}

TEST(H2, AnIdleConnectionHasItsTimeAndNoMore) {
  Server s;
  s.feed(opening());
  s.take();
  s.advance(50s);
  s.feed(get(1));
  s.take();
  s.advance(74s);
  EXPECT_FALSE(s.codec->finished());
  s.advance(1s);
  s.take();
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, AStreamMayBeSilentForItsTimeAndNoLonger) {
  Server s;
  wire::RequestRecord record;
  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  s.intake.on_closed = [&](Exchange& x) { record = std::move(x.record()); };
  s.feed(opening() + post(1));
  s.take();
  s.advance(100s);
  s.feed(frame(0, 0, 1, "x"));
  s.advance(299s);
  EXPECT_EQ(s.intake.closes, 0u);
  s.advance(1s);
  auto frames = frames_of(s.take());
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames.back().type, 3);
  EXPECT_EQ(record.reject, "idle");
}

TEST(H2, TheConnectionsWindowIsOpenedAtOnce) {
  wire::Limits limits;
  for (uint32_t window : {65535u, 65536u, 1u << 20}) {
    limits.conn_window = window;
    Server s(limits);
    s.feed(opening());
    std::string opened;
    for (const Frame& f : frames_of(s.take()))
      if (f.type == 8 && f.stream == 0) opened = f.payload;
    EXPECT_EQ(opened, window == 65535 ? "" : u32(window - 65535)) << window;
  }
}

// A stream that is reset in its first second counts as premature; one that is older does not.
TEST(H2, OldStreamsMayBeReset) {
  for (auto age : {999ms, 1000ms}) {
    wire::Limits limits;
    limits.resets = 1000;
    Server s(limits);
    s.intake.on_whole = [](Exchange&) {};
    s.feed(opening());
    uint32_t stream = 1;
    for (int round = 0; round < 26 && !s.codec->finished(); ++round) {
      std::string opened, ended;
      for (int i = 0; i < 10; ++i, stream += 2) opened += get(stream), ended += rst(stream);
      s.feed(opened);
      s.take();
      s.wire.env.advance(age);
      s.feed(ended);
      s.take();
    }
    EXPECT_EQ(s.codec->finished(), age < 1s);
    EXPECT_EQ(s.intake.rejections.size(), age < 1s ? 1u : 0u);
  }
}

enum class Asks : bool { kItself, kForMany };
// Opens 4,000 streams, forty at a time, each with that timeout, and resets them when they are `age` old. How many were
// reset before the connection ended, or all.
constexpr int kResets = 4000;
int reset_at_age(base::Duration timeout, base::Duration age, Asks asks = Asks::kItself) {
  constexpr int count = kResets, most = 40;
  Server s;
  s.peer.proxy = asks == Asks::kForMany;
  s.restart();
  s.intake.on_whole = [&](Exchange& x) {
    if (timeout.count() > 0) x.record().deadline = x.now() + timeout;
  };
  s.feed(opening());
  s.take();
  const std::string head = block(kGet);
  int done = 0;
  for (uint32_t stream = 1; done < count; done += most) {
    std::string ended;
    for (int i = 0; i < most; ++i, stream += 2) {
      s.feed(frame(1, kEndHeaders | kEndStream, stream, head));
      ended += rst(stream);
    }
    s.take();
    s.wire.env.advance(age);
    s.feed(ended);
    s.take();
    if (s.codec->finished()) break;
  }
  EXPECT_EQ(s.codec->finished(), done < count);
  return done;
}

TEST(H2, ResetsAtTheClientsOwnDeadlineAreNotCounted) {
  for (auto [timeout, age] : {std::pair(500ms, 500ms), {500ms, 450ms}, {50ms, 45ms}, {2000ms, 2000ms}})
    EXPECT_EQ(reset_at_age(timeout, age), kResets) << timeout.count();
}

// Nobody ends a request at the deadline that this field names, unless it is a call of gRPC.
TEST(H2, AFieldThatNobodyReadsIsNoDeadline) {
  Server s;
  s.intake.on_whole = [](Exchange&) {};
  s.feed(opening());
  s.take();
  const std::string head = block(with(kGet, {{"grpc-timeout", "50m"}}));
  int done = 0;
  for (uint32_t stream = 1; done < kResets && !s.codec->finished(); ++done, stream += 2) {
    s.feed(frame(1, kEndHeaders | kEndStream, stream, head));
    s.wire.env.advance(50ms);
    s.feed(rst(stream));
    s.take();
  }
  EXPECT_TRUE(s.codec->finished()) << done;
}

// With a deadline that is far away, and with one that is over at once.
TEST(H2, ADeadlineMakesNoEarlyResetFree) {
  for (auto [timeout, age] : {std::pair(500ms, 449ms), {60'000ms, 0ms}, {1ms, 0ms}, {49ms, 49ms}, {50ms, 44ms}})
    EXPECT_LT(reset_at_age(timeout, age), 400) << timeout.count();
}

TEST(H2, AResetThatMeetsTheWholeAnswerIsNotCounted) {
  Server s;
  s.feed(opening());
  s.take();
  uint32_t stream = 1;
  for (int i = 0; i < 2000; ++i, stream += 2) {
    s.feed(get(stream));
    ASSERT_FALSE(s.take().empty());
    s.feed(rst(stream));
    ASSERT_FALSE(s.codec->finished()) << i;
  }
  int passed = 0;  // one stream again and again
  for (; passed < 1000 && !s.codec->finished(); ++passed) s.feed(rst(1)), s.take();
  EXPECT_EQ(passed, 201);
}

TEST(H2, AnsweredStreamsMayBeResetAsFastAsTheyCome) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    x.head({});
    x.body(Bytes::copy_of("a part"));
  };
  s.feed(opening());
  s.take();
  for (uint32_t i = 0; i < 2500; ++i) {
    s.feed(get(2 * i + 1));
    ASSERT_FALSE(s.take().empty());
    s.feed(rst(2 * i + 1));
    ASSERT_FALSE(s.codec->finished()) << i;
  }
}

TEST(H2, ATrustedProxyMayResetMore) {
  EXPECT_LT(reset_at_age(0ms, 1s), 500) << "40 in a second, and 20 are allowed";
  EXPECT_EQ(reset_at_age(0ms, 1s, Asks::kForMany), kResets);
}

TEST(H2, FieldsThatAreAboutTheConnectionStayBehind) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    for (const char* name : {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "kept",
                             "cached", "proxied", "x-up"})
      r.fields.add(name, "v");
    x.head(std::move(r));
    wire::Fields trailers;
    trailers.add("upgrade", "v"), trailers.add("x-trailer", "v");
    x.end(std::move(trailers));
  };
  Client c;
  int32_t id = c.request(kGet);
  c.talk(s);
  for (const char* name : {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
    EXPECT_EQ(c[id].field(name), "") << name;
  for (const char* name : {"kept", "cached", "proxied", "x-up"}) EXPECT_EQ(c[id].field(name), "v") << name;
  EXPECT_EQ(c[id].trailer("x-trailer"), "v");
  EXPECT_EQ(c[id].trailer("upgrade"), "");
}

TEST(H2, ARefusalHasTheCodeOfItsKind) {
  std::vector<std::pair<int, base::Code>> records;
  Server s;
  s.intake.plan.limit = 100;
  s.intake.on_closed = [&](Exchange& x) { records.emplace_back(x.record().status, x.record().code); };
  Client c;
  auto ask = [&](const Headers& fields, std::string body) {
    int32_t id = c.request(with(kPost, fields), std::move(body));
    c.talk(s);
    return c[id].status();
  };
  EXPECT_EQ(ask({{"content-length", "100"}}, text_of(100)), "200");
  EXPECT_EQ(ask({{"content-length", "101"}}, text_of(101)), "413");
  EXPECT_EQ(ask({{"content-encoding", "br"}}, "x"), "415");
  EXPECT_EQ(ask({{"content-encoding", "gzip"}}, "not gzip"), "400");
  EXPECT_EQ(records, (std::vector<std::pair<int, base::Code>>{{200, base::Code::kOk},
                                                              {413, base::Code::kResourceExhausted},
                                                              {415, base::code_from_http(415)},
                                                              {400, base::Code::kInvalidArgument}}));
}

// The bytes of a refused body are given back to the connection at once, not when its stream is over.
TEST(H2, ABodyThatWaitedInVainGivesTheWindowBack) {
  wire::Limits limits;
  limits.conn_window = limits.stream_window = 65535;
  Server s(limits);
  wire::BodyMemory::Need need;
  wire::BodyMemory memory(s.wire.env, need, {});
  s.restart({.intake = s.intake, .slabs = s.slabs, .limits = s.limits, .bodies = &memory});
  s.feed(opening());
  s.take();
  s.slabs.empty = true;
  s.feed(post(1));
  for (int i = 0; i < 4; ++i) s.feed(frame(0, 0, 1, text_of(10'000)));
  for (const Frame& f : frames_of(s.take())) EXPECT_NE(f.type, 8);
  EXPECT_EQ(memory.waiting(), 1u);
  s.advance(1s);
  bool answered = false, opened = false;
  for (int i = 0; i < 3 && !answered; ++i) {
    s.wire.env.advance(100ms);
    s.codec->tick(s.wire.env.now());
    for (const Frame& f : frames_of(s.take()))
      answered |= f.type == 1 && f.stream == 1, opened |= f.type == 8 && !f.stream;
  }
  EXPECT_TRUE(answered);
  EXPECT_TRUE(opened);
  s.codec.reset();
}

TEST(H2, CookiesAreOneFieldInTheirOrder) {
  Server s;
  Client c;
  int32_t id = c.request(with(kGet, {{"cookie", "a=1"}, {"x", "y"}, {"cookie", "b=2"}, {"cookie", "c=3"}}));
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
  std::string cookies;
  for (const auto& [name, value] : s.intake.seen[0].fields)
    if (name == "cookie") cookies += value + "|";
  EXPECT_EQ(cookies, "a=1; b=2; c=3|");
}

TEST(H2, LargeAnswersHaveLargeFramesWhereThePeerTakesThem) {
  for (uint32_t most : {16384u, 40000u, 1u << 20}) {
    Server s;
    s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(400'000))); };
    const std::string window = std::string("\0\4", 2) + u32(1 << 20), size = std::string("\0\5", 2) + u32(most);
    s.feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, window + size) + frame(4, kAck, 0, "") +
           frame(8, 0, 0, u32(1 << 20)) + get(1));
    size_t longest = 0, sum = 0;
    for (const Frame& f : frames_of(s.take()))
      if (f.type == 0) longest = std::max(longest, f.payload.size()), sum += f.payload.size();
    EXPECT_EQ(sum, 400'000u);
    EXPECT_EQ(longest, std::min<size_t>(most, 256 << 10));
  }
}

}  // namespace
}  // namespace weir::test
