// Frames at the edges of their lengths, however they are cut, and what goes out.
#include <gtest/gtest.h>

#include "support/fake_wire.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

using Kind = WebSocket::Kind;
using More = WebSocket::More;

// RFC 3629, as plainly as it can be said: the code point of the first character, and how long it is; 0: none.
size_t character(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? uint32_t(uint8_t(text[i])) : 0u; };
  const size_t length = at(0) < 0x80 ? 1 : at(0) >> 5 == 6 ? 2 : at(0) >> 4 == 14 ? 3 : at(0) >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t point = length == 1 ? at(0) : at(0) & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if (at(i) >> 6 != 2) return 0;
    point = point << 6 | (at(i) & 0x3f);
  }
  const uint32_t least[]{0, 0, 0x80, 0x800, 0x10000};
  return point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) ? 0 : length;
}
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    size_t n = character(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}
bool checked(std::string_view text) {
  Utf8Check check;
  return check.push(text) && check.whole();
}

TEST(Utf8Check, AgreesWithThePlainRuleOnAllBeginnings) {
  const uint8_t edges[]{0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second)
      for (uint8_t third : edges)
        for (uint8_t fourth : {0x41, 0x7f, 0x80, 0xbf, 0xc0}) {
          const std::string text{char(first), char(second), char(third), char(fourth)};
          for (size_t n = 1; n <= 4; ++n)
            ASSERT_EQ(checked(text.substr(0, n)), is_utf8(text.substr(0, n))) << first << ' ' << second << ' ' << n;
        }
}

TEST(Utf8Check, FindsABadByteBehindAsciiOfAnyLengthAndInAnyPieces) {
  for (size_t ascii = 0; ascii < 20; ++ascii)
    for (size_t behind = 0; behind < 10; ++behind) {
      const std::string good = std::string(ascii, 'a') + "\xe2\x82\xac" + std::string(behind, 'b');
      const std::string bad = std::string(ascii, 'a') + "\x80" + std::string(behind, 'b');
      EXPECT_FALSE(checked(bad)) << ascii;
      for (size_t cut = 0; cut <= good.size(); ++cut) {
        Utf8Check check;
        EXPECT_TRUE(check.push(good.substr(0, cut)) && check.push(good.substr(cut)) && check.whole()) << ascii << cut;
      }
    }
}

// A client's frame with a length of 0, 2 or 8 bytes behind the first one.
std::string framed(int first, std::string_view payload) {
  std::string out{char(first)};
  const int wide = payload.size() < 126 ? 0 : payload.size() <= 0xffff ? 2 : 8;
  out += char(0x80 | (wide == 0 ? int(payload.size()) : wide == 2 ? 126 : 127));
  for (int i = wide; i-- > 0;) out += char(uint64_t(payload.size()) >> (8 * i));
  const std::string mask = "\x12\x34\x56\x78";
  out += mask;
  for (size_t i = 0; i < payload.size(); ++i) out += char(payload[i] ^ mask[i % 4]);
  return out;
}
constexpr int kText = 0x81, kBinary = 0x82, kClose = 0x88, kPing = 0x89, kPong = 0x8a;

struct Peer final : WebSocket::Side {
  void on_message(Kind, base::Bytes message) override { seen.emplace_back(message.view()); }
  bool full() override { return false; }
  void on_closing(uint16_t code) override { closing = code; }
  void write(base::Bytes bytes) override { written.emplace_back(bytes.view()); }
  void feed(std::string_view bytes) { EXPECT_EQ(socket.feed(std::as_bytes(std::span(bytes))), bytes.size()); }
  std::string all() const {
    std::string out;
    for (const auto& each : written) out += each;
    return out;
  }

