// HTTP/2: answers that are whole before their request is.
#include "base/memory_ledger.h"
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

struct TakesNothing final : wire::ExchangeListener {
  void on_close(Exchange&, bool) override {}
};

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
  s.advance(4s);
  c.talk(s);
  EXPECT_FALSE(c[id].reset);
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

// Java's HttpClient and httpx look at no answer before all of their body is sent.
TEST(H2, ALargeBodyMayComeBehindItsAnswerAndIsNotKept) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, text_of(8 << 20), true);
  c.talk(s);
  EXPECT_EQ(c[id].body, "no");
  EXPECT_GT(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  s.advance(4s);
  c.more(id, text_of(8 << 20), true);
  c.talk(s);
  EXPECT_FALSE(c[id].reset);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_GT(nghttp2_session_get_remote_window_size(c.session), 8 << 20);
  EXPECT_EQ(c.request(kPost, "x"), 3);
  c.talk(s);
  EXPECT_EQ(c[3].body, "no");
}

// The window that a service had not opened when it answered is opened then.
TEST(H2, ABodyThatFilledItsWindowBeforeTheAnswerGoesOnBehindIt) {
  Server s;
  wire::Exchange* asked = nullptr;
  s.intake.on_begin = [&](Exchange& x) {
    asked = &x;
    x.attach(std::make_unique<TakesNothing>());
    return wire::Plan{wire::BodyPlan::kStream, 0};
  };
  Client c;
  int32_t id = c.request(kPost, text_of(3 << 20), true);
  c.talk(s);
  EXPECT_EQ(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  asked->respond(404, "text/plain", Bytes::copy_of("no"));
  c.talk(s);
  EXPECT_EQ(c[id].body, "no");
  c.more(id, "", true);
  c.talk(s);
  EXPECT_FALSE(c[id].reset);
  EXPECT_GT(nghttp2_session_get_remote_window_size(c.session), 8 << 20);
}

TEST(H2, ABodyBehindItsAnswerGoesOnWhenMemoryIsNoLongerShort) {
  base::MemoryLedger ledger(100'000, 0, base::OverloadShares());
  Server s;
  s.slabs.memory = &ledger;
  s.restart();
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, {}, true);
  c.talk(s);
  ledger.add(base::MemoryKind::kInput, 75'000);
  s.advance(100ms);
  ASSERT_TRUE(ledger.at_least(base::Overload::kShrink));
  c.more(id, text_of(3 << 20));
  c.talk(s);
  EXPECT_EQ(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  ledger.give(base::MemoryKind::kInput, 75'000);
  s.advance(100ms);
  c.talk(s);
  EXPECT_GT(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  c.more(id, "", true);
  c.talk(s);
  s.advance(5s);
  c.talk(s);
  EXPECT_FALSE(c[id].reset);
}

TEST(H2, ABodyBehindItsAnswerIsResetPastItsBoundOfBytes) {
  Server s;
  s.limits.body = 1 << 20;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, text_of(16 << 20), true);
  c.talk(s);
  s.advance(1s);
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_GT(nghttp2_session_get_remote_window_size(c.session), 8 << 20);
}

TEST(H2, OfABodyThatIsAnnouncedAsTooLargeNoMoreThanAWindowComesBehindItsAnswer) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(with(kPost, {{"content-length", "1000000000"}}), text_of(8 << 20), true);
  c.talk(s);
  EXPECT_EQ(c[id].body, "no");
  EXPECT_EQ(nghttp2_session_get_stream_remote_window_size(c.session, id), 0);
  s.advance(1s);
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  // The connection's window is open for others.
  EXPECT_GT(nghttp2_session_get_remote_window_size(c.session), 8 << 20);
}

TEST(H2, ABodyBehindItsAnswerIsResetAfterAWhileHoweverItComes) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, "x", true);
  c.talk(s);
  for (int i = 0; i < 29; ++i) {
    s.advance(1s);
    c.more(id, "x");
    c.talk(s);
    ASSERT_FALSE(c[id].reset) << i;
  }
  s.advance(1s);
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
}

// A client may wait in the stream that was reset: what it hears of its connection's end ends that.
TEST(H2, AConnectionIsNotIdleForLongBehindABodyThatWasReset) {
  Server s;
  answer_404_at_once(s);
  Client c;
  c.request(with(kPost, {{"content-length", "1000000000"}}), text_of(100), true);
  c.talk(s);
  s.advance(1s);
  c.talk(s);
  EXPECT_FALSE(s.codec->finished());
  s.advance(2s);
  c.talk(s);
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2, ABusyConnectionIsToldToGoAWhileBehindABodyThatWasReset) {
  Server s;
  s.intake.on_begin = [](Exchange& x) {
    if (x.request().content_length > 0) x.respond(404, "text/plain", Bytes::copy_of("no"));
    return wire::Plan{wire::BodyPlan::kWhole, 1 << 20};
  };
  Client c;
  c.request(with(kPost, {{"content-length", "1000000000"}}), text_of(100), true);
  c.talk(s);
  const int32_t open = c.request(kPost, "a", true);
  for (int i = 0; i < 35; ++i) {
    s.advance(1s);
    c.more(open, text_of(2000));
    c.talk(s);
    ASSERT_FALSE(s.codec->finished()) << i;
  }
  EXPECT_FALSE(c.goaways.empty());
}

// Some clients end all streams of a connection that is told to go.
TEST(H2, AStreamThatWasThereWhenABodyWasResetGoesOn) {
  Server s;
  s.intake.on_begin = [](Exchange& x) {
    if (x.request().content_length > 0) x.respond(404, "text/plain", Bytes::copy_of("no"));
    return wire::Plan{wire::BodyPlan::kWhole, 1 << 20};
  };
  Client c;
  const int32_t open = c.request(kPost, "a", true);
  c.talk(s);
  c.request(with(kPost, {{"content-length", "1000000000"}}), text_of(100), true);
  c.talk(s);
  for (int i = 0; i < 35; ++i) {
    s.advance(1s);
    c.more(open, text_of(2000));
    c.talk(s);
  }
  EXPECT_TRUE(c.goaways.empty());
}

TEST(H2, ADrainWaitsOnlyAMomentForABodyBehindItsAnswer) {
  Server s;
  answer_404_at_once(s);
  Client c;
  int32_t id = c.request(kPost, "x", true);
  c.talk(s);
  s.codec->drain(wire::Drain::kRefuse);
  s.advance(1s);
  c.more(id, "x");
  c.talk(s);
  EXPECT_EQ(c[id].reset, NGHTTP2_NO_ERROR);
  EXPECT_TRUE(s.codec->finished());
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
