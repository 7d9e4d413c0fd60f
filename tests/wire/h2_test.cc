#include <random>

#include "support/h2_client.h"
#include "support/split_feed.h"

namespace weir::test {
namespace {

using base::Bytes;
using support::Heard;
using support::RecordingReader;
using wire::Exchange;
using namespace std::chrono_literals;

std::string text_of(size_t n) {
  std::string text(n, '\0');
  for (size_t i = 0; i < n; ++i) text[i] = char('a' + i * 2654435761u % 26);
  return text;
}
Bytes bytes_of(std::string text) { return Bytes::adopt(std::move(text)); }

// kStream with a RecordingReader that gives every byte back.
struct Streamed {
  std::map<Exchange*, Heard> heard;
  std::vector<Exchange*> order;
  class Giving final : public wire::Reader {
   public:
    Giving(Heard& heard, Heard* into) : reader_(heard), heard_(into) {}
    void on_data(Exchange& x, std::span<const std::byte> piece) override {
      reader_.on_data(x, piece);
      x.consume(piece.size());
    }
    void on_end(Exchange& x) override { reader_.on_end(x); }
    void on_drain(Exchange& x) override { reader_.on_drain(x); }
    void on_close(Exchange& x, bool complete) override { reader_.on_close(x, complete); }

   private:
    RecordingReader reader_;
    Heard* heard_;
  };
  void serve(Server& s) {
    s.intake.on_begin = [this](Exchange& x) {
      Heard& h = heard[&x];
      h = {};
      order.push_back(&x);
      x.attach(std::make_unique<Giving>(h, &h));
      return wire::Plan{wire::BodyPlan::kStream, 0};
    };
  }
};

TEST(H2, ARequestIsAnExchangeAndAnAnswer) {
  Server s;
  Client c;
  int32_t id = c.request(with(kPost, {{"content-type", "text/plain"}, {"te", "trailers"}}), "hello");
  c.talk(s);
  ASSERT_EQ(s.intake.seen.size(), 1u);
  const auto& seen = s.intake.seen[0];
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/p");
  EXPECT_EQ(seen.authority, "h");
  EXPECT_EQ(seen.body, "hello");
  EXPECT_EQ(seen.content_length, -1);
  EXPECT_EQ(seen.fields, (Headers{{"content-type", "text/plain"}, {"te", "trailers"}}));
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_EQ(c[id].field("content-length"), "2");
  EXPECT_EQ(c[id].body, "ok");
  EXPECT_TRUE(c[id].ended);
  EXPECT_FALSE(c[id].reset);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_TRUE(s.codec->idle());
  EXPECT_FALSE(s.codec->finished());
}

TEST(H2, AnySplitOfTheBytesGivesTheSameExchanges) {
  Client c;
  for (int i = 0; i < 3; ++i)
    c.request(with(kPost, {{"content-type", "text/plain"}, {"cookie", "a=1"}, {"cookie", "b=2"}}),
              text_of(300u * i + 7));
  c.request(kGet);
  std::string up = c.output();
  std::string expected;
  support::for_each_split(up, [&](size_t size) {
    Server s;
    std::string down;
    support::feed_in_pieces(up, size, [&](auto piece) { s.codec->feed(piece); });
    ASSERT_EQ(s.intake.seen.size(), 4u) << size;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(s.intake.seen[i].body, text_of(300u * i + 7)) << size;
    EXPECT_EQ(s.intake.seen[0].fields, (Headers{{"content-type", "text/plain"}, {"cookie", "a=1; b=2"}}));
    down = s.take();
    if (expected.empty()) expected = down;
    EXPECT_EQ(down, expected) << size;
    EXPECT_EQ(s.intake.closes, 4u);
  });
}

TEST(H2, OneTurnsAnswersGoOutInOneWrite) {
  Server s;
  Client c;
  c.talk(s);
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("content-type", "application/grpc");
    x.head(std::move(r));
    x.body(Bytes::copy_of("message"));
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  };
  std::vector<int32_t> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(c.request(kPost, "body"));
  s.feed(c.output());
  std::array<iovec, 64> pieces;
  size_t n = s.codec->pending(pieces);
  EXPECT_EQ(n, 1u);  // all of it is small: one stretch of memory
  c.input(s.write_once());
  for (int32_t id : ids) {
    EXPECT_EQ(c[id].body, "message");
    EXPECT_EQ(c[id].trailer("grpc-status"), "0");
    EXPECT_TRUE(c[id].ended);
  }
  EXPECT_EQ(s.intake.closes, 30u);
  EXPECT_EQ(s.codec->pending(pieces), 0u);
}

TEST(H2, TrailersOnlyIsOneHeadersFrame) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("grpc-status", "12");
    x.head(std::move(r));
    x.end();
  };
  s.feed(opening());
  s.take();
  s.feed(get(1));
  auto frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].type, 1);
  EXPECT_EQ(frames[0].flags, kEndHeaders | kEndStream);
}

