// The bounds of the parsers of what peers send on the wire: what is at the bound is read, one more is refused, and time
// is in proportion to the bytes, however they come. HTTP/2's are in guard_test.cc and h2_attack_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/encoding.h"
#include "support/cpu_time.h"
#include "support/fake_wire.h"
#include "support/repeated.h"
#include "wire/coding.h"
#include "wire/forwarded.h"
#include "wire/grpc_frames.h"
#include "wire/grpc_timeout.h"
#include "wire/h1_gate.h"
#include "wire/proxy_protocol.h"
#include "wire/trace_context.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

using support::repeated;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// --- HTTP/1 ----------------------------------------------------------------------------------------------------------
// The status with which a head is refused, 0 when it is taken; it comes in pieces of `size` bytes.
int status_of_head(const std::string& head, const Limits& limits, size_t size = 1 << 20) {
  HeadScan scan;
  HeadError error;
  for (size_t at = size; !error; at += size) {
    const size_t n = scan.advance(std::string_view(head).substr(0, at), limits, &error);
    if (n == 0 && at < head.size()) continue;
    if (n == 0) break;
    Head out;
    HeadText text;
    return inspect_head(std::string_view(head).substr(0, n), limits, &out, &text).status;
  }
  return error.status;
}

std::string head_with(size_t fields, const std::string& field = "X: y\r\n") {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + repeated(field, fields - 1) + "\r\n";
}

TEST(ParserBounds, HeadsOfHttp1HaveSoManyFieldsAndNoMore) {
  Limits limits;
  EXPECT_EQ(status_of_head(head_with(limits.header_fields), limits), 0);
  EXPECT_EQ(status_of_head(head_with(limits.header_fields + 1), limits), 431);
}

TEST(ParserBounds, HeadsOfHttp1HaveSoManyBytesAndNoMore) {
  Limits limits;
  auto of_size = [](size_t size) {
    const std::string rest = head_with(1);
    return rest.substr(0, rest.size() - 2) + "X: " + std::string(size - rest.size() - 5, 'y') + "\r\n\r\n";
  };
  for (size_t piece : {1u, 4096u, 1u << 20}) {
    EXPECT_EQ(of_size(limits.header_bytes).size(), limits.header_bytes);
    EXPECT_EQ(status_of_head(of_size(limits.header_bytes), limits, piece), 0);
    EXPECT_EQ(status_of_head(of_size(limits.header_bytes + 1), limits, piece), 431);
  }
  const std::string target = "GET /" + std::string(limits.header_bytes, 'a');
  EXPECT_EQ(status_of_head(target, limits), 414) << "before its line has ended";
  EXPECT_EQ(status_of_head(target.substr(0, limits.header_bytes - 1), limits), 0) << "more may come";
}

