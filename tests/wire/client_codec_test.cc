// The client's codecs: HTTP/2 against the server's codec and against frames by hand, HTTP/1.1 against bytes.
#include "wire/client_codec.h"

#include <deque>
#include <functional>

#include "support/client_codec.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "support/split_feed.h"

namespace weir::test {
namespace {

using support::feed, support::output_of, support::talk;
using wire::ClientAnswer;
using wire::ClientCodec;
using wire::ClientRequest;
using wire::Exchange;
using wire::Fields;

struct Recorded final : ClientAnswer {
  int status = 0, ends = 0;
  Headers fields, trailers;
  std::string body;
  base::Status failure;
  size_t takes = SIZE_MAX;  // bytes of a piece that are dealt with at once
  std::function<void()> at_end;

  static Headers list(const Fields& fields) {
    Headers out;
    for (size_t i = 0; i < fields.size(); ++i) out.emplace_back(fields[i].name, fields[i].value);
    return out;
  }
  void on_head(int its_status, const Fields& its_fields) override { status = its_status, fields = list(its_fields); }
  size_t on_body(std::span<const std::byte> piece) override {
    body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return std::min(takes, piece.size());
  }
  void on_end(const Fields& its_trailers) override {
    ++ends, trailers = list(its_trailers);
    if (at_end) at_end();
  }
  void on_failed(const base::Status& why) override { ++ends, failure = why; }
  bool good() const { return ends == 1 && failure.ok(); }
};

ClientRequest post_of(std::string body, std::string target = "/p") {
  ClientRequest request{"POST", "http", "h", std::move(target), {}, base::Bytes::adopt(std::move(body))};
  request.fields.add("content-type", "text/plain");
  return request;
}

// --- HTTP/2 ----------------------------------------------------------------------------------------------------------

TEST(H2Client, ManyRequestsShareAConnectionHoweverItsBytesAreCut) {
  for (size_t piece : {0, 1, 7}) {
    Server server;
    auto codec = wire::make_h2_client();
    std::deque<Recorded> answers(20);
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_TRUE(codec->has_room());
      codec->send(post_of(text_of(i * 1000)), answers[i]);
    }
    server.intake.on_whole = [](Exchange& x) {
      wire::Response response;
      response.fields.add("content-type", "application/grpc");
      x.head(std::move(response));
      x.body(x.content());
      Fields trailers;
      trailers.add("grpc-status", "0");
      x.end(std::move(trailers));
    };
    talk(*codec, server, piece);
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers[i].good()) << answers[i].failure.text;
      EXPECT_EQ(answers[i].status, 200);
      EXPECT_EQ(answers[i].fields, (Headers{{"content-type", "application/grpc"}}));
      EXPECT_EQ(answers[i].body, text_of(i * 1000));
      EXPECT_EQ(answers[i].trailers, (Headers{{"grpc-status", "0"}}));
    }
    EXPECT_EQ(server.intake.seen.at(0).authority, "h");
    EXPECT_EQ(server.intake.seen.at(0).target, "/p");
    EXPECT_TRUE(codec->idle());
    EXPECT_FALSE(codec->finished());
  }
}

TEST(H2Client, AnAnswersEndMaySendTheNextRequest) {
  Server server;
  auto codec = wire::make_h2_client();
  Recorded first, second;
  first.at_end = [&] { codec->send(post_of("two"), second); };
  codec->send(post_of("one"), first);
  talk(*codec, server);
  EXPECT_TRUE(first.good());
  EXPECT_TRUE(second.good());
}

TEST(H2Client, MoreStreamsThanTheServerAllowsWaitForRoom) {
  wire::Limits limits;
  limits.streams = 2;
  Server server(limits);
  server.intake.on_whole = [](Exchange&) {};  // answers later
  auto codec = wire::make_h2_client();
  Recorded one, two;
  talk(*codec, server);
  codec->send(post_of("1"), one);
  EXPECT_TRUE(codec->has_room());
  codec->send(post_of("2"), two);
  EXPECT_FALSE(codec->has_room());
  talk(*codec, server);
  ASSERT_EQ(server.intake.open.size(), 2u);
  server.intake.open[0]->respond(200, "text/plain", base::Bytes::constant("ok"));
  talk(*codec, server);
  EXPECT_TRUE(codec->has_room());
}

