#include <gtest/gtest.h>

#include "base/encoding.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "support/split_feed.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::grpc_frame;
using support::grpc_frames;
using support::GrpcFrame;
using support::RpcBench;

constexpr auto kBinary = "application/grpc-web+proto", kText = "application/grpc-web-text";

// The concatenation of padded base64 pieces, decoded.
std::string from_pieces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = std::min(text.find('='), text.size());
    while (end < text.size() && text[end] == '=') ++end;
    out += base::base64_decode(text.substr(0, end)).value_or("<broken>");
    text.remove_prefix(end);
  }
  return out;
}

class GrpcWeb : public testing::Test {
 protected:
  RpcBench bench_;
  support::TestService service_{bench_.server()};
};

TEST_F(GrpcWeb, ABinaryCallEndsInATrailerFrameOverEitherVersion) {
  for (auto version : {Version::kHttp11, Version::kHttp2}) {
    auto x = bench_.run("/test.Service/Echo", grpc_frame("hi"), kBinary, {}, version);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->response.fields.find("content-type"), kBinary);
    EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, "hi"}, {0x80, "grpc-status: 0\r\n"}}));
    EXPECT_EQ(x->trailers.size(), 0u);
    EXPECT_TRUE(x->ended);
  }
}

TEST_F(GrpcWeb, AnErrorWithoutMessagesIsATrailerFrameToo) {
  auto x = bench_.run("/no.Such/Method", grpc_frame("hi"), kBinary, {}, Version::kHttp11);
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(
      grpc_frames(x->sent),
      (std::vector<GrpcFrame>{{0x80, "grpc-status: 12\r\ngrpc-message: unknown service no.Such\r\nx-request-id: " +
                                         x->record().request_id + "\r\n"}}));
}

TEST_F(GrpcWeb, AForeignPagesCallEndsInATrailerFrameAndReachesNothing) {
  const RpcBench::Headers foreign{{"origin", "https://evil.example"}, {"sec-fetch-site", "cross-site"}};
  for (const char* method : {"Echo", "Watch", "Collect", "Chat"})
    for (auto version : {Version::kHttp11, Version::kHttp2}) {
      auto x = bench_.run(std::string("/test.Service/") + method, grpc_frame("hi"), kBinary, foreign, version);
      EXPECT_EQ(x->response.status, 200);
      auto frames = grpc_frames(x->sent);
      ASSERT_EQ(frames.size(), 1u);
      EXPECT_NE(frames[0].payload.find("grpc-status: 7\r\ngrpc-message: pages of origin"), std::string::npos);
      EXPECT_NE(frames[0].payload.find("cors.origins"), std::string::npos);
      EXPECT_TRUE(x->ended);
      EXPECT_EQ(x->consumed, grpc_frame("hi").size()) << "the body is taken all the same";
    }
  EXPECT_EQ(service_.echo.calls, 0);
  EXPECT_TRUE(service_.watch.seen.log.empty() && service_.collect.seen.log.empty() && service_.chat.seen.log.empty());
}

TEST_F(GrpcWeb, TextIsBase64BothWays) {
  auto x = bench_.run("/test.Service/Spell", base::base64_encode(grpc_frame("abc")), kText);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/grpc-web-text+proto");
  EXPECT_EQ(grpc_frames(from_pieces(x->sent)),
            (std::vector<GrpcFrame>{{0, "a"}, {0, "b"}, {0, "c"}, {0x80, "grpc-status: 0\r\n"}}));
}

TEST_F(GrpcWeb, TextMayBePaddedInTheMiddleAndCutAnywhere) {
  std::string body = base::base64_encode(grpc_frame("a")) + base::base64_encode(grpc_frame("bcd")) +
                     base::base64_encode(grpc_frame("efg"), base::Padding::kNone);
  support::for_each_split(body, [&](size_t n) {
    auto x = bench_.open("/test.Service/Stream", kText);
    support::feed_in_pieces(body, n, [&](auto piece) { x->listener()->on_data(*x, piece); });
    RpcBench::end(*x);
    EXPECT_EQ(grpc_frames(from_pieces(x->sent)),
              (std::vector<GrpcFrame>{{0, "a"}, {0, "bcd"}, {0, "efg"}, {0x80, "grpc-status: 0\r\n"}}))
        << n;
    EXPECT_EQ(x->consumed, body.size()) << n;
  });
}

// The messages are whole, so that nothing else is wrong with them.
TEST_F(GrpcWeb, OneCharacterThatIsNoBase64IsEnough) {
  auto refused = [&](const std::string& body) {
    auto x = bench_.run("/test.Service/Stream", body, kText);
    const auto frames = grpc_frames(from_pieces(x->sent));
    if (frames.empty()) return std::string("nothing");
    const std::string& trailers = frames.back().payload;
    return trailers.starts_with("grpc-status: 0\r\n") ? std::string() : trailers;
  };
  const std::string good = base::base64_encode(grpc_frame("abcd"));  // nine bytes: no padding
  ASSERT_EQ(refused(good), "");
  for (size_t at = 7; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '!';
    EXPECT_TRUE(refused(bad).starts_with("grpc-status: 13\r\n")) << at;
  }
  const std::string padded = base::base64_encode(grpc_frame("ab"));  // seven bytes: "…=="
  ASSERT_TRUE(padded.ends_with("=="));
  EXPECT_TRUE(refused(padded.substr(0, padded.size() - 1) + good).starts_with("grpc-status: 13\r\n"));
  EXPECT_EQ(refused(padded + good), "");
}

TEST_F(GrpcWeb, TextThatIsNoBase64IsInternal) {
  for (std::string body : {"AAAA*", "A===", "=", "AAA=A=AA", "AAAAA"}) {
    auto x = bench_.run("/test.Service/Echo", body, kText);
    auto frames = grpc_frames(from_pieces(x->sent));
    ASSERT_EQ(frames.size(), 1u) << body;
    EXPECT_TRUE(frames[0].payload.starts_with("grpc-status: 13\r\n")) << body << frames[0].payload;
  }
  EXPECT_EQ(service_.echo.calls, 0);
}

TEST_F(GrpcWeb, TheTrailerFrameHoldsMetadataAndDetails) {
  auto x = bench_.run("/test.Service/Slow", grpc_frame("a"), kBinary);
  service_.slow.seen.rpc->trailing("x-last", "2");
  service_.slow.seen.rpc->finish({Code::kAborted, "a\nb", "d"});
  EXPECT_EQ(grpc_frames(x->sent)[0].payload,
            "grpc-status: 10\r\ngrpc-message: a%0Ab\r\ngrpc-status-details-bin: ZA\r\nx-last: 2\r\nx-request-id: " +
                x->record().request_id + "\r\n");
}

}  // namespace
}  // namespace weir::wire
