// The memory of answers: charged, bounded, refused in words, and given back by time; HTTP/1 and HTTP/2.
#include "wire/answer_flow.h"
#include "wire/long_answer.h"

#include <gtest/gtest.h>

#include "h1_fixture.h"
#include "support/counted_slabs.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "support/sizes.h"
#include "wire/router.h"

namespace weir::wire {
namespace {

using base::MemoryKind;
using base::Overload;
using support::CountedSlabs;

struct H1Conn {
  explicit H1Conn(uint64_t budget) : slabs(budget) {}
  std::string talk(std::string_view text) {
    support::feed(*h1, text);
    return take_output(*h1);
  }
  void wait(base::Duration by) {
    for (base::Duration t = 1s; t <= by; t += 1s) {
      wire.env.advance(1s);
      h1->tick(wire.now());
    }
  }

  FakeWire wire;
  FakeIntake intake;
  CountedSlabs slabs;
  Limits limits;
  PeerInfo peer{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env{intake, slabs, limits};
  std::unique_ptr<Codec> h1 = make_h1(env, wire, peer);
};

struct H2Conn {
  explicit H2Conn(uint64_t budget) : slabs(budget) { server.restart({server.intake, slabs, server.limits}); }
  CountedSlabs slabs;
  test::Server server;
  test::Client client{uint32_t(1) << 30};
};

// Counts up, so that pieces that are lost or doubled show.
class Numbers final : public TextSource {
 public:
  explicit Numbers(int most) : most_(most) {}
  static std::string all(int most) {
    std::string out;
    for (int i = 0; i < most; ++i) out += std::to_string(i) += ',';
    return out;
  }
  bool write(std::string& out, size_t target) override {
    while (next_ < most_ && out.size() < target) out += std::to_string(next_++) += ',';
    return next_ < most_;
  }
  uint64_t held() const override { return 1000; }

 private:
  int most_, next_ = 0;
};

class PiecesListener final : public ExchangeListener {
 public:
  PiecesListener(Exchange& x, int most) : answer_(x) {
    status = answer_.start("text/plain", Exchange::Compress::kNever, std::make_unique<Numbers>(most));
  }
  void on_drain(Exchange&) override { answer_.drained(); }
  void on_close(Exchange&, bool) override {}
  uint64_t held_for_answer() const override { return answer_.held(); }
  base::Status status;

