// HTTP/2: what a client that does not take its answers holds, and for how long.
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "support/h2_client.h"
#include "support/h2_service.h"
#include "support/heap_in_use.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;
using namespace std::chrono_literals;

// A client whose streams have a window of so many bytes, and whose connection has a large one.
std::string narrow(uint32_t window) {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, std::string("\0\4", 2) + u32(window)) +
         frame(4, kAck, 0, "") + frame(8, 0, 0, u32(1 << 30));
}
std::string window(uint32_t stream, uint32_t bytes) { return frame(8, 0, stream, u32(bytes)); }

struct Closed {
  std::string why = "not closed";
  void watch(Server& s) {
    s.intake.on_closed = [this](Exchange& x) { why = std::string(x.record().reject); };
  }
};

// An empty DATA frame takes nothing of a window (RFC 9113 §6.9.1), nor do trailers.
TEST(H2, TheEndOfAnAnswerDoesNotWaitForAWindow) {
  for (bool trailers : {false, true}) {
    Closed closed;
    Server s;
    closed.watch(s);
    Exchange* x = nullptr;
    s.intake.on_whole = [&](Exchange& exchange) { x = &exchange; };
    s.feed(narrow(0) + get(1) + window(1, 5));
    ASSERT_NE(x, nullptr);
    x->head({});
    x->body(Bytes::copy_of("12345"));
    s.take();
    wire::Fields end;
    if (trailers) end.add("grpc-status", "0");
    x->end(std::move(end));
    const auto frames = frames_of(s.take());
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].type, trailers ? 1 : 0);
    EXPECT_TRUE(frames[0].flags & kEndStream);
    EXPECT_EQ(closed.why, "");
  }
}

// A byte that the window still holds up has its time, and no more.
TEST(H2, TheLastByteThatTheWindowHoldsUpHasItsTimeAndNoMore) {
  Closed closed;
  Server s;
  closed.watch(s);
  s.intake.on_whole = [&](Exchange& x) { x.respond(200, "a/b", Bytes::copy_of("123456")); };
  s.feed(narrow(0) + get(1) + window(1, 5));
  s.take();
  s.advance(9s);
  s.take();
  EXPECT_EQ(closed.why, "not closed");
  s.advance(3s);
  s.take();
  EXPECT_EQ(closed.why, "slow_read");
}

// The time in which it is the socket that does not go on is no stream's; but it does not begin anew after that.
TEST(H2, ASlowSocketDoesNotForgiveAStreamWithoutAWindow) {
  Closed closed;
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    x.respond(200, "a/b", Bytes::adopt(text_of(x.request().target == "/" ? 20 << 20 : 1000)));
  };
  const Headers small{{":method", "GET"}, {":scheme", "http"}, {":path", "/small"}, {":authority", "h"}};
  s.feed(narrow(0) + frame(1, kEndHeaders | kEndStream, 1, block(small)) + get(3) + window(3, 64 << 20));
  closed.watch(s);
  for (int second = 1; second <= 20 && closed.why == "not closed"; ++second) {
    if (second % 5 == 0) {
      std::array<iovec, 64> pieces;
      EXPECT_GT(s.codec->pending(pieces), 0u);  // and the socket takes none of it
    } else {
      s.write_once();
    }
    s.advance(1s);
  }
  EXPECT_EQ(closed.why, "slow_read");
}

// The window opens when the client has read half of it, which lies in the socket.
TEST(H2, AStreamWhoseWindowIsInASlowSocketWaitsForTheSocket) {
  for (size_t a_second : {size_t(40'000), size_t(500)}) {
    constexpr uint32_t kWindow = 3 << 20;
    Closed closed;
    Server s;
    s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(20 << 20))); };
    s.feed(narrow(kWindow) + get(1));
    closed.watch(s);
    for (int second = 0; second < 90 && closed.why == "not closed"; ++second) {
      s.wire.in_socket += s.take().size();
      s.advance(1s);
      s.wire.in_socket -= a_second;
      if (s.wire.in_socket > kWindow / 2) continue;
      s.feed(window(1, kWindow / 2));
    }
    EXPECT_EQ(s.intake.rejections, std::vector<std::string>(a_second == 500 ? 1 : 0, "slow_read"));
  }
}