  std::vector<std::string> seen, written;
  int closing = 0;
  support::FakeSlabs slabs;
  WebSocket socket{*this, slabs, 100'000};
};

std::string bytes_of(size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += char(i * 7 + i / 256);
  return out;
}

TEST(WebSocketFrames, AreReadAtTheEdgesOfTheirLengths) {
  for (size_t size : {0, 1, 125, 126, 127, 16'384, 16'385, 65'535, 65'536, 100'000}) {
    Peer peer;
    peer.feed(framed(kBinary, bytes_of(size)) + framed(kText, "next"));
    ASSERT_EQ(peer.seen.size(), 2u) << size;
    EXPECT_EQ(peer.seen[0], bytes_of(size)) << size;
    EXPECT_EQ(peer.slabs.taken > 0, size > 16'384) << "longer ones lie in slabs";
  }
  Peer peer;
  peer.feed(framed(0x02, bytes_of(60'000)) + framed(0x80, bytes_of(40'000)));
  ASSERT_EQ(peer.seen.size(), 1u);
  EXPECT_EQ(peer.seen[0].size(), 100'000u) << "and so are parts that are as long together";
}

TEST(WebSocketFrames, AreUnmaskedWhereverTheyAreCut) {
  for (size_t size = 0; size < 36; ++size) {
    const std::string all = framed(kBinary, bytes_of(size));
    for (size_t first = 0; first <= all.size(); ++first) {
      const size_t second = std::min(all.size(), first + size / 3 + 1);
      Peer peer;
      peer.feed(all.substr(0, first)), peer.feed(all.substr(first, second - first)), peer.feed(all.substr(second));
      ASSERT_EQ(peer.seen, std::vector<std::string>{bytes_of(size)}) << size << ' ' << first;
    }
  }
}

TEST(WebSocketFrames, GoOutAtTheEdgesOfTheirLengths) {
  const std::vector<std::pair<size_t, std::string>> table{{0, {"\x82\x00", 2}},
                                                          {125, "\x82\x7d"},
                                                          {126, {"\x82\x7e\x00\x7e", 4}},
                                                          {1023, "\x82\x7e\x03\xff"},
                                                          {1024, {"\x82\x7e\x04\x00", 4}},
                                                          {65'535, "\x82\x7e\xff\xff"},
                                                          {65'536, {"\x82\x7f\0\0\0\0\0\1\0\0", 10}}};
  for (const auto& [size, head] : table) {
    Peer peer;
    std::vector<base::Bytes> pieces;
    pieces.push_back(base::Bytes::copy_of(bytes_of(size).substr(0, size / 2)));
    pieces.push_back(base::Bytes::copy_of(bytes_of(size).substr(size / 2)));
    peer.socket.send(Kind::kBinary, std::move(pieces));
    EXPECT_EQ(peer.all(), head + bytes_of(size)) << size;
    EXPECT_EQ(peer.written.size(), size < 1024 ? 1u : 3u) << "small ones in one piece, large ones without a copy";
  }
}

TEST(WebSocketFrames, PartsOfAMessageAreContinuations) {
  Peer peer;
  auto send = [&](std::string_view text, More more) {
    std::vector<base::Bytes> pieces;
    pieces.push_back(base::Bytes::copy_of(text));
    peer.socket.send(Kind::kText, std::move(pieces), more);
  };
  send("a", More::kYes), send("b", More::kYes), send("c", More::kNo), send("d", More::kNo);
  EXPECT_EQ(peer.written, (std::vector<std::string>{{"\x01\x01"
                                                     "a"},
                                                    {"\x00\x01"
                                                     "b",
                                                     3},
                                                    {"\x80\x01"
                                                     "c"},
                                                    {"\x81\x01"
                                                     "d"}}));
}

TEST(WebSocketFrames, AClosesCodeIsOneThatMayBeSent) {
  for (int code : {0, 999, 1000, 1003, 1004, 1006, 1007, 1014, 1015, 2999, 3000, 4999, 5000, 65'535}) {
    const bool may = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
    Peer peer;
    peer.feed(framed(kClose, std::string{char(code >> 8), char(code)}));
    EXPECT_EQ(peer.closing, may ? code : 1002) << code;
  }
  Peer none;
  none.feed(framed(kClose, ""));
  EXPECT_EQ(none.closing, 1005) << "none was said";
  EXPECT_EQ(none.all(), "\x88\x02\x03\xe8");
  none.feed(framed(kText, "later"));
  EXPECT_TRUE(none.seen.empty());
  Peer cut;
  cut.feed(framed(kClose, "\x03\xe8\xe2\x82"));
  EXPECT_EQ(cut.closing, 1007) << "the reason is not whole";
}

TEST(WebSocketFrames, APingIsAnsweredUntilTheCloseAndAPongIsNot) {
  Peer peer;
  peer.feed(framed(kPing, std::string(125, 'p')) + framed(kPong, "q") + framed(kPing, ""));
  EXPECT_EQ(peer.all(), "\x8a\x7d" + std::string(125, 'p') + std::string("\x8a\x00", 2));
  peer.socket.close(1001, "");
  const size_t before = peer.written.size();
  peer.socket.close(1001, "");
  peer.feed(framed(kPing, "late") + framed(kText, "late"));
  EXPECT_EQ(peer.written.size(), before) << "nothing follows a close";
  EXPECT_TRUE(peer.seen.empty());
  EXPECT_EQ(peer.closing, 0) << "the peer has not closed";
}

TEST(WebSocketFrames, WhatIsAsideOrNotWholeIsCharged) {
  base::MemoryLedger ledger(40'000);
  struct Slabs final : base::SlabSource {
    explicit Slabs(base::MemoryLedger& l) : of(l) {}
    base::Slab* take(size_t bytes) override { return base::heap_slab(bytes); }
    base::MemoryLedger* ledger() override { return &of; }
    base::MemoryLedger& of;
  } slabs{ledger};
  Peer side;
  WebSocket socket(side, slabs, 100'000);
  auto feed = [&](std::string_view bytes) { return socket.feed(std::as_bytes(std::span(bytes))); };
  const std::string all = framed(kBinary, bytes_of(9000));
  feed(all.substr(0, 8000));
  const uint64_t held = ledger.held(base::MemoryKind::kInput);
  EXPECT_GE(held, 7900u);
  socket.keep_aside(100);
  EXPECT_EQ(ledger.held(base::MemoryKind::kInput), held + 100);
  socket.keep_aside(0);
  feed(all.substr(8000));
  EXPECT_EQ(side.seen.size(), 1u);
  EXPECT_EQ(ledger.held(base::MemoryKind::kInput), 0u) << "it is the reader's";
  feed(all.substr(0, 8000));
  socket.keep_aside(60'000);
  EXPECT_EQ(side.closing, 1013);
  EXPECT_EQ(ledger.held(base::MemoryKind::kInput), 0u);
}

}  // namespace
}  // namespace weir::wire
