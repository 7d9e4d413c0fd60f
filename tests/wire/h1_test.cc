#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"
#include "support/split_feed.h"
#include "wire/codec.h"
#include "wire/coding.h"

namespace weir::wire {
namespace {

using base::Bytes;
using support::FakeIntake;
using support::FakeSlabs;
using support::FakeWire;
using support::Heard;
using support::RecordingReader;
using support::take_output;
using namespace std::chrono_literals;

struct Conn {
  FakeWire wire;
  FakeIntake intake;
  FakeSlabs slabs;
  Limits limits;
  PeerInfo peer{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env{intake, slabs, limits};
  std::unique_ptr<Codec> h1 = make_h1(env, wire, peer);

  void feed(std::string_view text) { support::feed(*h1, text); }
  std::string out() { return take_output(*h1); }
  std::string talk(std::string_view text) {
    feed(text);
    return out();
  }
  void wait(base::Duration by) {
    for (base::Duration t = 1s; t <= by; t += 1s) {
      wire.env.advance(1s);
      h1->tick(wire.now());
    }
  }
  // Requests are left to the test to answer.
  void hold() {
    intake.on_whole = [](Exchange&) {};
  }
  void stream(Heard& heard) {
    intake.on_begin = [&heard](Exchange& x) {
      x.attach(std::make_unique<RecordingReader>(heard));
      return Plan{BodyPlan::kStream, 64 << 20};
    };
  }
};

const std::string kOk = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
std::string get(std::string target = "/") { return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"; }
std::string post(std::string body, std::string fields = "") {
  return "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + fields + "\r\n" +
         body;
}
Response with_status(int status) {
  Response r;
  r.status = status;
  return r;
}
std::string gzip(std::string_view text) {
  Bytes piece = Bytes::copy_of(text);
  return std::string(deflate(Coding::kGzip, std::span(&piece, 1)).view());
}

TEST(H1, ARequestIsTakenApartAndAnswered) {
  Conn c;
  EXPECT_EQ(c.talk("POST http://a:1/p?q=1 HTTP/1.1\r\nHOST: a:1\r\nX-Thing:  v w \r\nContent-Length: 5\r\n\r\nhello"),
            kOk);
  ASSERT_EQ(c.intake.seen.size(), 1u);
  const auto& r = c.intake.seen[0];
  EXPECT_EQ(r.method, "POST");
  EXPECT_EQ(r.target, "/p?q=1");
  EXPECT_EQ(r.authority, "a:1");
  EXPECT_EQ(r.body, "hello");
  EXPECT_EQ(r.content_length, 5);
  ASSERT_EQ(r.fields.size(), 3u);
  EXPECT_EQ(r.fields[1], std::pair(std::string("x-thing"), std::string("v w")));
  EXPECT_EQ(c.intake.closes, 1u);
  EXPECT_TRUE(c.h1->idle());
  EXPECT_FALSE(c.h1->finished());
}

TEST(H1, PipelinedRequestsAreTheSameHoweverTheyAreSplit) {
  std::string transcript =
      get("/1") + post("abc") +
      "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n"
      "0\r\nTrailer: x\r\n\r\n" +
      "POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + "\r\n" +
      "HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n" + post(gzip("zipped"), "Content-Encoding: gzip\r\n") +
      "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  support::for_each_split(transcript, [&](size_t size) {
    Conn c;
    std::string out;
    support::feed_in_pieces(transcript, size, [&](auto piece) {
      c.h1->feed(piece);
      out += c.out();
    });
    ASSERT_EQ(c.intake.seen.size(), 7u) << size;
    std::string bodies;
    for (auto& s : c.intake.seen) bodies += s.target + "=" + s.body + " ";
    EXPECT_EQ(bodies, "/1= /p=abc /c=abc0123456789 /e= /h= /p=zipped /last= ") << size;
    std::string head_only = kOk.substr(0, kOk.size() - 2), last = kOk;
    last.insert(last.find("\r\n\r\n"), "\r\nconnection: close");
    EXPECT_EQ(out, kOk + kOk + kOk + kOk + head_only + kOk + last) << size;
    EXPECT_TRUE(c.h1->finished());
    EXPECT_EQ(c.intake.closes, 7u);
  });
}

TEST(H1, OutputMayBeTakenByteByByte) {
  Conn c;
  c.feed(get() + get() + get());
  EXPECT_EQ(take_output(*c.h1, 1), kOk + kOk + kOk);
  EXPECT_EQ(c.intake.closes, 3u);
}

TEST(H1, AnswersKeepTheOrderOfTheRequests) {
  Conn c;
  c.hold();
  c.feed(get("/1") + get("/2") + get("/3"));
  ASSERT_EQ(c.intake.open.size(), 3u);
  auto open = c.intake.open;
  open[2]->respond(200, "", Bytes::copy_of("three"));
  open[1]->head(with_status(201));
  open[1]->body(Bytes::copy_of("tw"));
  EXPECT_EQ(open[1]->backlog(), 2u);
  EXPECT_EQ(c.out(), "");
  open[0]->respond(200, "", Bytes::copy_of("one"));
  std::string first = c.out();
  EXPECT_EQ(first,
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
            "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\ntw\r\n");
  EXPECT_EQ(c.intake.closes, 1u);
  open[1]->body(Bytes::copy_of("o"));
  open[1]->end();
  EXPECT_EQ(c.out(), "1\r\no\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthree");
  EXPECT_EQ(c.intake.closes, 3u);
  EXPECT_GT(c.wire.output_calls, 0);
}

TEST(H1, AtMostSixteenRequestsWait) {
  Conn c;
  c.hold();
  std::string flood;
  for (int i = 0; i < 100; ++i) flood += get("/" + std::to_string(i));
  c.feed(flood);
  EXPECT_EQ(c.intake.begun, 16u);
  EXPECT_FALSE(c.h1->wants_read());
  size_t answered = 0;
  while (!c.intake.open.empty()) {
    c.intake.open.front()->respond(200, "", Bytes::copy_of(std::to_string(answered++)));
    c.out();
    EXPECT_LE(c.intake.open.size(), 16u);
  }
  EXPECT_EQ(answered, 100u);
  EXPECT_TRUE(c.h1->wants_read());
  EXPECT_TRUE(c.h1->idle());
}

TEST(H1, AFloodThatIsAnsweredAtOnceIsAnsweredWhole) {
  Conn c;
  std::string flood, answers;
  for (int i = 0; i < 1000; ++i) flood += get(), answers += kOk;
  EXPECT_EQ(c.talk(flood), answers);
}

TEST(H1, LargeBodiesAreNotCopied) {
  Conn c;
  c.hold();
  c.feed(get());
  Bytes big = Bytes::adopt(std::string(100000, 'x'));
  c.intake.open[0]->respond(200, "", big);
  std::array<iovec, 8> pieces;
  ASSERT_EQ(c.h1->pending(pieces), 2u);
  EXPECT_EQ(pieces[1].iov_base, big.data());
  EXPECT_EQ(c.intake.open[0]->backlog(), pieces[0].iov_len + 100000);
  EXPECT_EQ(c.out().size(), pieces[0].iov_len + 100000);
}

TEST(H1, PendingStaysInPlaceWhileMoreIsAppended) {
  Conn c;
  c.hold();
  c.feed(get());
  Exchange& x = *c.intake.open[0];
  x.head({});
  std::array<iovec, 8> pieces;
  ASSERT_EQ(c.h1->pending(pieces), 1u);
  std::string before(static_cast<char*>(pieces[0].iov_base), pieces[0].iov_len);
  for (int i = 0; i < 100; ++i) x.body(Bytes::adopt(std::string(999, char('a' + i % 26))));
  EXPECT_EQ(std::string_view(static_cast<char*>(pieces[0].iov_base), pieces[0].iov_len), before);
}

TEST(H1, OneSmallAnswerIsOnePiece) {
  Conn c;
  c.feed(get() + get());
  std::array<iovec, 8> pieces;
  EXPECT_EQ(c.h1->pending(pieces), 1u);
}

TEST(H1, DrainIsHeardWhenTheBacklogFalls) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get());
  Exchange& x = *c.intake.open[0];
  x.head({});
  for (int i = 0; i < 5; ++i) x.body(Bytes::adopt(std::string(100000, 'x')));
  EXPECT_GT(x.backlog(), Exchange::kLowWater);
  c.h1->consumed(100000);
  EXPECT_EQ(heard.drains, 0);
  c.h1->consumed(200000);
  EXPECT_EQ(heard.drains, 1);
  c.out();
  EXPECT_EQ(heard.drains, 1);
  x.end();
  EXPECT_EQ(heard.closes, 0);
  EXPECT_EQ(c.out(), "0\r\n\r\n");
  EXPECT_EQ(heard.closes, 1);
  EXPECT_TRUE(heard.complete);
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

TEST(H1, Http10GetsNoChunksAndIsClosed) {
  Conn c;
  c.hold();
  c.feed("GET / HTTP/1.0\r\n\r\n");
  Exchange& x = *c.intake.open[0];
  x.head({});
  x.body(Bytes::copy_of("abc"));
  x.end();
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc");
  EXPECT_TRUE(c.h1->finished());
  Conn keep;
  std::string answer = keep.talk("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(answer.find("connection: keep-alive\r\n"), std::string::npos);
  EXPECT_FALSE(keep.h1->finished());
}

TEST(H1, HeadAndBodilessStatusesHaveNoBody) {
  Conn c;
  c.hold();
  c.feed("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get() + get());
  auto open = c.intake.open;
  open[0]->respond(200, "", Bytes::copy_of("abc"));
  open[1]->respond(204, "", Bytes::copy_of("abc"));
  open[2]->respond(304, "", {});
  EXPECT_EQ(c.out(),
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
            "HTTP/1.1 304 Not Modified\r\n\r\n");
}

TEST(H1, NoServiceCanForgeAField) {
  Conn c;
  c.hold();
  c.feed(get());
  Response r;
  r.fields.add("x", "a\r\nset-cookie: b");
  r.fields.add("connection", "upgrade");
  r.fields.add("transfer-encoding", "gzip");
  c.intake.open[0]->standing().add("x-request-id", "7");
  c.intake.open[0]->respond(std::move(r), Bytes::copy_of("z"));
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\nx: a  set-cookie: b\r\ncontent-length: 1\r\nx-request-id: 7\r\n\r\nz");
}

TEST(H1, AnAnswerShorterThanAnnouncedEndsTheConnection) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed(get());
  Response r;
  r.fields.add("content-length", "5");
  c.intake.open[0]->head(std::move(r));
  c.intake.open[0]->body(Bytes::copy_of("abc"));
  c.intake.open[0]->end();
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc");
  EXPECT_TRUE(c.h1->finished());
  EXPECT_EQ(heard.closes, 1);
  EXPECT_FALSE(heard.complete);
}

TEST(H1, AnAnswerLongerThanAnnouncedIsCut) {
  Conn c;
  c.hold();
  c.feed(get());
  Response r;
  r.fields.add("content-length", "2");
  c.intake.open[0]->head(std::move(r));
  c.intake.open[0]->body(Bytes::copy_of("abc"));
  c.intake.open[0]->body(Bytes::copy_of("d"));
  c.intake.open[0]->end();
  EXPECT_EQ(c.out(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab");
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
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n",
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
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;x\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
           "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
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
  EXPECT_TRUE(c.talk(post(gzip(std::string(1 << 20, 'x')), "Content-Encoding: gzip\r\n")).starts_with("HTTP/1.1 413 "));
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
  c.intake.on_closed = [&](Exchange& x) { reject = x.ledger().reject; };
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
  for (int i = 0; i < 25 && !c.h1->finished(); ++i) {
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