TEST(H2Client, LargeBodiesGoBothWaysThroughTheWindows) {
  Server server;
  auto codec = wire::make_h2_client();
  const std::string large = text_of(10'000'000);
  Recorded answer;
  codec->send(post_of(large), answer);
  server.intake.on_whole = [](Exchange& x) { x.respond(200, "text/plain", x.content()); };
  talk(*codec, server);
  EXPECT_TRUE(answer.good()) << answer.failure.text;
  EXPECT_EQ(answer.body.size(), large.size());
  EXPECT_TRUE(answer.body == large);
}

TEST(H2Client, ABodyInPiecesIsOneBody) {
  for (size_t size : {1u, 100u, 4095u, 5000u, 300'000u}) {
    Server server;
    auto codec = wire::make_h2_client();
    ClientRequest request = post_of(text_of(size));
    std::string whole = text_of(size);
    for (size_t more : {size_t(3), size, size_t(7), size_t(70'000)}) {
      request.more.push_back(base::Bytes::adopt(text_of(more)));
      whole += text_of(more);
    }
    Recorded answer;
    codec->send(request, answer);
    server.intake.on_whole = [](Exchange& x) { x.respond(200, "text/plain", x.content()); };
    talk(*codec, server);
    EXPECT_TRUE(answer.good()) << answer.failure.text;
    EXPECT_TRUE(answer.body == whole);
  }
}

TEST(H2Client, WhoDoesNotConsumeIsNotSentMoreThanAWindow) {
  Server server;
  auto codec = wire::make_h2_client();
  Recorded slow, other;
  slow.takes = 0;
  codec->send(post_of("x"), slow);
  const std::string large = text_of(20'000'000);
  server.intake.on_whole = [&](Exchange& x) { x.respond(200, "text/plain", base::Bytes::constant(large)); };
  talk(*codec, server);
  const size_t held = slow.body.size();
  EXPECT_LT(held, 5'000'000u);
  EXPECT_EQ(slow.ends, 0);
  codec->send(post_of("y"), other);
  talk(*codec, server);
  EXPECT_TRUE(other.good()) << "one that is slow holds nobody else up";
  slow.takes = SIZE_MAX;
  codec->consume(slow, held);
  talk(*codec, server);
  EXPECT_TRUE(slow.good());
  EXPECT_TRUE(slow.body == large);
}

TEST(H2Client, ACancelledAnswerHearsNothingAndItsStreamIsReset) {
  Server server;
  server.intake.on_whole = [](Exchange&) {};
  auto codec = wire::make_h2_client();
  Recorded answer;
  codec->send(post_of("x"), answer);
  talk(*codec, server);
  codec->cancel(answer);
  talk(*codec, server);
  EXPECT_EQ(answer.ends, 0);
  EXPECT_TRUE(server.intake.open.empty());
  EXPECT_TRUE(codec->idle());
}

TEST(H2Client, ADrainingServerFinishesWhatRunsAndTakesNoMore) {
  Server server;
  server.intake.on_whole = [](Exchange&) {};
  auto codec = wire::make_h2_client();
  Recorded answer;
  codec->send(post_of("x"), answer);
  talk(*codec, server);
  server.codec->drain(wire::Drain::kAnnounce);
  server.codec->drain(wire::Drain::kRefuse);
  talk(*codec, server);
  EXPECT_TRUE(codec->finished());
  EXPECT_FALSE(codec->has_room());
  EXPECT_FALSE(codec->idle());
  server.intake.open.at(0)->respond(200, "text/plain", base::Bytes::constant("ok"));
  talk(*codec, server);
  EXPECT_TRUE(answer.good()) << answer.failure.text;
}

// A server's frames by hand, after its SETTINGS.
struct Frames {
  std::unique_ptr<ClientCodec> codec = wire::make_h2_client();
  Recorded answer;
  Frames() {
    feed(*codec, frame(4, 0, 0, ""));
    codec->send(post_of("x"), answer);
    output_of(*codec);
  }
  void give(const std::string& bytes) {
    feed(*codec, bytes);
    output_of(*codec);
  }
};

TEST(H2Client, ResetsAreFailuresWithTheirReason) {
  for (auto [code, expected] : {std::pair{7u, base::Code::kUnavailable},
                                {8u, base::Code::kCancelled},
                                {11u, base::Code::kResourceExhausted},
                                {2u, base::Code::kUnavailable}}) {
    Frames rig;
    rig.give(frame(3, 0, 1, u32(code)));
    EXPECT_EQ(rig.answer.ends, 1);
    EXPECT_EQ(rig.answer.failure.code, expected) << code;
    EXPECT_FALSE(rig.codec->finished()) << "the connection goes on";
  }
}

TEST(H2Client, WhatIsNotHttp2FailsEveryRequestOnce) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string(4000, '\xff'), frame(0, 0, 0, "data of no stream"),
        frame(5, 4, 1, u32(2)), frame(1, 4, 1, "\xff\xff\xff\xff\xff\xff\xff\xff"), frame(6, 0, 0, "short")}) {
    Frames rig;
    rig.give(bytes);
    rig.give(bytes);
    EXPECT_EQ(rig.answer.ends, 1) << bytes.substr(0, 20);
    EXPECT_EQ(rig.answer.failure.code, base::Code::kUnavailable);
    EXPECT_TRUE(rig.codec->finished());
    EXPECT_TRUE(rig.codec->idle());
    rig.codec->closed(base::failure(base::Code::kUnavailable, "closed"));
    EXPECT_EQ(rig.answer.ends, 1);
  }
}

