// The memory of request heads and of small WebSocket messages: charged, given back, refused in the protocol's form; and
// busy HTTP/2 connections that are sent away where memory is short.
#include <gtest/gtest.h>

#include "base/clients.h"
#include "base/fake_env.h"
#include "h1_fixture.h"
#include "support/counted_slabs.h"
#include "support/h2_client.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

using base::MemoryKind;
using support::CountedSlabs;

constexpr uint64_t kBudget = 1 << 20;

struct OneConn {
  explicit OneConn(CountedSlabs& s) : slabs(s) {}
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
  CountedSlabs& slabs;
  Limits limits;
  PeerInfo peer{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env{intake, slabs, limits};
  std::unique_ptr<Codec> h1 = make_h1(env, wire, peer);
};

struct ManyStreams {
  explicit ManyStreams(CountedSlabs& s) : slabs(s) {
    server.restart({server.intake, slabs, server.limits});
    server.intake.on_whole = [this](Exchange& x) { open.push_back(&x); };
  }
  ~ManyStreams() { server.codec->closed(); }
  int32_t ask(size_t head, std::string_view type = {}) {
    test::Headers fields = test::kGet;
    for (size_t i = 0; i < head / 4000; ++i) fields.emplace_back("x-long-" + std::to_string(i), std::string(4000, 'h'));
    if (!type.empty()) fields.emplace_back("content-type", type);
    int32_t id = client.request(fields);
    client.talk(server);
    return id;
  }
  void answer() {
    for (Exchange* x : open) x->respond(200, "a/b", {});
    open.clear();
    client.talk(server);
  }
  CountedSlabs& slabs;
  test::Server server;
  test::Client client{uint32_t(1) << 30};
  std::vector<Exchange*> open;
};

std::string long_get(size_t field) {
  return "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + std::string(field, 'h') + "\r\n\r\n";
}

TEST(HeadMemory, OfInputThatWaitedIsGivenBackOnceItIsRead) {
  CountedSlabs slabs(kBudget);
  OneConn c(slabs);
  c.intake.on_whole = [](Exchange&) {};
  std::string many;
  for (int i = 0; i < 200; ++i) many += long_get(1000);
  support::feed(*c.h1, many);
  EXPECT_GT(slabs.ledger()->held(MemoryKind::kInput), 100'000u) << "requests behind those that are allowed at once";
  c.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", {}); };
  while (!c.intake.open.empty()) c.intake.open.front()->respond(200, "a/b", {}), take_output(*c.h1);
  c.wait(4s);
  EXPECT_EQ(c.intake.wholes, 200u);
  EXPECT_EQ(slabs.ledger()->held(MemoryKind::kInput), 0u);
}

TEST(HeadMemory, OfOrdinaryRequestsIsFree) {
  CountedSlabs slabs(kBudget);
  OneConn c(slabs);
  c.intake.on_whole = [](Exchange&) {};
  support::feed(*c.h1, get());
  ManyStreams h2(slabs);
  h2.ask(0);
  EXPECT_EQ(slabs.memory.held(), 0u);
  c.h1->closed();
}

TEST(HeadMemory, IsChargedWhileTheRequestIsOpen) {
  CountedSlabs slabs(kBudget);
  OneConn c(slabs);
  Exchange* open = nullptr;
  c.intake.on_whole = [&](Exchange& x) { open = &x; };
  support::feed(*c.h1, long_get(12'000));
  EXPECT_GE(slabs.memory.held(MemoryKind::kInput), 12'000u);
  open->respond(200, "a/b", {});
  EXPECT_NE(take_output(*c.h1), "");
  c.wait(4s);
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST(HeadMemory, BytesOfAHeadThatIsNotWholeAreCharged) {
  CountedSlabs slabs(kBudget);
  OneConn c(slabs);
  std::string head = long_get(15'000);
  support::feed(*c.h1, head.substr(0, 10'000));
  EXPECT_GE(slabs.memory.held(MemoryKind::kInput), 10'000u);
  c.h1->closed();
  c.h1.reset();
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST(HeadMemory, WithoutRoomARequestIs503AndNobodyElseIsHurt) {
  CountedSlabs slabs(kBudget);
  slabs.memory.add(MemoryKind::kSlabs, kBudget);
  OneConn whole(slabs), part(slabs), other(slabs);
  std::string out = whole.talk(long_get(12'000));
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(out.find("retry-after: 1"), out.npos);
  EXPECT_NE(out.find("there is no memory for the request's head"), out.npos);
  EXPECT_EQ(part.talk(long_get(15'000).substr(0, 10'000)).substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(other.talk(get()).substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(slabs.memory.held(), kBudget);
}

TEST(HeadMemory, OfStreamsIsChargedTogetherAndComesBack) {
  CountedSlabs slabs(16 * kBudget);
  ManyStreams h2(slabs);
  for (int i = 0; i < 50; ++i) h2.ask(12'000);
  ASSERT_EQ(h2.open.size(), 50u);
  const uint64_t held = slabs.memory.held(MemoryKind::kInput);
  EXPECT_GE(held, 50 * 12'000u);
  EXPECT_LE(held, 2 * 50 * 12'000u);
  h2.answer();
  EXPECT_LT(slabs.memory.held(), held / 2) << "what is kept for the next requests is small";
  h2.server.advance(2s);
  EXPECT_EQ(slabs.memory.held(), 0u);
}

// More requests in one read than one turn begins, and behind them frames of a type that nobody knows.
std::string more_than_a_helping(const Limits& limits) {
  constexpr uint8_t kUnknown = 0xfa;
  std::string out = test::opening();
  for (uint32_t i = 0; i <= limits.requests_per_read; ++i) out += test::get(2 * i + 1);
  for (int i = 0; i < 4; ++i) out += test::frame(kUnknown, 0, 0, std::string(15'000, 'x'));
  return out;
}

TEST(HeadMemory, WhatOneTurnDoesNotDigestIsCharged) {
  CountedSlabs slabs(kBudget);
  ManyStreams h2(slabs);
  h2.server.feed(more_than_a_helping(h2.server.limits));
  const uint64_t held = slabs.memory.held(MemoryKind::kInput);
  EXPECT_GE(held, 60'000u);
  h2.server.advance(1ms);
  h2.server.take();
  constexpr uint64_t kStep = 16 << 10;  // in which heads are charged: those of the second helping may begin one
  EXPECT_LE(slabs.memory.held(MemoryKind::kInput), held - 60'000 + kStep) << "only the heads are left";
  h2.server.codec->closed();
  h2.server.codec.reset();
  EXPECT_EQ(slabs.memory.held(MemoryKind::kInput), 0u);
  h2.server.restart();
}

TEST(HeadMemory, WithoutRoomForWhatItDoesNotDigestAConnectionEnds) {
  CountedSlabs slabs(kBudget);
  slabs.memory.add(MemoryKind::kSlabs, kBudget);
  ManyStreams h2(slabs);
  h2.server.feed(more_than_a_helping(h2.server.limits));
  EXPECT_TRUE(h2.server.codec->finished());
  EXPECT_FALSE(h2.server.codec->flooded());
  EXPECT_EQ(slabs.memory.held(MemoryKind::kInput), 0u);
}

// Each string of an Exchange keeps what it has grown to, whichever request that was.
TEST(HeadMemory, WhatIsKeptForTheNextRequestsIsChargedToo) {
  CountedSlabs slabs(16 * kBudget);
  ManyStreams h2(slabs);
  h2.ask(0);
  Exchange* stays = std::exchange(h2.open, {}).front();
  for (int i = 0; i < 40; ++i) h2.client.request(test::with(test::kGet, {{"cookie", std::string(3000, 'c')}}));
  h2.client.talk(h2.server);
  h2.answer();
  EXPECT_GE(slabs.memory.held(), 40 * 3000u);
  stays->respond(200, "a/b", {});
  h2.client.talk(h2.server);
  h2.server.advance(2s);
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST(HeadMemory, NothingIsKeptWhereMemoryIsShort) {
  CountedSlabs slabs(16 * kBudget);
  slabs.memory.add(MemoryKind::kSlabs, 9 * kBudget);
  slabs.memory.update_overload();
  ManyStreams h2(slabs);
  h2.ask(0);
  h2.open.clear();
  for (int i = 0; i < 40; ++i) h2.client.request(test::with(test::kGet, {{"cookie", std::string(3000, 'c')}}));
  h2.client.talk(h2.server);
  h2.answer();
  EXPECT_LT(slabs.memory.held(), 9 * kBudget + 40 * 3000);
}

TEST(HeadMemory, WithoutRoomAStreamIsRefusedInItsOwnForm) {
  CountedSlabs slabs(kBudget);
  ManyStreams h2(slabs);
  int32_t before = h2.ask(0);
  slabs.memory.add(MemoryKind::kSlabs, kBudget);
  int32_t plain = h2.ask(12'000), grpc = h2.ask(12'000, "application/grpc");
  EXPECT_EQ(h2.client[plain].status(), "503");
  EXPECT_EQ(h2.client[plain].field("retry-after"), "1");
  EXPECT_NE(h2.client[plain].body.find("there is no memory for the request's head"), std::string::npos);
  EXPECT_EQ(h2.client[grpc].status(), "200");
  EXPECT_EQ(h2.client[grpc].field("grpc-status"), "8");
  EXPECT_EQ(h2.open.size(), 1u) << "neither has reached a service";
  h2.answer();
  EXPECT_EQ(h2.client[before].status(), "200");
  EXPECT_EQ(slabs.memory.held(), kBudget);
}

TEST(HeadMemory, OneClientsHeadsLeaveHalfOfTheMemoryToOthers) {
  CountedSlabs slabs(16 * kBudget);
  base::FakeEnv env;
  base::Clients clients;
  BodyMemory::Need need;
  BodyMemory bodies(env, need, {.budget = 16 * kBudget});
  ManyStreams one(slabs), other(slabs);
  auto connect = [&](ManyStreams& h2, std::string_view name) {
    h2.server.peer.client = clients.enter(name, base::Client::Limited::kYes);
    CodecEnv its{h2.server.intake, slabs, h2.server.limits};
    its.bodies = &bodies;
    h2.server.limits.streams = 1000;
    h2.server.restart(its);
  };
  connect(one, "10.0.0.1"), connect(other, "10.0.0.2");
  int32_t last = 0;
  for (int i = 0; i < 900 && one.client[last].status().empty(); ++i) last = one.ask(12'000);
  EXPECT_EQ(one.client[last].status(), "503");
  EXPECT_NE(one.client[last].body.find("limits.client_share"), std::string::npos);
  EXPECT_LE(slabs.memory.held(), 8 * kBudget);
  for (int i = 0; i < 20; ++i) other.ask(12'000);
  EXPECT_EQ(other.open.size(), 20u);
  one.server.codec.reset();
  EXPECT_EQ(one.server.peer.client->held(base::Held::kSlabBytes), 0u);
  one.server.restart({one.server.intake, slabs, one.server.limits});
}

TEST(Overload, ABusyHttp2ConnectionIsSentAwayAndEndsWithItsLastAnswer) {
  CountedSlabs slabs(kBudget);
  ManyStreams h2(slabs);
  int32_t id = h2.ask(0);
  auto goaways = [](std::string_view bytes) {
    std::vector<uint32_t> last;
    for (const auto& f : test::frames_of(bytes))
      if (f.type == 7) last.push_back(uint8_t(f.payload[0]) << 24 | uint8_t(f.payload[3]));
    return last;
  };
  h2.server.advance(11s);
  EXPECT_EQ(goaways(h2.server.take()).size(), 0u);
  slabs.memory.add(MemoryKind::kSlabs, kBudget * 65 / 100);
  h2.server.advance(1s);
  std::string told = h2.server.take();
  EXPECT_EQ(goaways(told), std::vector<uint32_t>{uint32_t(0x7f) << 24 | 0xff});
  h2.client.input(told);
  h2.server.advance(1s);
  told = h2.server.take();
  EXPECT_EQ(goaways(told), std::vector<uint32_t>{uint32_t(id)});
  h2.client.input(told);
  EXPECT_FALSE(h2.server.codec->finished()) << "its answer is still to come";
  h2.answer();
  EXPECT_EQ(h2.client[id].status(), "200");
  EXPECT_TRUE(h2.server.codec->finished());
}

TEST(Overload, AYoungHttp2ConnectionStays) {
  CountedSlabs slabs(kBudget);
  ManyStreams h2(slabs);
  h2.ask(0);
  slabs.memory.add(MemoryKind::kSlabs, kBudget * 65 / 100);
  h2.server.advance(5s);
  for (const auto& f : test::frames_of(h2.server.take())) EXPECT_NE(f.type, 7);
}

class Mute final : public WebSocket::Side {
 public:
  void on_message(WebSocket::Kind, base::Bytes) override { ++messages; }
  bool full() override { return false; }
  void on_closing(uint16_t code) override { closing = code; }
  void write(base::Bytes) override {}
  int messages = 0, closing = 0;
};

// A masked text frame with a mask of zeros.
std::string text_frame(std::string_view text) {
  std::string out{char(0x81), char(0x80 | 126), char(text.size() >> 8), char(text.size() & 0xff)};
  return out.append(4, '\0').append(text);
}

TEST(WebSocketMemory, ASmallMessageIsChargedWhileItIsNotWhole) {
  CountedSlabs slabs(kBudget);
  Mute side;
  WebSocket socket(side, slabs, 100'000);
  std::string frame = text_frame(std::string(10'000, 'm'));
  auto feed = [&](std::string_view bytes) { return socket.feed(std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(feed(frame), frame.size());
  EXPECT_EQ(side.messages, 1);
  EXPECT_EQ(slabs.memory.held(), 0u);
  feed(std::string_view(frame).substr(0, 8000));
  EXPECT_GE(slabs.memory.held(MemoryKind::kInput), 7900u);
  feed(std::string_view(frame).substr(8000));
  EXPECT_EQ(side.messages, 2);
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST(WebSocketMemory, WithoutRoomItCloses) {
  CountedSlabs slabs(kBudget);
  slabs.memory.add(MemoryKind::kSlabs, kBudget);
  Mute small, aside;
  WebSocket first(small, slabs, 100'000), second(aside, slabs, 100'000);
  std::string frame = text_frame(std::string(10'000, 'm'));
  first.feed(std::as_bytes(std::span(frame).first(8000)));
  EXPECT_EQ(small.closing, close_code::kTryAgain);
  second.keep_aside(100'000);
  EXPECT_EQ(aside.closing, close_code::kTryAgain);
  EXPECT_EQ(slabs.memory.held(), kBudget);
}

}  // namespace
}  // namespace weir::wire