// A client that has many answers at once through the window that HTTP/2 begins with, and takes so much a second.
struct Shared {
  explicit Shared(uint32_t streams) {
    server.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(20'000))); };
    server.intake.on_closed = [this](Exchange& x) { slow += x.record().reject == "slow_read"; };
    std::string all = opening();
    for (uint32_t i = 0; i < streams; ++i) all += get(2 * i + 1);
    server.feed(all);
  }
  void second(uint32_t bytes) {
    for (const Frame& f : frames_of(server.take())) {
      if (f.type == 0) unread.emplace_back(f.stream, uint32_t(f.payload.size())), ended += f.flags & kEndStream;
      others += f.type == 3 || f.type == 7;
    }
    std::string updates;
    while (bytes > 0 && !unread.empty()) {
      auto& [stream, left] = unread.front();
      const uint32_t n = std::min(left, bytes);
      updates += window(0, n);
      bytes -= n, left -= n;
      if (left == 0) unread.pop_front();
    }
    server.feed(updates);
    server.advance(1s);
  }
  Server server;
  std::deque<std::pair<uint32_t, uint32_t>> unread;
  int ended = 0, others = 0, slow = 0;
};

TEST(H2, StreamsThatShareASmallWindowWaitForEachOther) {
  Shared shared(40);
  for (int i = 0; i < 400 && shared.ended < 40; ++i) shared.second(3000);
  EXPECT_EQ(shared.ended, 40);
  EXPECT_EQ(shared.others, 0);
}

TEST(H2, AWindowOfTheConnectionThatStaysClosedEndsTheStreamsThatWaitForIt) {
  Shared shared(5);
  for (int i = 0; i < 9; ++i) shared.second(0);
  EXPECT_EQ(shared.ended, 3);
  EXPECT_EQ(shared.others, 0);
  for (int i = 0; i < 3; ++i) shared.second(0);
  EXPECT_EQ(shared.slow, 2);
  EXPECT_EQ(shared.others, 2);
  EXPECT_FALSE(shared.server.codec->finished()) << "what it has read is not to blame";
}

// An answer without a body needs no window, and says nothing of those that do.
TEST(H2, HeadsThatGoOutOpenNoWindow) {
  Shared shared(5);
  shared.server.intake.on_whole = [](Exchange& x) {
    wire::Response response{204, {}};
    response.fields.add("x-long", text_of(2000) + std::to_string(x.now().time_since_epoch().count()));
    x.respond(std::move(response), {});
  };
  for (uint32_t second = 0; second < 12; ++second) {
    shared.server.feed(get(101 + 2 * second));
    shared.second(0);
  }
  EXPECT_EQ(shared.slow, 2);
  EXPECT_EQ(shared.others, 2);
}

// Each is reset for the connection's window and, in the same tick, would be for its own.
TEST(H2, StreamsWhoseWindowsAreAllClosedAreCutOffOnceEach) {
  constexpr uint32_t kStreams = 99, kWindow = 700;  // together a bit more than the connection's 65,535
  size_t slow = 0;
  Server s;
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(20'000))); };
  s.intake.on_closed = [&](Exchange& x) { slow += x.record().reject == "slow_read"; };
  s.feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, std::string("\0\4", 2) + u32(kWindow)) +
         frame(4, kAck, 0, ""));
  for (uint32_t i = 0; i < kStreams; ++i) s.feed(get(2 * i + 1));
  for (int second = 0; second < 12; ++second) {
    s.take();
    s.advance(1s);
  }
  s.take();
  EXPECT_EQ(slow, kStreams);
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>());
  EXPECT_FALSE(s.codec->finished());
}

TEST(H2, AClosedWindowOfAStreamIsItsOwnAlsoBesideOthersThatMove) {
  std::vector<std::string> why;
  Server s;
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(1 << 20))); };
  s.intake.on_closed = [&](Exchange& x) { why.emplace_back(x.record().reject); };
  s.feed(narrow(1000) + get(1) + get(3));
  for (int second = 1; second <= 12; ++second) {
    s.take();
    s.feed(window(3, 5000));
    s.advance(1s);
    if (second == 10) {
      EXPECT_TRUE(why.empty());
    }
  }
  s.take();
  EXPECT_EQ(why, std::vector<std::string>{"slow_read"});
}