TEST(H2Client, FieldsWithoutAnEndAreRefused) {
  Frames rig;
  const Headers early{{":status", "103"}, {"link", std::string(100, 'x')}};
  for (int i = 0; i < 1000 && rig.answer.ends == 0; ++i) rig.give(frame(1, kEndHeaders, 1, block(early)));
  EXPECT_EQ(rig.answer.failure.code, base::Code::kResourceExhausted);
}

TEST(H2Client, SpacesAroundAValueAreNoPartOfIt) {
  Frames rig;
  rig.give(frame(1, kEndHeaders, 1, block({{":status", "200"}, {"note", " spaced "}})));
  rig.give(frame(1, kEndHeaders | kEndStream, 1, block({{"grpc-status", "0"}, {"last", "word "}})));
  EXPECT_TRUE(rig.answer.good()) << rig.answer.failure.text;
  EXPECT_EQ(rig.answer.fields, (Headers{{"note", "spaced"}}));
  EXPECT_EQ(rig.answer.trailers, (Headers{{"grpc-status", "0"}, {"last", "word"}}));
}

TEST(H2Client, AnEndWithoutAHeadIsNoAnswer) {
  Frames rig;
  rig.give(frame(1, kEndHeaders, 1, block({{":status", "200"}, {"content-length", "9"}})));
  rig.give(frame(0, kEndStream, 1, "short"));
  EXPECT_EQ(rig.answer.ends, 1);
  EXPECT_FALSE(rig.answer.failure.ok()) << "shorter than its length";
}

TEST(H2Client, AFloodOfPingsIsNotAnsweredForEver) {
  Frames rig;
  std::string pings;
  for (int i = 0; i < 5000; ++i) pings += frame(6, 0, 0, "12345678");
  feed(*rig.codec, pings);
  output_of(*rig.codec);
  EXPECT_TRUE(rig.codec->finished());
  EXPECT_EQ(rig.answer.ends, 1);
}