TEST(ParserBounds, HeadsOfHttp1TakeTimeInProportion) {
  Limits wide;
  wide.header_bytes = wide.header_fields = 1 << 30;
  auto fields = [&](size_t n) { EXPECT_EQ(status_of_head(head_with(n), wide), 0); };
  EXPECT_LE(support::growth(20'000, fields), 3);
  auto by_byte = [&](size_t n) { EXPECT_EQ(status_of_head(head_with(n), wide, 1), 0); };
  EXPECT_LE(support::growth(5'000, by_byte), 2.5);
  auto line_by_byte = [&](size_t n) {
    EXPECT_EQ(status_of_head(head_with(2, "X: " + std::string(n, 'y') + "\r\n"), wide, 1), 0);
  };
  EXPECT_LE(support::growth(50'000, line_by_byte), 2.5);
}

// --- lists in fields: as long as a head may be -----------------------------------------------------------------------
TEST(ParserBounds, ListsInFieldsTakeTimeInProportion) {
  auto codings = [](size_t n) { EXPECT_EQ(choose_coding(repeated("br;q=0.5, ", n) + "gzip"), Coding::kGzip); };
  EXPECT_LE(support::growth(10'000, codings), 2.5);
  auto states = [](size_t n) {
    Fields fields;
    fields.add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    fields.add("tracestate", repeated("a=b,", n));
    fields.add("baggage", repeated("a=b,", n));
    EXPECT_LE(tracestate_of(fields).size(), 512u);
    EXPECT_EQ(baggage_value(fields, "c"), std::nullopt);
  };
  EXPECT_LE(support::growth(10'000, states), 2.5);
}

TEST(ParserBounds, EncodedTextTakesTimeInProportion) {
  auto percent = [](size_t n) { EXPECT_EQ(base::percent_decode(repeated("%41b", n))->size(), 2 * n); };
  EXPECT_LE(support::growth(100'000, percent), 3);
  auto base64 = [](size_t n) { EXPECT_EQ(base::base64_decode(repeated("QUJD", n))->size(), 3 * n); };
  EXPECT_LE(support::growth(100'000, base64), 3);
}

// --- PROXY headers ---------------------------------------------------------------------------------------------------
ProxyHeader::State state_of(std::string_view octets) {
  ProxyHeader header;
  auto in = bytes_of(octets);
  return header.feed(in);
}

TEST(ParserBounds, ProxyHeadersHaveSoManyBytesAndNoMore) {
  using State = ProxyHeader::State;
  auto first = [](size_t size) {
    const std::string begin = "PROXY UNKNOWN ";
    return begin + std::string(size - begin.size() - 2, 'x') + "\r\n";
  };
  EXPECT_EQ(state_of(first(ProxyHeader::kLongestV1)), State::kDone);
  EXPECT_EQ(state_of(first(ProxyHeader::kLongestV1 + 1)), State::kBad);
  EXPECT_EQ(state_of("PROXY " + std::string(1000, 'x')), State::kBad) << "it does not wait for the end of the line";
  auto second = [](size_t size) {
    const size_t rest = size - 16;
    return std::string("\r\n\r\n\0\r\nQUIT\n\x21\x11", 14) + char(rest >> 8) + char(rest) + std::string(rest, '\1');
  };
  EXPECT_EQ(state_of(second(ProxyHeader::kLongestV2)), State::kDone);
  EXPECT_EQ(state_of(second(ProxyHeader::kLongestV2 + 1)), State::kBad);
}

// --- gRPC ------------------------------------------------------------------------------------------------------------
TEST(ParserBounds, TimeoutsHaveEightDigitsAndNoMore) {
  EXPECT_TRUE(parse_grpc_timeout("99999999H"));
  EXPECT_FALSE(parse_grpc_timeout("100000000H"));
  EXPECT_FALSE(parse_grpc_timeout("000000001S"));
  EXPECT_FALSE(parse_grpc_timeout(std::string(1 << 20, '1')));
}

TEST(ParserBounds, MessagesOfGrpcHaveSoManyBytesAndNoMore) {
  support::FakeSlabs slabs;
  for (size_t more : {0u, 1u}) {
    Deframer deframer(slabs, 1000);
    const auto prefix = grpc_prefix(GrpcFlag::kPlain, uint32_t(1000 + more));
    std::string frame(reinterpret_cast<const char*>(prefix.data()), prefix.size());
    frame += std::string(1000 + more, 'x');
    auto in = bytes_of(frame);
    EXPECT_EQ(deframer.next(in), more ? Deframer::Step::kFailed : Deframer::Step::kMessage);
  }
}

TEST(ParserBounds, SmallMessagesOfGrpcTakeTimeInProportion) {
  auto empty = [](size_t n) {
    support::FakeSlabs slabs;
    Deframer deframer(slabs, 1000);
    const std::string frames(5 * n, '\0');
    auto in = bytes_of(frames);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(deframer.next(in), Deframer::Step::kMessage);
      EXPECT_TRUE(deframer.take().empty());
    }
    EXPECT_TRUE(in.empty());
  };
  EXPECT_LE(support::growth(100'000, empty), 2.5);
}

// --- WebSocket -------------------------------------------------------------------------------------------------------
struct Side final : WebSocket::Side {
  void on_message(WebSocket::Kind, base::Bytes message) override { ++messages, size += message.size(); }
  bool full() override { return false; }
  void on_closing(uint16_t code) override { closing = code; }
  void write(base::Bytes) override {}
  size_t messages = 0, size = 0;
  int closing = 0;
};

// A client's frame with a mask of zeros.
std::string frame(int first, size_t size) {
  std::string out{char(first)};
  if (size < 126)
    out += char(0x80 | size);
  else if (size <= 0xffff)
    out += "\xfe" + std::string{char(size >> 8), char(size)};
  else
    out += "\xff" + std::string(4, '\0') + char(size >> 24) + char(size >> 16) + char(size >> 8) + char(size);
  return out + std::string(4, '\0') + std::string(size, 'x');
}
constexpr int kBegin = 0x02, kGoesOn = 0x00, kEnd = 0x80, kWhole = 0x82, kPing = 0x89;

TEST(ParserBounds, MessagesOfWebSocketsHaveSoManyBytesAndNoMore) {
  constexpr size_t kMost = 100'000;
  for (const auto& [octets, closing] :
       {std::pair{frame(kWhole, kMost), 0},
        {frame(kWhole, kMost + 1), int(close_code::kTooLarge)},
        {frame(kBegin, kMost / 2) + frame(kEnd, kMost / 2), 0},
        {frame(kBegin, kMost / 2) + frame(kEnd, kMost / 2 + 1), int(close_code::kTooLarge)},
        {frame(kPing, 125), 0},
        {frame(kPing, 126), int(close_code::kProtocol)}}) {
    Side side;
    support::FakeSlabs slabs;
    WebSocket socket(side, slabs, kMost);
    socket.feed(bytes_of(octets));
    EXPECT_EQ(side.closing, closing) << octets.size();
  }
}

TEST(ParserBounds, FramesOfWebSocketsTakeTimeInProportion) {
  for (size_t size : {0u, 1u, 100u}) {
    auto parts = [size](size_t n) {
      Side side;
      support::FakeSlabs slabs;
      WebSocket socket(side, slabs, 1 << 30);
      socket.feed(bytes_of(frame(kBegin, size) + repeated(frame(kGoesOn, size), n) + frame(kEnd, size)));
      EXPECT_EQ(side.size, (n + 2) * size);
    };
    EXPECT_LE(support::growth(20'000, parts), 2.5) << size;
  }
}

}  // namespace
}  // namespace weir::wire