// An answer that has begun, to a client that has given no window.
struct Unread {
  Server server;
  Exchange* exchange = nullptr;
  Unread() {
    server.intake.on_whole = [this](Exchange& x) { exchange = &x; };
    server.feed(narrow(0) + get(1));
    if (exchange) exchange->head({});
  }
};

TEST(H2, ManySmallPiecesHoldAboutWhatTheyAreLong) {
  Unread unread;
  auto& [s, x] = unread;
  ASSERT_NE(x, nullptr);
  s.take();
  std::string all;
  all.reserve(1 << 20);
  const size_t before = support::heap_in_use();
  for (int i = 0; i < 20'000; ++i) {
    std::string piece = text_of(1 + i * 7 % 80);
    all += piece;
    x->body(Bytes::adopt(std::move(piece)));
  }
  const std::string large = text_of(5000);
  x->body(Bytes::copy_of(large)), all += large;
  x->body(Bytes::copy_of("end")), all += "end";
  const size_t held = support::heap_in_use() - before;
  if (before > 0) {
    EXPECT_LT(held, 2 * all.size());
  }
  EXPECT_EQ(x->backlog(), all.size());
  x->end({});
  std::string got;
  for (uint32_t step : {7u, 100u, 5000u, 1u << 20}) {
    s.feed(window(1, step));
    for (const Frame& f : frames_of(s.take()))
      if (f.type == 0 && f.stream == 1) got += f.payload;
  }
  EXPECT_EQ(got, all);
}

// Pieces come while those before them go, as of a stream of tokens whose client is almost fast enough.
TEST(H2, SmallPiecesKeepTheirOrderWhileTheyGo) {
  Unread unread;
  auto& [s, x] = unread;
  ASSERT_NE(x, nullptr);
  std::string all, got;
  uint32_t turn = 1;
  for (int i = 0; i < 3000; ++i) {
    std::string piece = text_of(1 + (turn = turn * 1664525 + 1013904223) % 700) + std::to_string(i);
    all += piece;
    x->body(Bytes::adopt(std::move(piece)));
    if (i % 3) continue;
    s.feed(window(1, 1 + turn % 2100));
    for (const Frame& f : frames_of(s.take()))
      if (f.type == 0) got += f.payload;
  }
  x->end({});
  s.feed(window(1, 8 << 20));
  for (const Frame& f : frames_of(s.take()))
    if (f.type == 0) got += f.payload;
  EXPECT_EQ(got, all);
}

// Its debug data would be gathered until the last byte comes.
TEST(H2, ALongGoawayIsRefusedAtItsHead) {
  for (uint32_t length : {16u << 10, (16u << 10) + 1, 1u << 20}) {
    Server s;
    s.feed(opening());
    s.take();
    s.feed(frame(7, 0, 0, std::string(length, '\0')).substr(0, 9));
    EXPECT_EQ(s.intake.rejections.size(), length > 16 << 10 ? 1u : 0u) << length;
    s.take();
    EXPECT_EQ(s.codec->finished(), length > 16 << 10) << length;
  }
}

// A client may give the window of what comes in large frames back in small steps.
TEST(H2, ALargeFrameEarnsWindowUpdatesByItsBytes) {
  Server s;
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(text_of(8 << 20))); };
  const std::string size = std::string("\0\5", 2) + u32(1 << 20), stream = std::string("\0\4", 2) + u32(256 << 10);
  s.feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, stream + size) + frame(4, kAck, 0, "") +
         window(0, 256 << 10) + get(1));
  size_t got = 0;
  for (int i = 0; i < 200 && got < 8 << 20; ++i) {
    std::string updates;
    for (const Frame& f : frames_of(s.take()))
      for (size_t at = 0, n = 0; f.type == 0 && at < f.payload.size(); at += n, got += n) {
        n = std::min<size_t>(4096, f.payload.size() - at);
        updates += window(0, uint32_t(n)) + window(1, uint32_t(n));
      }
    s.feed(updates);
    ASSERT_TRUE(s.intake.rejections.empty()) << s.intake.rejections[0] << " after " << got;
  }
  EXPECT_GE(got, size_t(8) << 20);
}

}  // namespace
}  // namespace weir::test
