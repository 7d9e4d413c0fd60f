#include "wire/websocket.h"

#include <gtest/gtest.h>

#include "support/fake_wire.h"
#include "support/h2_client.h"
#include "support/heap_in_use.h"
#include "wire/codec.h"
#include "wire/router.h"

namespace weir::wire {
namespace {

// A client's frame, masked.
std::string masked_frame(int first, std::string_view payload, bool masked = true) {
  std::string out{char(first)};
  char mask_bit = masked ? char(0x80) : char(0);
  if (payload.size() < 126) {
    out += char(mask_bit | char(payload.size()));
  } else if (payload.size() <= 0xffff) {
    out += char(mask_bit | 126);
    out += char(payload.size() >> 8), out += char(payload.size());
  } else {
    out += char(mask_bit | 127);
    for (int i = 8; i-- > 0;) out += char(uint64_t(payload.size()) >> (8 * i));
  }
  std::string mask = "\x12\x34\x56\x78";
  if (masked) out += mask;
  for (size_t i = 0; i < payload.size(); ++i) out += masked ? char(payload[i] ^ mask[i % 4]) : payload[i];
  return out;
}
constexpr int kOneText = 0x81, kOneBinary = 0x82, kOnePing = 0x89, kOneClose = 0x88;

class Recorder : public WebSocket::Side {
 public:
  std::vector<std::string> seen;
  std::string written;
  bool busy = false;
  int closing = 0, controls = 0, most_controls = 1 << 20;
  void on_message(WebSocket::Kind kind, base::Bytes message) override {
    seen.push_back((kind == WebSocket::Kind::kText ? "t:" : "b:") + std::string(message.view()));
  }
  void on_control() override { ++controls; }
  bool full() override { return busy || controls >= most_controls; }
  void on_closing(uint16_t code) override { closing = code; }
  void write(base::Bytes bytes) override { written += bytes.view(); }
};

struct Bench {
  Recorder side;
  support::FakeSlabs slabs;
  WebSocket socket{side, slabs, 100'000};
  size_t feed(std::string_view bytes) { return socket.feed(std::as_bytes(std::span(bytes))); }
  // The close code that went out, 0 for none.
  int sent_code() const {
    size_t at = side.written.find(char(kOneClose));
    return at == std::string::npos ? 0 : uint8_t(side.written[at + 2]) << 8 | uint8_t(side.written[at + 3]);
  }
};

TEST(WebSocket, ALargeMessageLiesInASlabAndWaitsForOne) {
  std::string large(70'000, 'x');
  for (std::string all :
       {masked_frame(kOneText, large), masked_frame(0x01, large.substr(0, 10)) + masked_frame(0x80, large.substr(10)),
        masked_frame(0x01, large.substr(0, 60'000)) + masked_frame(0x80, large.substr(60'000))}) {
    Bench b;
    b.slabs.empty = true;
    size_t used = 0;
    for (int i = 0; i < 10; ++i) used += b.feed(std::string_view(all).substr(used, 5000));
    EXPECT_LT(used, 12'000u);
    EXPECT_EQ(b.side.seen.size(), 0u);
    b.slabs.empty = false;
    EXPECT_EQ(b.feed(std::string_view(all).substr(used)), all.size() - used);
    EXPECT_EQ(b.side.seen, std::vector<std::string>{"t:" + large});
    EXPECT_GE(b.slabs.taken, 1u);
    EXPECT_EQ(b.feed(masked_frame(kOneText, "small")), masked_frame(kOneText, "small").size());
    EXPECT_EQ(b.side.seen.size(), 2u);
  }
}

TEST(WebSocket, AMessageForWhichThereCanBeNoMemoryClosesIt) {
  Bench b;
  b.slabs.empty = true;
  std::string all = masked_frame(kOneText, std::string(70'000, 'x'));
  size_t used = b.feed(all);
  EXPECT_LT(used, all.size());
  EXPECT_EQ(b.sent_code(), 0);
  b.slabs.is_hopeless = true;
  std::string_view rest = std::string_view(all).substr(used);
  EXPECT_EQ(b.feed(rest), rest.size());
  EXPECT_EQ(b.sent_code(), 1013);
  EXPECT_EQ(b.side.closing, 1013);
  EXPECT_EQ(b.side.seen.size(), 0u);
}

TEST(WebSocket, MessagesAreWholeHoweverTheyAreCut) {
  std::string large(70'000, 'x');
  std::string all = masked_frame(kOneText, "hello") + masked_frame(0x01, "frag") + masked_frame(kOnePing, "p") +
                    masked_frame(0x00, "") + masked_frame(0x80, "ment") + masked_frame(kOneBinary, large) +
                    masked_frame(kOneText, std::string(200, 'y')) + masked_frame(kOneText, "");
  for (size_t step : {size_t(1), size_t(3), size_t(1000), all.size()}) {
    Bench b;
    for (size_t at = 0; at < all.size(); at += step)
      EXPECT_EQ(b.feed(all.substr(at, step)), std::min(step, all.size() - at));
    ASSERT_EQ(b.side.seen.size(), 5u);
    EXPECT_EQ(b.side.seen[0], "t:hello");
    EXPECT_EQ(b.side.seen[1], "t:fragment");
    EXPECT_EQ(b.side.seen[2], "b:" + large);
    EXPECT_EQ(b.side.seen[3], "t:" + std::string(200, 'y'));
    EXPECT_EQ(b.side.seen[4], "t:");
    EXPECT_EQ(b.side.written, std::string("\x8a\x01p", 3));
  }
}

TEST(WebSocket, AFullSideStopsBetweenFrames) {
  Bench b;
  b.side.busy = true;
  EXPECT_EQ(b.feed(masked_frame(kOneText, "later")), 0u);
  b.side.busy = false;
  b.feed(masked_frame(kOneText, "later"));
  EXPECT_EQ(b.side.seen.size(), 1u);
}

// A flood of them costs as much as other frames.
TEST(WebSocket, ASideMayHaveEnoughOfPings) {
  Bench b;
  b.side.most_controls = 2;
  const std::string ping = masked_frame(kOnePing, "p");
  EXPECT_EQ(b.feed(ping + ping + ping + ping), 2 * ping.size());
  EXPECT_EQ(b.side.controls, 2);
  EXPECT_EQ(b.side.written, "\x8a\1p\x8a\1p");
  b.side.most_controls = 4;
  EXPECT_EQ(b.feed(ping + ping), 2 * ping.size());
}

TEST(WebSocket, WhatBreaksTheProtocolClosesWithItsCode) {
  const std::vector<std::pair<std::string, int>> table{
      {masked_frame(kOneText, "unmasked", false), 1002},
      {masked_frame(0xc1, "rsv"), 1002},
      {masked_frame(0x83, "opcode"), 1002},
      {masked_frame(0x8b, "opcode"), 1002},
      {masked_frame(0x80, "continuation of nothing"), 1002},
      {masked_frame(0x01, "a") + masked_frame(kOneText, "b"), 1002},
      {masked_frame(0x09, "ping in pieces"), 1002},
      {masked_frame(kOnePing, std::string(126, 'x')), 1002},
      {std::string("\x81\xfe\x00\x05\x01\x02\x03\x04", 8) + "abcde", 1002},  // not the shortest length
      {std::string("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04", 14), 1002},
      {masked_frame(kOneText, "\xff"), 1007},
      {masked_frame(kOneText, "\xc3"), 1007},
      {masked_frame(kOneText, "\xed\xa0\x80"), 1007},
      {masked_frame(0x01, "\xe2\x82") + masked_frame(0x80, "x"), 1007},
      {masked_frame(kOneBinary, std::string(100'001, 'x')), 1009},
      {masked_frame(0x02, std::string(99'999, 'x')) + masked_frame(0x80, "xx"), 1009},
      {masked_frame(kOneClose, "x"), 1002},
      {masked_frame(kOneClose, std::string("\x03\xed", 2)), 1002},  // 1005 is never sent
      {masked_frame(kOneClose, std::string("\x03\xe8\xff", 3)), 1007},
  };
  for (const auto& [bytes, code] : table) {
    Bench b;
    EXPECT_EQ(b.feed(bytes + masked_frame(kOneText, "after")), bytes.size() + masked_frame(kOneText, "after").size());
    EXPECT_EQ(b.side.closing, code) << code;
    EXPECT_EQ(b.sent_code(), code);
    EXPECT_TRUE(b.side.seen.empty());
  }
}

TEST(WebSocket, Utf8MayBeCutAnywhere) {
  Bench b;
  b.feed(masked_frame(0x01, "\xe2") + masked_frame(0x00, "\x82") + masked_frame(0x80, "\xac"));
  EXPECT_EQ(b.side.seen.at(0), "t:\xe2\x82\xac");
}

TEST(WebSocket, ACloseComesBackAndNothingFollows) {
  Bench b;
  b.feed(masked_frame(kOneClose, std::string("\x03\xe9going", 7)));
  EXPECT_EQ(b.side.closing, 1001);
  EXPECT_EQ(b.side.written, std::string("\x88\x02\x03\xe9", 4));
  std::vector<base::Bytes> late;
  late.push_back(base::Bytes::copy_of("late"));
  b.socket.send(WebSocket::Kind::kText, std::move(late));
  EXPECT_EQ(b.side.written.size(), 4u);
}

TEST(WebSocket, ALongReasonIsCutAtACharacter) {
  Bench b;
  std::string reason(122, 'x');
  b.socket.close(1008, reason + "\xe2\x82\xac");
  EXPECT_EQ(b.side.written, std::string("\x88\x7c\x03\xf0", 4) + reason);
}

// --- the handshake, through the codecs -------------------------------------------------------------------------------

constexpr std::string_view kAsk =
    "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
    "13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

struct H1Bench {
  support::FakeWire wire;
  support::FakeSlabs slabs;
  support::FakeIntake intake;
  Limits limits;
  PeerInfo peer{"127.0.0.1:1", Security::kCleartext};
  support::Heard heard;
  CodecEnv env{intake, slabs, limits};
  std::unique_ptr<Codec> codec = make_h1(env, wire, peer);
  Exchange* open = nullptr;

  H1Bench() {
    intake.on_begin = [this](Exchange& x) {
      if (accept_websocket(x)) {
        open = &x;
        x.attach(std::make_unique<support::RecordingReader>(heard));
      }
      return Plan{BodyPlan::kStream, UINT64_MAX};
    };
  }
  std::string talk(std::string_view bytes) {
    support::feed(*codec, bytes);
    return support::take_output(*codec);
  }
};

TEST(WebSocketHandshake, TheExampleOfTheRfcIsAnsweredAsThere) {
  H1Bench b;
  std::string said = b.talk(std::string(kAsk) + "\r\nframes");
  EXPECT_EQ(said.substr(0, 34), "HTTP/1.1 101 Switching Protocols\r\n");
  EXPECT_NE(said.find("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), said.npos);
  EXPECT_NE(said.find("connection: upgrade\r\nupgrade: websocket\r\n\r\n"), said.npos);
  EXPECT_EQ(b.heard.data, "frames");
  b.talk("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(b.heard.data, "framesGET / HTTP/1.1\r\n\r\n");
  b.open->body(base::Bytes::copy_of("back"));
  EXPECT_EQ(support::take_output(*b.codec), "back");
  b.open->end({});
  EXPECT_EQ(support::take_output(*b.codec), "");
  EXPECT_TRUE(b.codec->finished());
  b.codec->closed();
  EXPECT_EQ(b.heard.closes, 1);
}

TEST(WebSocketHandshake, BytesThatAreNotDealtWithHoldThePeer) {
  H1Bench b;
  b.limits.stream_window = 100;
  b.talk(std::string(kAsk) + "\r\n" + std::string(100, 'x'));
  EXPECT_FALSE(b.codec->wants_read());
  b.open->consume(50);
  EXPECT_TRUE(b.codec->wants_read());
}

TEST(WebSocketHandshake, OtherRequestsAreRefused) {
  H1Bench plain;
  const std::string unasked = plain.talk("GET /ws HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(unasked.substr(9, 3), "426");
  EXPECT_NE(unasked.find("connection: upgrade\r\nupgrade: websocket\r\n"), std::string::npos) << unasked;
  H1Bench old;
  EXPECT_EQ(old.talk("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                     "Sec-WebSocket-Version: 8\r\n\r\n")
                .substr(9, 3),
            "426");
  H1Bench keyless;
  EXPECT_EQ(keyless
                .talk("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n")
                .substr(9, 3),
            "400");
}

// Bytes of a body would be read as frames, and a second key would have another answer.
TEST(WebSocketHandshake, ABodyOrASecondKeyIsRefused) {
  const std::string ask(kAsk);
  for (const std::string& rest : std::vector<std::string>{
           "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
           "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", "Sec-WebSocket-Version: 8\r\n\r\n"}) {
    H1Bench b;
    EXPECT_EQ(b.talk(ask + rest).substr(9, 3), "400") << rest;
    EXPECT_EQ(b.heard.data, "") << rest;
  }
  H1Bench empty;
  EXPECT_EQ(empty.talk(ask + "Content-Length: 0\r\n\r\nframes").substr(9, 3), "101");
  EXPECT_EQ(empty.heard.data, "frames");
}

// RFC 9110 §5.3: several lines of one name are one list.
TEST(WebSocketHandshake, ListsMayComeOnSeveralLines) {
  const std::string start = "GET /ws HTTP/1.1\r\nHost: h\r\n";
  const std::string rest = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  const std::string connection = "Connection: keep-alive\r\nConnection: Upgrade\r\n",
                    upgrade = "Upgrade: websocket\r\n";
  H1Bench apart;
  EXPECT_EQ(apart.talk(start + connection + upgrade + rest).substr(9, 3), "101");
  H1Bench other;
  EXPECT_EQ(other.talk(start + connection + "Upgrade: other\r\n" + upgrade + rest).substr(9, 3), "101");
  H1Bench offers;
  const std::string offer = "Sec-WebSocket-Protocol: weir.key.abc\r\nSec-WebSocket-Protocol: weir\r\n";
  EXPECT_NE(offers.talk(start + connection + upgrade + offer + rest).find("sec-websocket-protocol: weir\r\n"),
            std::string::npos);
  H1Bench without;
  EXPECT_EQ(without.talk(start + "Connection: keep-alive\r\nConnection: te\r\n" + upgrade + rest).substr(9, 3), "400");
}

TEST(WebSocketHandshake, ExtendedConnectOpensOneOverHttp2) {
  test::Server s;
  support::Heard heard;
  Exchange* open = nullptr;
  s.intake.on_begin = [&](Exchange& x) {
    EXPECT_EQ(x.request().method, "GET");
    EXPECT_TRUE(accept_websocket(x));
    open = &x;
    x.attach(std::make_unique<support::RecordingReader>(heard));
    return Plan{BodyPlan::kStream, UINT64_MAX};
  };
  test::Client c;
  c.talk(s);  // our SETTINGS allow it
  int32_t id = c.request({{":method", "CONNECT"},
                          {":protocol", "websocket"},
                          {":scheme", "http"},
                          {":path", "/ws"},
                          {":authority", "h"},
                          {"sec-websocket-version", "13"}},
                         "frames", true);
  c.talk(s);
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_EQ(heard.data, "frames");
  open->body(base::Bytes::copy_of("back"));
  c.talk(s);
  EXPECT_EQ(c[id].body, "back");
  c.more(id, "bye", true);
  c.talk(s);
  EXPECT_EQ(heard.data, "framesbye");
  EXPECT_EQ(heard.ends, 1);
  open->end({});
  c.talk(s);
  EXPECT_TRUE(c[id].ended);
}

// A 2xx would say that the tunnel is open (RFC 8441 §5).
TEST(WebSocketHandshake, ExtendedConnectReachesNoOtherService) {
  struct Answering final : Service {
    void serve(Exchange& x, const PathArgs&) override { x.respond(200, "text/plain", base::Bytes::constant("ok")); }
  } service;
  base::FakeEnv env;
  Router router(env);
  router.add({"GET", "/plain", &service, "test", {}, Permission::kRead});
  router.add({"GET", "/ws", &service, "test", {BodyPlan::kStream, 1000}, Permission::kRead, Upgrade::kWebSocket});
  router.fallback(service, [](const Request& r) { return r.target == "/claimed"; }, "test", {});
  auto status = [&](Version version, const char* path) {
    support::FakeExchange x("GET", path);
    x.mutable_request().version = version;
    x.mutable_request().fields.add("upgrade", "websocket");
    if (router.begin(x).body == BodyPlan::kWhole && !x.responding()) router.whole(x);
    router.closed(x);
    return x.response.status;
  };
  EXPECT_EQ(status(Version::kHttp2, "/ws"), 200);
  EXPECT_EQ(status(Version::kHttp2, "/plain"), 400);
  EXPECT_EQ(status(Version::kHttp2, "/claimed"), 400);
  EXPECT_EQ(status(Version::kHttp2, "/absent"), 404);
  EXPECT_EQ(status(Version::kHttp11, "/plain"), 200) << "there it is an offer";
}

TEST(WebSocket, WhatHasComeOfAMessageGoesWhenItFails) {
  const std::string most = masked_frame(kOneText, std::string(90'000, 'x')).substr(0, 80'000);
  Bench b;
  const size_t before = support::heap_in_use();
  b.feed(most);
  if (support::heap_in_use() == 0) GTEST_SKIP() << "a sanitizer's malloc";
  EXPECT_GT(support::heap_in_use(), before + 70'000);
  b.socket.refuse_memory("there is none");
  EXPECT_EQ(b.sent_code(), 1013);
  EXPECT_LT(support::heap_in_use(), before + 10'000) << "though the connection lives until the peer has closed it";
}

TEST(WebSocket, APingIsAnEmptyFrameAndNoneFollowsTheEnd) {
  Bench t;
  t.socket.ping();
  EXPECT_EQ(t.side.written, std::string("\x89\0", 2));
  t.socket.close(close_code::kNormal, "");
  const size_t size = t.side.written.size();
  t.socket.ping();
  EXPECT_EQ(t.side.written.size(), size);
}

}  // namespace
}  // namespace weir::wire
