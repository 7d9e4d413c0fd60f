// Bodies of requests and answers: expected, early answered, chunked, too large, coded; and what is refused before them.
#include "h1_fixture.h"
#include "support/heap_in_use.h"
#include "support/split_feed.h"

namespace weir::wire {
namespace {

TEST(H1, ASmallAnswerBeforeAnExpectedBodyBeginsWith100) {
  for (const char* text : {"ok", ""}) {
    Conn c;
    c.hold();
    c.intake.on_begin = [&](Exchange& x) {
      x.respond(200, "text/plain", Bytes::copy_of(text));
      return Plan{BodyPlan::kIgnore, 0};
    };
    const std::string size = std::to_string(std::string(text).size());
    EXPECT_EQ(c.talk("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
              "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: " + size +
                  "\r\n\r\n" + text);
  }
}

TEST(H1, ExpectIsMetBeforeTheBodyAndNotAfterAnAnswer) {
  Conn c;
  std::string head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  EXPECT_EQ(c.talk(head), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(c.talk("abc"), kOk);

  c.intake.plan.limit = 2;
  std::string too_big = c.talk(head);
  EXPECT_TRUE(too_big.starts_with("HTTP/1.1 413 ")) << too_big;
  EXPECT_NE(too_big.find("connection: close"), std::string::npos);
  EXPECT_TRUE(c.h1->finished());
  EXPECT_EQ(c.intake.wholes, 1u);

  Conn early;
  early.intake.on_begin = [](Exchange& x) {
    x.respond(401, "", {});
    return Plan{};
  };
  std::string no = early.talk(head);
  EXPECT_EQ(no, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_TRUE(early.h1->finished());

  Conn other;
  EXPECT_TRUE(other.talk("POST / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n").starts_with("HTTP/1.1 417 "));
}

TEST(H1, AContinueWaitsForItsTurn) {
  Conn c;
  c.hold();
  c.feed(get() + "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(c.out(), "");
  c.intake.open[0]->respond(200, "", {});
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
}

TEST(H1, AnEarlyAnswerDiscardsASmallBodyAndKeepsTheConnection) {
  Conn c;
  c.intake.on_begin = [&c](Exchange& x) {
    if (c.intake.begun == 1) x.respond(404, "", {});
    return Plan{};
  };
  EXPECT_EQ(c.talk("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe"),
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(c.talk("llo" + get()), kOk);
  EXPECT_EQ(c.intake.wholes, 1u);
  EXPECT_EQ(c.intake.closes, 2u);
}

// The body of the first request has waited for memory and is discarded; the end of its answer comes when the parser is
// at another request, of which it has refused the head.
TEST(H1, TheEndOfAnEarlyAnswerDoesNotAskForAnothersBody) {
  for (bool refused : {true, false}) {
    Conn c;
    c.hold();
    c.slabs.empty = true;
    c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    Exchange* first = c.intake.open.at(0);
    first->head({});
    c.wait(1s);
    c.slabs.empty = false;
    c.feed("llo");
    if (refused)
      c.feed("GET / HTTP/1.1\r\nHost: a\r\nConnection: =\r\n\r\n");
    else
      c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
    first->end();
    const std::string out = c.out(), ended = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    EXPECT_TRUE(out.starts_with(refused ? ended + "HTTP/1.1 400 " : ended)) << out;
    EXPECT_EQ(c.h1->finished(), refused);
  }
}

TEST(H1, AnEarlyAnswerToALargeBodyClosesTheConnection) {
  Conn c;
  c.intake.on_begin = [](Exchange& x) {
    x.respond(404, "", {});
    return Plan{};
  };
  EXPECT_EQ(c.talk("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n"),
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_TRUE(c.h1->finished());
  Conn chunked;
  chunked.intake.on_begin = c.intake.on_begin;
  chunked.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_FALSE(chunked.h1->finished());
  for (int i = 0; i < 5; ++i) chunked.talk("10000\r\n" + std::string(0x10000, 'x') + "\r\n");
  EXPECT_TRUE(chunked.h1->finished());
}

TEST(H1, AnEarlyAnswerToALargeStreamedBodySaysThatItCloses) {
  Conn c;
  Heard heard;
  auto with = [&](std::string fields, uint64_t length) {
    c.stream(heard);
    c.feed("POST / HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: " + std::to_string(length) + "\r\n\r\nx");
    c.intake.open.back()->respond(404, "", {});
    return c.out();
  };
  EXPECT_EQ(with("", 5), "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  c.feed("1234");
  EXPECT_FALSE(c.h1->finished());
  EXPECT_EQ(with("", 5000000), "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_TRUE(c.h1->finished());
}

// A service may answer a long request while it comes: with a head alone nothing is known of its end.
TEST(H1, AnAnswerThatBeginsInTheMiddleOfALargeStreamedBodyKeepsTheConnection) {
  Conn c;
  Heard heard;
  c.stream(heard);
  std::string body(300000, 'x');
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
  Exchange& x = *c.intake.open[0];
  x.head({});
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
  c.feed(body);
  x.end();
  EXPECT_EQ(c.out(), "0\r\n\r\n");
  EXPECT_FALSE(c.h1->finished());
}

TEST(H1, RefusedHeadsAreAnsweredInOrderAndEndTheConnection) {
  Conn c;
  c.hold();
  c.feed(get() + "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + get());
  EXPECT_EQ(c.intake.begun, 1u);
  EXPECT_EQ(c.intake.rejections, std::vector<std::string>{"framing_te"});
  EXPECT_EQ(c.out(), "");
  c.intake.open[0]->respond(200, "", {});
  EXPECT_EQ(
      c.out(),
      "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
      "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 39\r\nconnection: close\r\n\r\n"
      "{\"error\":\"ambiguous Transfer-Encoding\"}");
  EXPECT_TRUE(c.h1->finished());
}

TEST(H1, NothingBehindARefusedHeadIsParsed) {
  for (std::string bad : {
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\n\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;x=\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
           "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
       }) {
    support::for_each_split(bad, [&](size_t size) {
      Conn c;
      std::string out;
      support::feed_in_pieces(bad + get("/smuggled"), size, [&](auto piece) {
        c.h1->feed(piece);
        out += c.out();
      });
      EXPECT_TRUE(out.starts_with("HTTP/1.1 400 ")) << bad << out;
      EXPECT_EQ(out.find("HTTP/1.1", 5), std::string::npos) << bad;
      EXPECT_NE(out.find("connection: close\r\n"), std::string::npos);
      EXPECT_NE(out.find("\r\n\r\n{\"error\":\""), std::string::npos);
      EXPECT_TRUE(c.h1->finished()) << bad;
      EXPECT_LE(c.intake.begun, 1u) << bad;
      EXPECT_EQ(c.intake.wholes, 0u) << bad;
      EXPECT_EQ(c.intake.begun, c.intake.closes);
    });
  }
}

TEST(H1, TrailersOfARequestAreDropped) {
  Conn c;
  c.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n");
  ASSERT_EQ(c.intake.wholes, 1u);
  EXPECT_EQ(c.intake.seen[0].fields.size(), 2u);
}

TEST(H1, ChunksThatAreMostlyOverheadAreRefused) {
  Conn c;
  std::string out = c.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), flood;
  for (int i = 0; i < 1000; ++i) flood += "1\r\nz\r\n";
  size_t fed = 0;
  while (out.empty() && fed < 3000000) out = c.talk(flood), fed += flood.size();
  EXPECT_TRUE(out.starts_with("HTTP/1.1 400 "));
  EXPECT_GT(fed, 300000u);
  EXPECT_LT(fed, 1000000u);
}

TEST(H1, AnEndlessChunkExtensionOrTrailerIsBounded) {
  for (std::string begin : {"5;", "0\r\nx: ", "000000000000000000"}) {
    Conn c;
    std::string out = c.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + begin);
    for (int i = 0; i < 40 && out.empty(); ++i) out = c.talk(std::string(1000, '0'));
    EXPECT_TRUE(out.starts_with("HTTP/1.1 400 ")) << begin;
    EXPECT_TRUE(c.h1->finished());
  }
}

TEST(H1, OfALastChunkAndItsTrailers16KiBAreWaitedFor) {
  Conn c;
  const std::string begin = "0\r\nx: ";
  EXPECT_EQ(c.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + begin), "");
  EXPECT_EQ(c.talk(std::string((16 << 10) - begin.size(), 'y')), "");
  EXPECT_TRUE(c.talk("y").starts_with("HTTP/1.1 400 "));
}

TEST(H1, WhatHasComeOfABodyGoesWithItsConnection) {
  Conn c;
  const std::string request = post(std::string(200'000, 'x'));
  const size_t before = support::heap_in_use();
  c.feed(std::string_view(request).substr(0, 100'000));
  if (support::heap_in_use() == 0) GTEST_SKIP() << "a sanitizer's malloc";
  EXPECT_GT(support::heap_in_use(), before + 90'000);
  c.h1->closed();
  EXPECT_LT(support::heap_in_use(), before + 40'000) << "though its codec goes later";
}

TEST(H1, BodiesBeyondTheLimitAre413) {
  Conn c;
  c.intake.plan.limit = 10;
  EXPECT_TRUE(c.talk(post("0123456789a")).starts_with("HTTP/1.1 413 "));
  Conn chunked;
  chunked.intake.plan.limit = 10;
  std::string out =
      chunked.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n");
  EXPECT_TRUE(out.starts_with("HTTP/1.1 413 "));
  EXPECT_EQ(chunked.intake.wholes, 0u);
  Conn fits;
  fits.intake.plan.limit = 10;
  EXPECT_EQ(fits.talk(post("0123456789")), kOk);
}

TEST(H1, CodedBodiesAreInflatedUpToTheLimit) {
  Conn c;
  EXPECT_EQ(c.talk(post(gzip("hello"), "Content-Encoding: gzip\r\n")), kOk);
  EXPECT_EQ(c.intake.seen[0].body, "hello");
  c.feed(post(gzip(std::string(1 << 20, 'x')), "Content-Encoding: gzip\r\n"));
  c.h1->tick(c.wire.now());
  EXPECT_TRUE(c.out().starts_with("HTTP/1.1 413 "));
  Conn corrupt;
  EXPECT_TRUE(corrupt.talk(post("not gzip", "Content-Encoding: gzip\r\n")).starts_with("HTTP/1.1 400 "));
  Conn unknown;
  std::string out = unknown.talk(post("x", "Content-Encoding: br\r\n"));
  EXPECT_TRUE(out.starts_with("HTTP/1.1 415 "));
  EXPECT_NE(out.find("accept-encoding: gzip, deflate\r\n"), std::string::npos);
}

TEST(H1, ResponsesAreCompressedForThoseWhoTakeIt) {
  Conn c;
  c.intake.on_whole = [](Exchange& x) {
    x.respond(200, "text/plain", Bytes::adopt(std::string(5000, 'x')), Exchange::Compress::kIfAccepted);
  };
  std::string out = c.talk("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
  EXPECT_NE(out.find("content-encoding: gzip\r\n"), std::string::npos);
  EXPECT_NE(out.find("vary: accept-encoding\r\n"), std::string::npos);
  Bytes body;
  auto coded = std::string_view(out).substr(out.find("\r\n\r\n") + 4);
  EXPECT_EQ(inflate_whole(Coding::kGzip, std::as_bytes(std::span(coded)), {}, base::heap(), &body), Inflate::kDone);
  EXPECT_EQ(body.view(), std::string(5000, 'x'));
  EXPECT_EQ(c.talk(get()).find("content-encoding"), std::string::npos);
}

TEST(H1, WithoutASlabThePeerWaits) {
  Conn c;
  c.slabs.empty = true;
  c.feed(post("hello") + get("/next"));
  EXPECT_FALSE(c.h1->wants_read());
  EXPECT_EQ(c.out(), "");
  c.wait(60s);
  EXPECT_EQ(c.out(), "");
  EXPECT_EQ(c.intake.wholes, 0u);
  c.slabs.empty = false;
  c.h1->tick(c.wire.now());
  EXPECT_EQ(c.out(), kOk + kOk);
  EXPECT_EQ(c.intake.seen[0].body, "hello");
  EXPECT_TRUE(c.h1->wants_read());

  c.slabs.empty = true;
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
  EXPECT_FALSE(c.h1->wants_read());
  c.slabs.empty = false;
  c.h1->tick(c.wire.now());
  EXPECT_TRUE(c.h1->wants_read());
  EXPECT_EQ(c.talk("cdef"), kOk);
  EXPECT_EQ(c.intake.seen[2].body, "abcdef");
}

TEST(H1, StreamedBodiesReachTheReaderAndHoldThePeerBack) {
  Conn c;
  c.limits.stream_window = 1000;
  Heard heard;
  c.stream(heard);
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(c.h1->wants_read());
  c.feed("3e8\r\n" + std::string(1000, 'x') + "\r\n");
  EXPECT_EQ(heard.data.size(), 1000u);
  EXPECT_FALSE(c.h1->wants_read());
  c.wait(60s);
  int calls = c.wire.output_calls;
  c.intake.open[0]->consume(500);
  EXPECT_TRUE(c.h1->wants_read());
  EXPECT_GT(c.wire.output_calls, calls);
  c.feed("0\r\n\r\n");
  EXPECT_EQ(heard.ends, 1);
  c.intake.open[0]->respond(200, "", {});
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(heard.closes, 1);
}

TEST(H1, TrailersGoOutToThoseWhoAskForThem) {
  Conn c;
  c.hold();
  for (std::string te : {"", "TE: trailers\r\n"}) {
    c.feed("GET / HTTP/1.1\r\nHost: a\r\n" + te + "\r\n");
    Exchange& x = *c.intake.open[0];
    x.head({});
    Fields trailers;
    trailers.add("x-sum", "1");
    trailers.add("content-length", "7");
    x.end(std::move(trailers));
    EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" +
                           std::string(te.empty() ? "" : "x-sum: 1\r\n") + "\r\n");
  }
}

TEST(H1, ChunkExtensionsAreIgnoredUpToABound) {
  auto chunked = [](std::string extension) {
    return "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3" + extension + "\r\nabc\r\n0" +
           extension + "\r\n\r\n";
  };
  for (const char* fine : {";x", ";x=1", " ; x = \"a;b\\\"\"", ";a;b=c;d=\"\"", ";x=\"\t\""}) {
    support::for_each_split(chunked(fine), [&](size_t size) {
      Conn c;
      support::feed_in_pieces(chunked(fine), size, [&](auto bytes) { c.h1->feed(bytes); });
      EXPECT_EQ(c.out(), kOk) << fine << size;
      EXPECT_EQ(c.intake.seen.at(0).body, "abc");
    });
  }
  for (std::string bad : {";x=\"\n\"", ";x\n", ";x\r", ";", ";x=", ";=y", ";x=\"y", "x", " "}) {
    Conn c;
    EXPECT_TRUE(c.talk(chunked(bad) + get("/never")).starts_with("HTTP/1.1 400 ")) << bad;
    EXPECT_EQ(c.intake.wholes, 0u) << bad;
  }
  Conn c;
  EXPECT_TRUE(c.talk(chunked(";x=" + std::string(17 << 10, 'y'))).starts_with("HTTP/1.1 400 "));
  Conn many;
  std::string body;
  for (int i = 0; i < 40; ++i) body += "1;x=" + std::string(500, 'y') + "\r\na\r\n";
  EXPECT_TRUE(many.talk("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
                  .starts_with("HTTP/1.1 400 "));
}

}  // namespace
TEST(H1, ALongCodedBodyIsInflatedOverTurnsAndThePeerWaits) {
  Conn c;
  c.limits.inflate_ratio = 10'000;
  std::string text(5 << 20, 'a');
  c.feed(post(gzip(text), "Content-Encoding: gzip\r\n") + get());
  EXPECT_FALSE(c.h1->wants_read());
  int ticks = 0;
  for (; std::exchange(c.wire.tick_wanted, false); ++ticks) {
    EXPECT_EQ(c.intake.wholes, 0u);
    ASSERT_LT(ticks, 100);
    c.h1->tick(c.wire.now());
  }
  EXPECT_GE(size_t(ticks), text.size() / kInflateSlice - 1);
  EXPECT_TRUE(c.intake.seen[0].body == text);
  EXPECT_EQ(c.out(), kOk + kOk);
  EXPECT_TRUE(c.h1->wants_read());
}

}  // namespace weir::wire