TEST(H2, TrailersWithoutABodyNeedNoDataFrame) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    x.head({});
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  };
  Client c;
  int32_t id = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[id].trailer("grpc-status"), "0");
  EXPECT_TRUE(c[id].ended);
}

TEST(H2, HeadAndBodilessStatusesHaveNoBody) {
  Server s;
  Client c;
  int32_t head = c.request({{":method", "HEAD"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}});
  c.talk(s);
  EXPECT_EQ(c[head].field("content-length"), "2");
  EXPECT_EQ(c[head].body, "");
  EXPECT_TRUE(c[head].ended);
  for (int status : {204, 304}) {
    s.intake.on_whole = [=](Exchange& x) {
      wire::Response r;
      r.status = status;
      x.head(std::move(r));
      x.body(Bytes::copy_of("no"));
      x.end();
    };
    int32_t id = c.request(kGet);
    c.talk(s);
    EXPECT_EQ(c[id].status(), std::to_string(status));
    EXPECT_EQ(c[id].body, "");
    EXPECT_TRUE(c[id].ended);
  }
}

TEST(H2, ConnectionFieldsOfAServiceAreLeftOutAndStandingOnesPutIn) {
  Server s;
  s.intake.on_begin = [](Exchange& x) {
    x.standing().add("x-request-id", "7");
    return wire::Plan{};
  };
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("connection", "close");
    r.fields.add("transfer-encoding", "chunked");
    r.fields.add("x-kept", "1");
    x.respond(std::move(r), Bytes::copy_of("b"));
  };
  Client c;
  int32_t id = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[id].head, (Headers{{":status", "200"}, {"x-kept", "1"}, {"content-length", "1"}, {"x-request-id", "7"}}));
}

TEST(H2, HostStandsInForAuthorityAndMustNotContradictIt) {
  Server s;
  Client c;
  c.request({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "one"}});
  int32_t bad = c.request(with(kGet, {{"host", "other"}}));
  int32_t same = c.request(with(kGet, {{"host", "H"}}));
  c.talk(s);
  EXPECT_EQ(s.intake.seen[0].authority, "one");
  EXPECT_TRUE(s.intake.seen[0].fields.empty());
  EXPECT_EQ(c[bad].status(), "400");
  EXPECT_EQ(c[same].status(), "200");
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"host"});
}

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
  Bytes big = bytes_of(text_of(100000));
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
    x.respond(200, "a/b", x.request().target == "/big" ? bytes_of(text_of(4 << 20)) : Bytes::copy_of("small"));
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
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", bytes_of(text_of(2 << 20))); };
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

TEST(H2, AStreamedBodyComesInPiecesAndEnds) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  Client c;
  int32_t id = c.request(kPost, "one", true);
  c.talk(s);
  Exchange& x = *streamed.order.at(0);
  Heard& heard = streamed.heard[&x];
  EXPECT_EQ(heard.data, "one");
  x.head({});
  x.body(Bytes::copy_of("first"));
  EXPECT_GT(s.wire.output_calls, 0);
  c.talk(s);
  EXPECT_EQ(c[id].body, "first");
  c.more(id, "two", true);
  c.talk(s);
  EXPECT_EQ(heard.data, "onetwo");
  EXPECT_EQ(heard.ends, 1);
  x.body(Bytes::copy_of("second"));
  x.end();
  c.talk(s);
  EXPECT_EQ(c[id].body, "firstsecond");
  EXPECT_TRUE(c[id].ended);
  EXPECT_EQ(heard.closes, 1);
  EXPECT_TRUE(heard.complete);
  EXPECT_EQ(s.intake.closes, 1u);
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
  EXPECT_EQ(c[silent].reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(s.intake.closes, 4u);
  EXPECT_TRUE(s.codec->idle());
}

