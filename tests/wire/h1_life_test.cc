// How connections end: closed, reset, timed out, drained.
#include "h1_fixture.h"

namespace weir::wire {
namespace {

TEST(H1, TheClosingOfTheSocketEndsEveryExchangeOnce) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get() + get() + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
  c.intake.open[0]->respond(200, "", Bytes::copy_of("x"));
  c.h1->closed();
  EXPECT_EQ(heard.closes, 3);
  EXPECT_EQ(c.intake.closes, 3u);
  EXPECT_FALSE(heard.complete);
  EXPECT_EQ(c.out(), "");
  c.h1->closed();
  EXPECT_EQ(heard.closes, 3);
}

TEST(H1, AHalfClosedPeerGetsWhatIsDoneAndTheRestIsCancelled) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get() + get());
  c.intake.open[0]->respond(200, "", {});
  c.h1->eof();
  EXPECT_EQ(heard.closes, 1);
  EXPECT_FALSE(heard.complete);
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(heard.closes, 2);
  EXPECT_TRUE(heard.complete);
  EXPECT_TRUE(c.h1->finished());
  Conn idle;
  idle.h1->eof();
  EXPECT_TRUE(idle.h1->finished());
}

TEST(H1, ResetBreaksTheConnectionOff) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get() + get());
  c.intake.open[0]->head({});
  c.intake.open[0]->body(Bytes::copy_of("abc"));
  c.intake.open[0]->reset(Reset::kInternal);
  EXPECT_FALSE(c.h1->finished());
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
  EXPECT_TRUE(c.h1->finished());
  EXPECT_EQ(heard.closes, 1);
  EXPECT_FALSE(heard.complete);
  c.h1->closed();
  EXPECT_EQ(heard.closes, 2);
}

// In either place of the queue, and at whatever moment the service breaks off.
TEST(H1, NothingBehindABrokenOffRequestIsServed) {
  struct Breaking final : ExchangeListener {
    explicit Breaking(std::string its_when) : when(std::move(its_when)) {}
    void on_data(Exchange& x, std::span<const std::byte> piece) override {
      x.consume(piece.size());
      if (when == "data") x.reset(Reset::kInternal);
    }
    void on_end(Exchange& x) override {
      if (when == "end") x.reset(Reset::kInternal);
    }
    void on_close(Exchange&, bool) override {}
    const std::string when;
  };
  for (bool behind_another : {false, true}) {
    for (const char* when : {"data", "end"}) {
      Conn c;
      c.intake.on_begin = [&](Exchange& x) {
        if (x.request().target != "/p") return Plan{};
        x.attach(std::make_unique<Breaking>(when));
        x.head({});
        return Plan{BodyPlan::kStream, 100};
      };
      Exchange* first = nullptr;
      c.intake.on_whole = [&](Exchange& x) {
        if (x.request().target == "/1")
          first = &x;
        else
          x.respond(200, "", {});
      };
      c.feed((behind_another ? get("/1") : "") + post("abc") + get("/never"));
      if (behind_another) first->respond(200, "", {});
      EXPECT_EQ(c.intake.seen.back().target, "/p") << when << behind_another;
      // A head that waited for its turn still goes out, to be cut off.
      EXPECT_EQ(c.out(), behind_another ? "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n"
                                          "transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
                                        : "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      EXPECT_TRUE(c.h1->finished()) << when << behind_another;
      EXPECT_EQ(c.talk(get("/never")), "");
      EXPECT_EQ(c.intake.seen.back().target, "/p") << when << behind_another;
    }
  }
}

TEST(H1, AnAnswerInsideAnyCallbackIsFine) {
  Conn c;
  c.intake.on_begin = [](Exchange& x) {
    x.respond(200, "", Bytes::copy_of(x.request().target));
    return Plan{BodyPlan::kIgnore};
  };
  EXPECT_EQ(c.talk(get("/1") + post("body") + get("/3")),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n/1HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n/p"
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n/3");
}

TEST(H1, CallsAfterTheEndDoNothing) {
  Conn c;
  c.hold();
  c.feed(get());
  Exchange& x = *c.intake.open[0];
  x.body(Bytes::copy_of("too early"));
  x.respond(200, "", {});
  x.respond(500, "", Bytes::copy_of("again"));
  x.body(Bytes::copy_of("late"));
  x.end();
  x.reset(Reset::kCancel);
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  EXPECT_FALSE(c.h1->finished());
}

TEST(H1, ASlowHeadIs408) {
  Conn c;
  c.feed("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 12 && !c.h1->finished(); ++i) {
    c.wait(1s);
    if (i < 9) c.feed("a: b\r\n");
    std::string out = c.out();
    EXPECT_TRUE(out.empty() || out.starts_with("HTTP/1.1 408 ")) << out;
  }
  EXPECT_TRUE(c.h1->finished());
  EXPECT_EQ(c.intake.rejections, std::vector<std::string>{"slow_header"});
}

TEST(H1, ASlowBodyIs408AndAFastEnoughOneIsNot) {
  Conn c;
  std::string reject;
  c.intake.on_closed = [&](Exchange& x) { reject = x.record().reject; };
  std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
  c.feed(head);
  for (int i = 0; i < 60; ++i) {
    c.feed(std::string(1100, 'x'));
    c.wait(1s);
  }
  EXPECT_EQ(c.out(), "");
  std::string out;
  for (int i = 0; i < 25 && out.empty(); ++i) {
    c.feed("x");
    c.wait(1s);
    out = c.out();
  }
  EXPECT_TRUE(out.starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(reject, "slow_body");
  EXPECT_TRUE(c.h1->finished());
}

TEST(H1, WhereMemoryIsScarceALargeBodyMustComeSwiftly) {
  Conn c;
  std::string reject;
  c.intake.on_closed = [&](Exchange& x) { reject = x.record().reject; };
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n" + std::string(3 << 20, 'x'));
  auto drip = [&] {
    std::string out;
    for (int i = 0; i < 40 && out.empty(); ++i) {
      c.feed(std::string(5000, 'x'));
      c.wait(1s);
      out = c.out();
    }
    return out;
  };
  EXPECT_EQ(drip(), "");
  c.slabs.is_scarce = true;
  EXPECT_TRUE(drip().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(reject, "slow_body");
}

TEST(H1, APeerThatDoesNotReadIsCutOff) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get());
  c.intake.open[0]->respond(200, "", Bytes::adopt(std::string(1 << 20, 'x')));
  for (int i = 0; i < 30; ++i) {
    c.h1->consumed(2000);
    c.wait(1s);
  }
  EXPECT_FALSE(c.h1->finished());
  for (int i = 0; i < 55 && !c.h1->finished(); ++i) {  // 30 s of them by what it has taken before
    c.h1->consumed(1);
    c.wait(1s);
  }
  EXPECT_TRUE(c.h1->finished());
  c.h1->closed();
  EXPECT_EQ(heard.closes, 1);
  EXPECT_FALSE(heard.complete);
}

TEST(H1, AStreamThatIsReadMayGoOnForever) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get());
  c.intake.open[0]->head({});
  for (int i = 0; i < 1000; ++i) {
    if (i % 20 == 0) c.intake.open[0]->body(Bytes::copy_of("tick"));
    c.out();
    c.wait(1s);
  }
  EXPECT_FALSE(c.h1->finished());
  EXPECT_EQ(heard.closes, 0);
}