 private:
  PiecewiseAnswer answer_;
};

void answer_in_pieces(Exchange& x, int most) {
  auto reader = std::make_unique<PiecesListener>(x, most);
  base::Status status = reader->status;
  x.attach(std::move(reader));
  if (!status.ok()) respond_error(x, 503, status.text);
}

std::string unchunked(std::string_view text) {
  std::string out;
  for (;;) {
    size_t end = text.find("\r\n"), n = std::stoul(std::string(text.substr(0, end)), nullptr, 16);
    if (n == 0) return out;
    out += text.substr(end + 2, n);
    text.remove_prefix(end + 2 + n + 2);
  }
}

TEST(AnswerMemory, IsChargedUntilTheSocketHasTaken) {
  H1Conn c(kMiB);
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(500'000, 'x'))); };
  support::feed(*c.h1, get());
  EXPECT_EQ(c.slabs.memory.held(MemoryKind::kAnswers), 500'000u);
  EXPECT_GT(take_output(*c.h1).size(), 500'000u);
  EXPECT_EQ(c.slabs.memory.held(), 0u);
}

TEST(AnswerMemory, AnAnswerThatWouldPassTheTotalIs503) {
  H1Conn c(kMiB);
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(2 * kMiB, 'x'))); };
  std::string out = c.talk(get());
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(out.find("retry-after: 1"), out.npos);
  EXPECT_NE(out.find("there is no memory for the answer"), out.npos);
  EXPECT_EQ(c.slabs.memory.held(), 0u);

  H2Conn h2(kMiB);
  h2.server.intake.on_whole = c.intake.on_whole;
  int32_t id = h2.client.request(test::kGet);
  h2.client.talk(h2.server);
  EXPECT_EQ(h2.client[id].status(), "503");
  EXPECT_EQ(h2.client[id].field("retry-after"), "1");
}

TEST(AnswerMemory, ABodyForWhichThereNeverIsRoomIsNotWorthAnotherTry) {
  H1Conn c(kMiB);
  for (const uint64_t most : {900'000u, 2'000'000u}) {
    base::Status status;
    c.intake.on_whole = [&](Exchange& x) {
      EXPECT_TRUE(x.memory()->take(MemoryKind::kSlabs, 500'000));
      auto body = write_body(x, most, [] { return Bytes(); });
      x.memory()->give(MemoryKind::kSlabs, 500'000);
      if (!body) status = body.error();
      x.respond(200, "a/b", {});
    };
    c.talk(get());
    const bool ever = most < kMiB;
    EXPECT_EQ(status.code, ever ? base::Code::kResourceExhausted : base::Code::kOutOfRange) << most;
  }
}

TEST(AnswerMemory, AStreamThatCannotGoOnIsCutAndNotKept) {
  H2Conn h2(kMiB);
  h2.server.intake.on_whole = [](Exchange& x) {
    x.head({});
    x.body(Bytes::adopt(std::string(600'000, 'a')));
    x.body(Bytes::adopt(std::string(600'000, 'b')));
  };
  int32_t id = h2.client.request(test::kGet);
  h2.client.talk(h2.server);
  EXPECT_TRUE(h2.client[id].reset);
  EXPECT_EQ(h2.slabs.memory.held(), 0u);
}

TEST(AnswerMemory, AStreamOfSmallPiecesThatNobodyReadsIsCharged) {
  H1Conn c(kMiB);
  H2Conn h2(kMiB);
  auto events = [](Exchange& x) {
    x.head({});
    for (int i = 0; i < 5000; ++i) x.body(Bytes::adopt(std::string(100, 'e')));
  };
  c.intake.on_whole = h2.server.intake.on_whole = events;
  support::feed(*c.h1, get());
  EXPECT_GE(c.slabs.memory.held(MemoryKind::kAnswers), 400'000u);
  (void)take_output(*c.h1);
  EXPECT_EQ(c.slabs.memory.held(), 0u);
  c.slabs.memory.add(MemoryKind::kInput, kMiB);
  c.h1->closed();

  std::string up = h2.client.output();
  (void)h2.client.request(test::kGet);
  up += h2.client.output();
  h2.server.feed(up);
  EXPECT_GE(h2.slabs.memory.held(MemoryKind::kAnswers), 400'000u);
  h2.client.input(h2.server.take());
  h2.client.talk(h2.server);
  EXPECT_EQ(h2.slabs.memory.held(), 0u);

  H2Conn full(kMiB);
  full.slabs.memory.add(MemoryKind::kInput, kMiB - 100'000);
  full.server.intake.on_whole = events;
  int32_t id = full.client.request(test::kGet);
  full.client.talk(full.server);
  EXPECT_TRUE(full.client[id].reset) << "nobody reads it, and there is no room";
}

TEST(AnswerMemory, ManyPiecesHoldLittleForASlowReaderAndComeOutWhole) {
  constexpr int kMost = 2'000'000;
  const std::string all = Numbers::all(kMost);
  ASSERT_GT(all.size(), 13 * kMiB);
  H1Conn c(64 * kMiB);
  c.intake.on_whole = [](Exchange& x) { answer_in_pieces(x, kMost); };
  support::feed(*c.h1, get());
  std::string out;
  uint64_t most = 0;
  std::array<iovec, 4> pieces;
  while (size_t n = c.h1->pending(pieces)) {
    most = std::max(most, c.slabs.memory.held());
    size_t some = std::min<size_t>(pieces[0].iov_len, 50'000);
    out.append(static_cast<const char*>(pieces[0].iov_base), some);
    c.h1->consumed(some);
    ASSERT_GT(n, 0u);
  }
  EXPECT_LT(most, 2 * kMiB);
  size_t head = out.find("\r\n\r\n") + 4;
  EXPECT_NE(out.substr(0, head).find("transfer-encoding: chunked"), out.npos);
  EXPECT_TRUE(unchunked(std::string_view(out).substr(head)) == all);
  EXPECT_EQ(c.slabs.memory.held(), 0u);

  H2Conn h2(64 * kMiB);
  h2.server.intake.on_whole = c.intake.on_whole;
  int32_t id = h2.client.request(test::kGet);
  h2.client.talk(h2.server, 0, 50'000);
  EXPECT_TRUE(h2.client[id].body == all);
  EXPECT_TRUE(h2.client[id].ended);
}

TEST(AnswerMemory, WhatFitsAtOnceHasItsLength) {
  H1Conn c(64 * kMiB);
  c.intake.on_whole = [](Exchange& x) { answer_in_pieces(x, 1000); };
  std::string out = c.talk(get());
  EXPECT_NE(out.find("content-length: " + std::to_string(Numbers::all(1000).size())), out.npos);
  EXPECT_NE(out.find("0,1,2,"), out.npos);
}

// Others have taken all that there is, but for what has begun: it goes on in small steps.
TEST(AnswerMemory, AnAnswerInPiecesComesToItsEndWithoutRoom) {
  constexpr int kMost = 400'000;
  H1Conn c(4 * kMiB);
  c.intake.on_whole = [](Exchange& x) { answer_in_pieces(x, kMost); };
  support::feed(*c.h1, get());
  ASSERT_TRUE(c.slabs.memory.take(MemoryKind::kSessions, kMiB));
  c.slabs.memory.add(MemoryKind::kInput, 8 * kMiB);
  std::string out = take_output(*c.h1, 10'000);
  EXPECT_TRUE(unchunked(std::string_view(out).substr(out.find("\r\n\r\n") + 4)) == Numbers::all(kMost));

  c.h1 = make_h1(c.env, c.wire, c.peer);
  out = c.talk(get());
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 503") << "and none is begun";
}

TEST(AnswerMemory, WhereItIsScarceWhoHoldsMuchMustTakeItSwiftly) {
  auto slow = [](bool scarce) {
    H1Conn c(256 * kMiB);
    c.slabs.is_scarce = scarce;
    c.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(60 * kMiB, 'x'))); };
    support::feed(*c.h1, get());
    std::array<iovec, 2> pieces;
    for (int i = 0; i < 30 && c.h1->pending(pieces) > 0; ++i) {
      c.h1->consumed(std::min<size_t>(pieces[0].iov_len, 20'000));  // bytes a second
      c.wait(1s);
    }
    return c.slabs.memory.held(MemoryKind::kAnswers);
  };
  EXPECT_GT(slow(false), 0u) << "where there is enough, 20 KB/s is well";
  EXPECT_EQ(slow(true), 0u) << "60 MiB must go in a minute";
}

TEST(AnswerMemory, Http2StreamsAreHeldToTheSameRate) {
  auto slow = [](bool scarce) {
    H2Conn h2(256 * kMiB);
    h2.slabs.is_scarce = scarce;
    h2.server.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(60 * kMiB, 'x'))); };
    test::Client narrow(65535);
    int32_t id = narrow.request(test::kGet);
    nghttp2_session_set_local_window_size(narrow.session, 0, 0, 1 << 30);
    std::string up = narrow.output();
    h2.server.feed(up);
    (void)h2.server.take();  // the stream's first window; it gives no more
    for (int i = 0; i < 8; ++i) {
      h2.server.advance(1s);
      (void)h2.server.take();
    }
    (void)id;
    return h2.slabs.memory.held(MemoryKind::kAnswers);
  };
  EXPECT_GT(slow(false), 0u) << "ten seconds of grace";
  EXPECT_EQ(slow(true), 0u);
}

TEST(Overloaded, ConnectionsEndWithTheirAnswers) {
  H1Conn c(100 * kMiB);
  EXPECT_EQ(c.talk(get()).find("connection: close"), std::string::npos);
  c.slabs.memory.add(MemoryKind::kInput, 65 * kMiB);
  c.wait(1s);
  EXPECT_NE(c.talk(get()).find("connection: close"), std::string::npos);
  EXPECT_TRUE(c.h1->finished());
}

TEST(Overloaded, IdleConnectionsEndSoon) {
  H1Conn c(100 * kMiB);
  (void)c.talk(get());
  c.wait(10s);
  EXPECT_FALSE(c.h1->finished());
  c.slabs.memory.add(MemoryKind::kInput, 65 * kMiB);
  c.wait(3s);
  EXPECT_TRUE(c.h1->finished());
}

TEST(Overloaded, Http2WindowsShrinkAndGrowAgain) {
  H2Conn h2(100 * kMiB);
  h2.client.talk(h2.server);
  EXPECT_EQ(nghttp2_session_get_remote_window_size(h2.client.session), int32_t(h2.server.limits.conn_window));
  h2.slabs.memory.add(MemoryKind::kInput, 55 * kMiB);
  H2Conn fresh(100 * kMiB);
  fresh.slabs.memory.add(MemoryKind::kInput, 55 * kMiB);
  fresh.slabs.memory.update_overload();
  fresh.server.restart({fresh.server.intake, fresh.slabs, fresh.server.limits});
  fresh.client.talk(fresh.server);
  EXPECT_EQ(nghttp2_session_get_remote_window_size(fresh.client.session), 65535) << "of a connection that comes now";

  h2.server.advance(1s);
  h2.server.intake.on_begin = [](Exchange&) { return Plan{BodyPlan::kIgnore}; };
  (void)h2.client.request(test::kPost, std::string(8 * kMiB, 'x'));
  h2.client.talk(h2.server);
  EXPECT_LT(nghttp2_session_get_remote_window_size(h2.client.session), int32_t(9 * kMiB))
      << "what the peer has used is not given again";
  h2.slabs.memory.give(MemoryKind::kInput, 55 * kMiB);
  h2.server.advance(1s);
  (void)h2.client.request(test::kPost, std::string(100'000, 'x'));
  h2.client.talk(h2.server);
  EXPECT_GT(nghttp2_session_get_remote_window_size(h2.client.session), int32_t(15 * kMiB));
}

TEST(InputMemory, WhatWaitsForASlabIsChargedAndRefusedBeyondTheTotal) {
  H2Conn h2(kMiB);
  h2.slabs.empty = true;
  int32_t small = h2.client.request(test::kPost, std::string(100'000, 's'), true);
  h2.client.talk(h2.server);
  EXPECT_GE(h2.slabs.memory.held(MemoryKind::kInput), 100'000u);
  int32_t large = h2.client.request(test::kPost, std::string(900'000, 'l'), true);
  h2.client.talk(h2.server);
  EXPECT_EQ(h2.client[large].status(), "503");
  EXPECT_EQ(h2.client[small].status(), "") << "still waits";
  h2.slabs.empty = false;
  h2.server.advance(1s);
  constexpr uint64_t kTwoHeads = 2 * 4096 + (16u << 10);  // HPACK's tables, and the first step of the heads' charge
  EXPECT_EQ(h2.slabs.memory.held(MemoryKind::kInput), kTwoHeads) << "it has its slab";
  h2.client.more(small, "", true);
  h2.client.talk(h2.server);
  EXPECT_EQ(h2.client[small].status(), "200");
}

TEST(InputMemory, ARetryInVainWakesNobody) {
  H2Conn h2(kMiB);
  int woken = 0;
  h2.slabs.memory.on_room([&] { ++woken; });
  h2.slabs.empty = true;
  (void)h2.client.request(test::kPost, std::string(100'000, 's'), true);
  h2.client.talk(h2.server);
  for (int i = 0; i < 5; ++i) {
    h2.slabs.memory.note_refused();  // as a pool does that has nothing
    h2.server.advance(1s);
  }
  EXPECT_EQ(woken, 0);
  EXPECT_GE(h2.slabs.memory.held(MemoryKind::kInput), 100'000u);
  h2.slabs.empty = false;
  h2.server.advance(1s);
  EXPECT_EQ(woken, 1) << "now there is room";
}

}  // namespace
}  // namespace weir::wire
