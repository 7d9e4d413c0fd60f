// HTTP/2: answers that are whole before their request is.
#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;
using namespace std::chrono_literals;

void answer_404_at_once(Server& s) {
  s.intake.on_begin = [](Exchange& x) {
    x.respond(404, "text/plain", Bytes::copy_of("no"));
    return wire::Plan{};
  };
}

TEST(H2, AnAnswerBeforeTheRequestIsCompleteEndsWithResetNoErrorAfterAMoment) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, text_of(100), true);
  c.talk(s);
  EXPECT_EQ(c[id].status(), "404");
  EXPECT_EQ(c[id].body, "no");
  EXPECT_TRUE(c[id].ended);
  EXPECT_FALSE(c[id].reset);
  EXPECT_EQ(s.intake.wholes, 0u);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_TRUE(s.codec->idle());
  s.advance(1s);
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  EXPECT_FALSE(s.codec->finished());
}

// gRPC's C core tells its user of the trailers once the stream is closed both ways.
TEST(H2, ACallOfGrpcThatEndsBeforeItsRequestIsResetAtOnce) {
  for (const char* type : {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    Server s;
    answer_404_at_once(s);
    Client c;
    int32_t id = c.request(with(kPost, {{"content-type", type}}), text_of(100), true);
    c.talk(s);
    EXPECT_TRUE(c[id].ended) << type;
    EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR) << type;
  }
}

TEST(H2, WhatOnlyBeginsLikeGrpcIsNoCallOfGrpc) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(with(kPost, {{"content-type", "application/grpc-web"}}), text_of(100), true);
  c.talk(s);
  EXPECT_TRUE(c[id].ended);
  EXPECT_FALSE(c[id].reset);
}

// curl 7.88 forgets an answer whose reset comes before it has sent its body.
TEST(H2, TheRestOfASmallBodyMayComeBehindItsAnswer) {
  for (size_t size : {1u, 100u, 60'000u}) {
    Server s;
    answer_404_at_once(s);
    Client c;
    for (int i = 0; i < 300; ++i) {
      int32_t id = c.request(kPost, {}, true);
      c.talk(s);
      c.more(id, text_of(size), true);
      c.talk(s);
      EXPECT_EQ(c[id].body, "no");
      ASSERT_FALSE(c[id].reset) << i;
    }
    s.advance(5s);
    c.talk(s);
    EXPECT_EQ(s.intake.closes, 300u);
    EXPECT_TRUE(c.goaways.empty());
    EXPECT_EQ(c.request(kPost, "x"), 601);
    c.talk(s);
    EXPECT_EQ(c[601].body, "no");
  }
}

TEST(H2, OfALargeBodyBehindItsAnswerNoMoreThanAWindowComes) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, text_of(8 << 20), true);
  c.talk(s);
  EXPECT_EQ(c[id].body, "no");
  EXPECT_EQ(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  s.advance(1s);
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  // The connection's window is open for others.
  EXPECT_GT(nghttp2_session_get_remote_window_size(c.session), 8 << 20);
}

// It has no room for the length of its padding, and ends its connection.
TEST(H2, ARequestDoesNotEndWithAFrameThatIsBroken) {
  Server s;
  s.feed(opening() + post(1) + frame(0, kEndStream | kPadded, 1, ""));
  EXPECT_EQ(s.intake.wholes, 0u);
  s.take();
  EXPECT_TRUE(s.codec->finished());
}

}  // namespace
}  // namespace weir::test