TEST(H1, IdleConnectionsAreClosed) {
  Conn fresh;
  fresh.wait(9s);
  EXPECT_FALSE(fresh.h1->finished());
  fresh.wait(3s);
  EXPECT_TRUE(fresh.h1->finished());
  Conn kept;
  kept.talk(get());
  kept.wait(70s);
  EXPECT_FALSE(kept.h1->finished());
  EXPECT_EQ(kept.talk(get()), kOk);
  kept.wait(77s);
  EXPECT_TRUE(kept.h1->finished());
}

TEST(H1, WaitingForAnAnswerIsNotIdle) {
  Conn c;
  c.hold();
  c.feed(get());
  c.wait(1000s);
  EXPECT_FALSE(c.h1->finished());
  EXPECT_FALSE(c.h1->idle());
}

TEST(H1, DrainAnswersWhatWasTakenAndThenCloses) {
  Conn c;
  c.hold();
  c.feed(get("/1") + get("/2"));
  c.h1->drain(Drain::kAnnounce);
  EXPECT_FALSE(c.h1->finished());
  c.intake.open[0]->respond(200, "", {});
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  c.h1->drain(Drain::kRefuse);
  c.feed(get("/3"));
  EXPECT_EQ(c.intake.begun, 2u);
  c.intake.open[0]->respond(200, "", {});
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_TRUE(c.h1->finished());

  Conn idle;
  idle.talk(get());
  idle.h1->drain(Drain::kAnnounce);
  EXPECT_FALSE(idle.h1->finished());
  EXPECT_NE(idle.talk(get()).find("connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(idle.h1->finished());
  Conn refused;
  refused.h1->drain(Drain::kRefuse);
  EXPECT_TRUE(refused.h1->finished());
}

TEST(H1, AnUpgradeToH2cIsIgnored) {
  Conn c;
  EXPECT_EQ(c.talk("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                   "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"),
            kOk);
}

TEST(H1, AQuietConnectionKeepsLittleMemoryAndStillWorks) {
  Conn c;
  c.talk(post(std::string(100000, 'x')));
  c.wait(10s);
  EXPECT_EQ(c.talk(get()), kOk);
}

}  // namespace
}  // namespace weir::wire
