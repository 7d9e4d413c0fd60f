// Requests and answers, in order and whole, whatever their pieces.
#include "h1_fixture.h"
#include "support/split_feed.h"
#include "wire/date.h"

namespace weir::wire {
namespace {

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

TEST(H1, ABacklogOfExactlyTheLowWaterMarkHasBeenAboveIt) {
  Conn c;
  Heard heard;
  c.stream(heard);
  c.feed("GET / HTTP/1.0\r\nHost: a\r\n\r\n");  // no chunks: every byte is known
  Exchange& x = *c.intake.open[0];
  x.head({});
  size_t head = x.backlog();
  x.body(Bytes::adopt(std::string(Exchange::kLowWater - head, 'x')));
  ASSERT_EQ(x.backlog(), Exchange::kLowWater);  // whoever repays below it does not now
  c.out();
  EXPECT_EQ(heard.drains, 1);
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

TEST(H1, ResponsesSayWhenTheyWereMade) {
  Conn c;
  HttpDate date(c.wire.env);
  c.env.date = &date;
  c.h1 = make_h1(c.env, c.wire, c.peer);
  auto at = [](std::string_view time) {
    return "HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 " + std::string(time) + " GMT\r\n" + kOk.substr(17);
  };
  EXPECT_EQ(c.talk(get()), at("22:30:00"));
  c.wire.env.advance(999ms);
  EXPECT_EQ(c.talk(get()), at("22:30:00"));
  c.wire.env.advance(1ms);
  EXPECT_EQ(c.talk(get()), at("22:30:01"));
  c.wire.env.advance(1500ms);
  EXPECT_EQ(c.talk(get()), at("22:30:02"));
  c.wire.env.advance(500ms);
  EXPECT_EQ(c.talk(get()), at("22:30:03"));
  EXPECT_EQ(date.value(), "Tue, 14 Nov 2023 22:30:03 GMT");
  // An answer of the codec's own has one, a 100 has none.
  c.hold();
  EXPECT_EQ(c.talk("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
            "HTTP/1.1 100 Continue\r\n\r\n");
  c.feed("x");
  c.intake.open[0]->respond(200, "", {});
  c.out();
  EXPECT_NE(c.talk("BAD\r\n\r\n").find("\r\ndate: Tue, 14 Nov 2023 22:30:03 GMT\r\n"), std::string::npos);
}

TEST(H1, NoServiceCanForgeAField) {
  Conn c;
  c.hold();
  c.feed(get());
  Response r;
  r.fields.add("x", "a\r\nset-cookie: b");
  r.fields.add("connection", "upgrade");
  r.fields.add("transfer-encoding", "gzip");
  c.intake.open[0]->extra_fields().add("x-request-id", "7");
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

}  // namespace
}  // namespace weir::wire