TEST(H2Client, AClosedConnectionFailsWhatIsOpen) {
  Frames rig;
  rig.codec->closed(base::failure(base::Code::kUnavailable, "gone"));
  EXPECT_EQ(rig.answer.failure.text, "gone");
  EXPECT_EQ(output_of(*rig.codec), "");
}

// --- HTTP/1.1 --------------------------------------------------------------------------------------------------------

TEST(H1Client, RequestAfterRequestOverOneConnection) {
  auto codec = wire::make_h1_client();
  const std::string down = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok";
  for (size_t cut = 0; cut <= down.size(); ++cut) {
    Recorded answer;
    ASSERT_TRUE(codec->has_room());
    codec->send(post_of("body"), answer);
    EXPECT_FALSE(codec->has_room());
    EXPECT_EQ(output_of(*codec),
              "POST /p HTTP/1.1\r\nhost: h\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\nbody");
    feed(*codec, std::string_view(down).substr(0, cut));
    feed(*codec, std::string_view(down).substr(cut));
    EXPECT_TRUE(answer.good()) << cut;
    EXPECT_EQ(answer.body, "ok");
    EXPECT_EQ(answer.fields, (Headers{{"content-length", "2"}, {"x-a", "b"}}));
  }
}

TEST(H1Client, WhatIsSaidBeforeTheAnswerIsPassedOver) {
  auto codec = wire::make_h1_client();
  Recorded answer;
  codec->send(post_of("x"), answer);
  feed(*codec, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(answer.good() && answer.body == "ok");
}

TEST(H1Client, AConnectionThatCannotGoOnIsFinished) {
  for (const char* down : {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                           "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n"}) {
    auto codec = wire::make_h1_client();
    Recorded answer;
    codec->send(post_of("x"), answer);
    feed(*codec, down);
    EXPECT_TRUE(answer.good()) << down;
    EXPECT_TRUE(codec->finished()) << down;
    EXPECT_FALSE(codec->has_room());
  }
}

TEST(H1Client, ABodyToTheEndIsWholeAtTheEndAndAnotherOneIsNot) {
  for (auto [down, good] :
       {std::pair{"HTTP/1.1 200 OK\r\n\r\nall", true}, {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", false}}) {
    auto codec = wire::make_h1_client();
    Recorded answer;
    codec->send(post_of("x"), answer);
    feed(*codec, down);
    EXPECT_EQ(answer.ends, 0);
    codec->closed(base::failure(base::Code::kUnavailable, "gone"));
    EXPECT_EQ(answer.good(), good);
    EXPECT_EQ(answer.body, "all");
  }
}

TEST(H1Client, WhoDoesNotConsumeHoldsTheServerBack) {
  auto codec = wire::make_h1_client();
  Recorded answer;
  answer.takes = 0;
  codec->send(post_of("x"), answer);
  feed(*codec, "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + std::string(1'500'000, 'x'));
  EXPECT_FALSE(codec->wants_read());
  codec->consume(answer, 1'500'000);
  EXPECT_TRUE(codec->wants_read());
}

TEST(H1Client, WhatIsNotHttpAndWhatNobodyAskedForEndsTheConnection) {
  auto codec = wire::make_h1_client();
  Recorded answer;
  codec->send(post_of("x"), answer);
  feed(*codec, "SSH-2.0\r\n\r\n");
  EXPECT_EQ(answer.failure.text, "the answer is not HTTP/1.1: its status line");
  EXPECT_TRUE(codec->finished());
  auto quiet = wire::make_h1_client();
  feed(*quiet, "HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_TRUE(quiet->finished());
}

TEST(H1Client, ACancelledAnswerHearsNothing) {
  auto codec = wire::make_h1_client();
  Recorded answer;
  codec->send(post_of("x"), answer);
  feed(*codec, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nal");
  codec->cancel(answer);
  feed(*codec, "l of it");
  codec->closed(base::failure(base::Code::kUnavailable, "gone"));
  EXPECT_EQ(answer.ends, 0);
}

}  // namespace
}  // namespace weir::test