TEST(H2, ExpectContinueIsAnsweredBeforeTheBody) {
  Server s;
  Client c;
  int32_t id = c.request(with(kPost, {{"expect", "100-continue"}}), "", true);
  c.talk(s);
  EXPECT_EQ(c[id].informational.size(), 1u);
  c.more(id, "x", true);
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
}

TEST(H2, AnAnswerBeforeTheRequestIsCompleteEndsWithResetNoError) {
  Server s;
  s.intake.on_begin = [](Exchange& x) {
    x.respond(404, "text/plain", Bytes::copy_of("no"));
    return wire::Plan{};
  };
  Client c;
  int32_t id = c.request(kPost, text_of(100), true);
  c.talk(s);
  EXPECT_EQ(c[id].status(), "404");
  EXPECT_EQ(c[id].body, "no");
  EXPECT_TRUE(c[id].ended);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(s.intake.wholes, 0u);
  EXPECT_EQ(s.intake.closes, 1u);
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
  x.body(bytes_of(text_of(1 << 20)));
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
  x.body(bytes_of(text_of(100000)));
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
    EXPECT_EQ(x.ledger().bytes_in, 0u);
    EXPECT_EQ(x.ledger().status, 0);
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

TEST(H2, LedgerKnowsSizesStatusAndBeginning) {
  Server s;
  wire::Ledger ledger;
  s.intake.on_closed = [&](Exchange& x) { ledger = x.ledger(); };
  Client c;
  c.request(kPost, text_of(1000));
  c.talk(s);
  EXPECT_EQ(ledger.bytes_in, 1000u);
  EXPECT_EQ(ledger.bytes_out, 2u);
  EXPECT_EQ(ledger.status, 200);
  EXPECT_EQ(ledger.began, s.wire.now());
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

TEST(H2, ThePeersGoawayLetsRunningRequestsFinish) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1) + frame(7, 0, 0, u32(0) + u32(0)));
  s.take();
  EXPECT_FALSE(s.codec->finished());
  streamed.order.at(0)->respond(200, "a/b", Bytes::copy_of("x"));
  EXPECT_FALSE(s.take().empty());
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, AfterEofWhatWasAskedIsAnsweredThenTheConnectionEnds) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1) + post(3));
  s.take();
  s.codec->eof();
  s.take();
  EXPECT_EQ(streamed.heard[streamed.order[1]].closes, 1);
  EXPECT_FALSE(s.codec->finished());
  streamed.order[0]->respond(200, "a/b", Bytes::copy_of("x"));
  s.take();
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

TEST(H2, OneReadStartsAsManyRequestsAsAllowed) {
  Server s;
  s.limits.requests_per_read = 4;
  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  std::string bytes = opening();
  for (uint32_t i = 0; i < 10; ++i) bytes += get(2 * i + 1);
  s.feed(bytes);
  EXPECT_EQ(s.intake.begun, 4u);
  EXPECT_FALSE(s.codec->wants_read());
  EXPECT_GT(s.wire.output_calls, 0);
  s.write_once();  // our SETTINGS; the next helping
  EXPECT_EQ(s.intake.begun, 8u);
  s.take();
  EXPECT_EQ(s.intake.begun, 10u);
  EXPECT_TRUE(s.codec->wants_read());
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

TEST(H2, TicketsCountAsLiveWorkUntilTheyComeBack) {
  Server s;
  s.limits.streams = 4;
  s.restart();
  std::vector<base::Ticket> tickets;
  s.intake.on_begin = [&](Exchange& x) {
    tickets.push_back(x.ticket());
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  s.feed(opening());
  uint32_t id = 1;
  for (int i = 0; i < 4; ++i, id += 2) s.feed(post(id) + rst(id));
  EXPECT_EQ(s.intake.closes, 4u);
  EXPECT_EQ(s.intake.begun, 4u);
  s.take();
  s.feed(post(id));
  EXPECT_EQ(s.intake.begun, 4u);
  auto frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload, u32(7));  // REFUSED_STREAM
  tickets.pop_back();
  s.codec->tick(s.wire.env.now());
  id += 2;
  s.feed(post(id));
  EXPECT_EQ(s.intake.begun, 5u);
  s.codec->closed();
  s.codec.reset();
  tickets.clear();  // after the connection
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
