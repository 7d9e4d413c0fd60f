// HTTP/1.1: what is allowed up to its bound, and not beyond it; and who is told of output.
#include "h1_fixture.h"
#include "wire/forwarded.h"

namespace weir::wire {
namespace {

void answer_in_begin(Conn& c) {
  c.intake.on_begin = [](Exchange& x) {
    x.respond(200, "text/plain", Bytes::constant("ok"));
    return Plan{BodyPlan::kIgnore};
  };
}

TEST(H1, AnEmptyPieceDoesNotEndAnAnswerInChunks) {
  Conn c;
  c.hold();
  Exchange* x = nullptr;
  c.intake.on_whole = [&](Exchange& exchange) { x = &exchange; };
  c.feed(get());
  ASSERT_NE(x, nullptr);
  x->body(Bytes::constant("too early"));
  EXPECT_EQ(c.out(), "");
  x->head({});
  x->body({});
  x->body(Bytes::constant("ab"));
  x->body({});
  x->end({});
  const std::string out = c.out();
  EXPECT_TRUE(out.ends_with("\r\n\r\n2\r\nab\r\n0\r\n\r\n")) << out;
}

TEST(H1, TheClientBehindATrustedProxyIsTheRequests) {
  base::Clients clients;
  TrustedProxies proxies(base::NetworkList::parse({"10.0.0.0/8"}).value(), TrustedProxies::Field::kXForwardedFor,
                         clients);
  auto asks = [&](const TrustedProxies* trusted, bool proxy, const std::string& fields) {
    Conn c;
    c.peer = {"10.0.0.1:5000", Security::kCleartext};
    c.peer.proxy = proxy;
    c.env.proxies = trusted;
    c.h1 = make_h1(c.env, c.wire, c.peer);
    std::string host;
    c.intake.on_whole = [&](Exchange& x) {
      host = x.request().peer->host();
      x.respond(200, "text/plain", Bytes::constant("ok"));
    };
    c.talk("GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n");
    return host;
  };
  const std::string named = "X-Forwarded-For: 192.0.2.7\r\n";
  EXPECT_EQ(asks(&proxies, true, named), "192.0.2.7");
  EXPECT_EQ(asks(&proxies, true, ""), "10.0.0.1");
  EXPECT_EQ(asks(&proxies, false, named), "10.0.0.1") << "a client that says so of itself";
  EXPECT_EQ(asks(nullptr, true, named), "10.0.0.1");
}

TEST(H1, ABodyThatNobodyWantsIsReadUpToABound) {
  constexpr size_t kMost = 256 << 10;
  for (size_t size : {kMost, kMost + 1}) {
    Conn c;
    answer_in_begin(c);
    c.feed("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
    for (size_t at = 0; at < size; at += 1024) c.feed(std::string(std::min<size_t>(1024, size - at), 'x'));
    c.feed(get("/next"));
    c.out();
    EXPECT_EQ(c.intake.begun, size == kMost ? 2u : 1u) << size;
    EXPECT_EQ(c.h1->finished(), size > kMost);
  }
}

// RFC 9112 §2.2: at least one is skipped. Old clients end a body with one, and some proxies with more.
TEST(H1, AFewBlankLinesMayStandBeforeARequest) {
  const auto blank = [](int lines) {
    std::string out;
    for (int i = 0; i < lines; ++i) out += "\r\n";
    return out;
  };
  Conn few;
  EXPECT_EQ(few.talk(blank(1) + get()), kOk);
  EXPECT_EQ(few.talk(blank(8) + get()), kOk) << "and before the next one";
  Conn many;
  EXPECT_TRUE(many.talk(blank(9) + get()).starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(many.intake.begun, 0u);
}

TEST(H1, ABlankLineBeginsNoHead) {
  Conn c;
  EXPECT_EQ(c.talk(get() + "\r\n"), kOk);
  c.wait(20s);
  EXPECT_EQ(c.out(), "") << "the connection is idle, and has that time";
  EXPECT_EQ(c.talk(get()), kOk);
}

TEST(H1, WhatComesBehindTheLastRequestIsReadUpToABound) {
  Conn c;
  c.hold();
  c.feed("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  c.feed(std::string(1 << 20, 'x'));
  EXPECT_TRUE(c.h1->wants_read());
  c.feed("x");
  EXPECT_FALSE(c.h1->wants_read());
  c.intake.open[0]->respond(200, "text/plain", Bytes::constant("ok"));
  EXPECT_TRUE(c.out().starts_with("HTTP/1.1 200 "));
}

TEST(H1, AHeadHasItsTimeAndNoMore) {
  Conn c;
  c.feed("GET / HTTP/1.1\r\n");
  c.wait(10s);
  EXPECT_EQ(c.out(), "");
  c.feed("Host: a\r\n");
  c.wait(1s);
  EXPECT_TRUE(c.out().starts_with("HTTP/1.1 408 "));
  Conn again;
  again.talk(get());
  again.wait(20s);
  again.feed("GET / HTTP/1.1\r\n");
  again.wait(10s);
  EXPECT_EQ(again.talk("Host: a\r\n\r\n"), kOk) << "each head has its own time";
  again.wait(10s);
  again.feed("GET / HTTP/1.1\r\n");
  again.wait(10s);
  EXPECT_EQ(again.talk("Host: a\r\n\r\n"), kOk);
}

// While the output is full no more is read.
TEST(H1, AHeadThatWeDoNotReadOnHasAllTime) {
  Conn c;
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(3 << 20, 'x'))); };
  c.feed(get() + "GET /next HTTP/1.1\r\n");
  for (int second = 0; second < 30; ++second) {
    std::array<iovec, 4> pieces;
    ASSERT_GT(c.h1->pending(pieces), 0u);
    c.h1->consumed(std::min<size_t>(pieces[0].iov_len, 20'000));
    c.wait(1s);
  }
  (void)c.out();
  c.wait(9s);
  EXPECT_TRUE(c.talk("Host: a\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST(H1, ABodyThatWasNotAskedForYetHasAllTime) {
  Conn c;
  c.hold();
  c.feed(get());
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  c.wait(30s);
  EXPECT_EQ(c.out(), "");
  c.intake.open[0]->respond(200, "text/plain", Bytes::constant("ok"));
  EXPECT_EQ(c.out(), kOk + "HTTP/1.1 100 Continue\r\n\r\n");
  c.wait(9s);
  c.feed("hi");
  EXPECT_EQ(c.intake.wholes, 2u);
}

TEST(H1, AnIdleConnectionHasItsTimeAndNoMore) {
  Conn fresh;
  fresh.wait(10s);
  EXPECT_FALSE(fresh.h1->finished());
  fresh.wait(1s);
  EXPECT_TRUE(fresh.h1->finished());
  Conn kept;
  kept.talk(get());
  kept.wait(75s);
  EXPECT_FALSE(kept.h1->finished());
  kept.wait(1s);
  EXPECT_TRUE(kept.h1->finished());
}

TEST(H1, AConversationMayBeSilentForItsTimeAndNoLonger) {
  for (bool answers : {false, true}) {
    Conn c;
    RequestRecord record;
    Heard heard;
    c.stream(heard);
    c.intake.on_closed = [&](Exchange& x) { record = std::move(x.record()); };
    c.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    c.intake.open[0]->head({});
    c.out();
    c.wait(200s);
    if (answers) {
      c.intake.open[0]->body(Bytes::copy_of("tick"));
    } else {
      c.feed("1\r\nx\r\n");
    }
    c.out();
    if (!answers) c.intake.open[0]->consume(1);
    c.wait(300s);
    EXPECT_EQ(heard.closes, 0);
    c.wait(1s);
    c.out();
    c.h1->closed();
    EXPECT_EQ(heard.closes, 1);
    EXPECT_EQ(record.reject, "idle");
  }
}

TEST(H1, AStreamedBodyHasItsLimitToo) {
  auto status = [](size_t limit, const std::string& framing) {
    Conn c;
    Heard heard;
    c.intake.on_begin = [&](Exchange& x) {
      x.attach(std::make_unique<RecordingReader>(heard));
      return Plan{BodyPlan::kStream, limit};
    };
    c.feed("POST / HTTP/1.1\r\nHost: a\r\n" + framing);
    if (heard.ends > 0) return std::string("whole");
    return c.out().substr(9, 3);
  };
  EXPECT_EQ(status(10, "Content-Length: 10\r\n\r\n0123456789"), "whole");
  EXPECT_EQ(status(10, "Content-Length: 11\r\n\r\n"), "413");
  EXPECT_EQ(status(10, "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"), "whole");
  EXPECT_EQ(status(10, "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n7\r\n456789a\r\n0\r\n\r\n"), "413");
  EXPECT_EQ(status(0, "Content-Length: 1\r\n\r\nx"), "413");
  EXPECT_EQ(status(0, "Content-Length: 0\r\n\r\n"), "whole");
}

TEST(H1, ABodyThatInflatesTooFarIsRefusedByTheNameOfTheSetting) {
  Conn c;
  c.feed(post(gzip(std::string(1 << 20, 'x')), "Content-Encoding: gzip\r\n"));
  c.h1->tick(c.wire.now());
  const std::string out = c.out();
  EXPECT_TRUE(out.starts_with("HTTP/1.1 413 ")) << out;
  EXPECT_NE(out.find("to more than limits.inflate_ratio times its size"), std::string::npos) << out;
}

TEST(H1, AStreamIsHeldBackFromItsWindowOn) {
  Conn c;
  c.limits.stream_window = 1000;
  Heard heard;
  c.stream(heard);
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
  c.feed(std::string(999, 'x'));
  EXPECT_TRUE(c.h1->wants_read());
  c.feed("x");
  EXPECT_FALSE(c.h1->wants_read());
  c.intake.open[0]->consume(1);
  EXPECT_TRUE(c.h1->wants_read());
}

// Whoever calls the codec looks at the output afterwards; of all other output it has to tell.
TEST(H1, OutputIsToldOfOnceAndOnlyFromOutside) {
  auto told = [](Conn& c, auto call) {
    const int before = c.wire.output_calls;
    call();
    return c.wire.output_calls - before;
  };
  Conn c;
  EXPECT_EQ(told(c, [&] { c.feed(get() + get()); }), 0) << "answered inside feed()";
  EXPECT_EQ(c.out(), kOk + kOk);
  c.hold();
  for (int after = 0; after < 4; ++after) {
    c.feed(get("/held"));
    if (after == 1) c.h1->tick(c.wire.now());
    if (after == 2) c.h1->consumed(0);
    if (after == 3) c.h1->drain(Drain::kAnnounce);
    EXPECT_EQ(told(c, [&] { c.intake.open[0]->respond(200, "text/plain", Bytes::constant("ok")); }) > 0, true) << after;
    EXPECT_NE(c.out(), "");
  }
  Conn full;  // a request that waits for a place is answered inside consumed() and tick()
  full.slabs.empty = true;
  full.feed(post("hello"));
  full.slabs.empty = false;
  EXPECT_EQ(told(full, [&] { full.h1->tick(full.wire.now()); }), 1);
  EXPECT_EQ(full.out(), kOk);
  Conn half;
  half.hold();
  half.feed(get());
  EXPECT_EQ(told(half, [&] { half.h1->eof(); }), 1) << "that it is over";
  half.h1->closed();
  EXPECT_TRUE(half.h1->finished());
}

TEST(H1, OfAPeerThatDoesNotReadTheRecordSaysSoAndNothingIsLeft) {
  Conn c;
  RequestRecord record;
  c.intake.on_closed = [&](Exchange& x) { record = std::move(x.record()); };
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "", Bytes::adopt(std::string(1 << 20, 'x'))); };
  c.feed(get());
  for (int i = 0; i < 40 && !c.h1->finished(); ++i) c.wait(1s);
  EXPECT_TRUE(c.h1->finished());
  std::array<iovec, 4> pieces;
  EXPECT_EQ(c.h1->pending(pieces), 0u);
  c.h1->closed();
  EXPECT_EQ(record.reject, "slow_read");
}

// A socket that takes no more until a third of its 4 MiB has gone, which takes this peer half a minute.
TEST(H1, APeerThatReadsSlowlyThroughALargeSocketIsNotCutOff) {
  for (size_t a_second : {size_t(40'000), size_t(500)}) {
    Conn c;
    c.intake.on_whole = [](Exchange& x) { x.respond(200, "", Bytes::adopt(std::string(16 << 20, 'x'))); };
    c.feed(get());
    std::array<iovec, 64> pieces;
    constexpr size_t kSocket = 4 << 20;
    size_t room = kSocket;
    for (int second = 0; second < 120 && !c.h1->finished(); ++second) {
      if (room > kSocket / 3) {
        ASSERT_GT(c.h1->pending(pieces), 0u);
        c.h1->consumed(std::exchange(room, 0));
      }
      c.wire.in_socket = kSocket - room;
      c.wait(1s);
      room += a_second;
    }
    EXPECT_EQ(c.h1->finished(), a_second < c.limits.min_drain_rate) << a_second;
  }
}

// A peer whose window opens in steps: what it has taken before counts for half a minute, and no longer.
TEST(H1, APeerThatTakesItsAnswerInStepsIsNotCutOff) {
  for (int every : {35, 60}) {
    Conn c;
    c.intake.on_whole = [](Exchange& x) { x.respond(200, "", Bytes::adopt(std::string(16 << 20, 'x'))); };
    c.feed(get());
    std::array<iovec, 64> pieces;
    for (int second = 1; second <= 240 && !c.h1->finished(); ++second) {
      c.wait(1s);
      if (second % every != 5) continue;
      ASSERT_GT(c.h1->pending(pieces), 0u);
      c.h1->consumed(200'000);
    }
    EXPECT_EQ(c.h1->finished(), every == 60) << every;
  }
}

TEST(H1, ARateOfZeroIsNoFloor) {
  Conn c;
  c.limits.min_drain_rate = 0;
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "", Bytes::adopt(std::string(1 << 20, 'x'))); };
  c.feed(get());
  for (int second = 0; second < 60; ++second) {
    c.wire.in_socket += 100;  // as if less than nothing had been taken
    c.wait(1s);
  }
  EXPECT_FALSE(c.h1->finished());
}

TEST(H1, AClosedSocketLeavesNoOutput) {
  Conn c;
  c.feed(get());
  c.h1->closed();
  std::array<iovec, 4> pieces;
  EXPECT_EQ(c.h1->pending(pieces), 0u);
  EXPECT_TRUE(c.h1->finished());
}

}  // namespace
}  // namespace weir::wire
