#include <gtest/gtest.h>

#include <chrono>

#include "base/encoding.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "support/split_feed.h"
#include "wire/coding.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::FakeExchange;
using support::grpc_frame;
using support::grpc_frames;
using support::GrpcFrame;
using support::RpcBench;
using namespace std::chrono_literals;

using Frames = std::vector<GrpcFrame>;
using Log = std::vector<std::string>;

constexpr auto kProto = "application/proto", kJson = "application/json";
constexpr auto kStreamProto = "application/connect+proto", kStreamJson = "application/connect+json";
const RpcBench::Headers kVersion{{"connect-protocol-version", "1"}};

std::string coded(Coding coding, std::string_view text) {
  Bytes piece = Bytes::copy_of(text);
  return std::string(deflate(coding, std::span(&piece, 1)).view());
}

RpcBench::Headers with(RpcBench::Headers headers, const RpcBench::Headers& more) {
  headers.insert(headers.end(), more.begin(), more.end());
  return headers;
}

class Connect : public testing::Test {
 protected:
  RpcBench::Opened run(std::string method, std::string_view body, std::string_view type,
                       const RpcBench::Headers& headers = kVersion, Version version = Version::kHttp11) {
    return bench_.run("/test.Service/" + method, body, type, headers, version);
  }
  RpcBench::Opened get(std::string query, std::string_view method = "GET") {
    RpcBench::Opened x(new FakeExchange(std::string(method), "/test.Service/Read?" + query), {&bench_.router});
    x->time = bench_.env.now();
    if (bench_.router.begin(*x).body == BodyPlan::kWhole && !x->ended) bench_.router.whole(*x);
    return x;
  }

  support::QuoteJson json_;
  RpcBench bench_{&json_};
  support::TestService service_{bench_.server()};
};

TEST_F(Connect, AUnaryCallIsItsMessageEachWay) {
  for (auto version : {Version::kHttp11, Version::kHttp2}) {
    auto x = run("Echo", "hi", kProto, kVersion, version);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->response.fields.find("content-type"), kProto);
    EXPECT_EQ(x->response.fields.find("content-length"), "2");
    EXPECT_EQ(x->sent, "hi");
    auto y = run("Echo", "\"hi\"", "application/json; charset=utf-8", kVersion, version);
    EXPECT_EQ(y->response.fields.find("content-type"), kJson);
    EXPECT_EQ(y->sent, "\"hi\"");
  }
  EXPECT_EQ(run("Echo", "hi", kProto, {})->sent, "hi") << "the version's field may be left out";
}

// Blanks are bytes of a protobuf message as any others.
TEST_F(Connect, AProtobufMessageMayBeEmptyOrBlank) {
  for (std::string body : {"", " ", " \t", "{}"}) {
    auto x = run("Echo", body, kProto);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->sent, body);
  }
}

TEST_F(Connect, AnySplitOfAUnaryBodyGivesTheSameAnswer) {
  std::string body(300, 'x');
  support::for_each_split(body, [&](size_t n) {
    auto x = bench_.open("/test.Service/Echo", kProto);
    support::feed_in_pieces(body, n, [&](auto piece) { x->listener()->on_data(*x, piece); });
    RpcBench::end(*x);
    EXPECT_EQ(x->sent, body);
    EXPECT_EQ(x->consumed, body.size());
  });
}

TEST_F(Connect, MetadataOfAUnaryCallIsInTheHead) {
  for (bool json : {false, true}) {
    auto x = run("Slow", json ? "\"a\"" : "a", json ? kJson : kProto);
    Rpc& rpc = *service_.slow.seen.rpc;
    rpc.initial("first", "1");
    rpc.trailing("last", "2");
    rpc.trailing("raw-bin", "\xff");
    rpc.send(Bytes::copy_of("ok"));
    rpc.finish({});
    EXPECT_EQ(x->response.fields.find("first"), "1");
    EXPECT_EQ(x->response.fields.find("trailer-last"), "2");
    EXPECT_EQ(x->response.fields.find("trailer-raw-bin"), "/w");
    EXPECT_EQ(x->sent, json ? "\"ok\"" : "ok");
  }
}

TEST_F(Connect, AnErrorOfAUnaryCallHasItsStatusAndItsName) {
  for (auto type : {kProto, kJson}) {
    auto x = run("Slow", "\"a\"", type);
    service_.slow.seen.rpc->trailing("last", "2");
    service_.slow.seen.rpc->finish(base::failure(Code::kNotFound, "no \"x\""));
    EXPECT_EQ(x->response.status, 404);
    EXPECT_EQ(x->response.fields.find("content-type"), kJson);
    EXPECT_EQ(x->response.fields.find("trailer-last"), "2");
    EXPECT_EQ(x->sent, R"({"code":"not_found","message":"no \"x\""})");
  }
  auto x = run("Slow", "\"a\"", kJson);
  service_.slow.seen.rpc->finish(base::failure(Code::kCancelled, ""));
  EXPECT_EQ(x->response.status, 499);
  EXPECT_EQ(x->sent, R"({"code":"canceled"})");
}

TEST_F(Connect, DetailsAreTypesAndBase64) {
  auto x = run("Slow", "a", kProto);
  service_.slow.seen.rpc->finish(base::try_again(Code::kResourceExhausted, "busy"));
  EXPECT_EQ(x->response.status, 429);
  EXPECT_EQ(x->response.fields.find("retry-after"), "1");
  EXPECT_EQ(
      x->sent,
      R"({"code":"resource_exhausted","message":"busy","details":[{"type":"google.rpc.RetryInfo","value":"CgIIAQ"}]})");
}

TEST_F(Connect, WhatTheHeadGetsWrongIsSaidInConnectsForm) {
  auto x = run("Echo", "a", kProto, {{"connect-protocol-version", "2"}});
  EXPECT_EQ(x->response.status, 400);
  EXPECT_NE(x->sent.find("connect-protocol-version must be '1', not '2'"), std::string::npos) << x->sent;
  for (auto bad : {"", "x", "-1", "12345678901", "1s"}) {
    auto y = run("Echo", "a", kProto, {{"connect-timeout-ms", bad}});
    EXPECT_EQ(y->response.status, 400) << bad;
    EXPECT_EQ(y->sent, R"({"code":"invalid_argument","message":"malformed connect-timeout-ms"})");
  }
  auto y = run("Echo", "a", kProto, {{"content-encoding", "br"}});
  EXPECT_EQ(y->response.status, 501);
  EXPECT_EQ(y->sent,
            "{\"code\":\"unimplemented\",\"message\":\"content-encoding 'br' is not supported; supported: "
            "gzip, deflate, identity\"}");
  EXPECT_EQ(service_.echo.calls, 0);
}

TEST_F(Connect, TheTimeoutIsTheDeadline) {
  run("Echo", "a", kProto, {{"connect-timeout-ms", "9999999999"}});
  EXPECT_EQ(service_.echo.deadline, bench_.env.now() + 9999999999ms);
  auto x = bench_.open("/test.Service/Echo", kProto, {{"connect-timeout-ms", "100"}});
  bench_.advance(*x, 100ms);
  EXPECT_EQ(x->response.status, 504);
  EXPECT_EQ(x->sent, R"({"code":"deadline_exceeded","message":"deadline exceeded"})");
}

TEST_F(Connect, UnaryBodiesMayBeCoded) {
  for (auto coding : {Coding::kGzip, Coding::kDeflate}) {
    auto x = run("Echo", coded(coding, "hello"), kProto, {{"content-encoding", std::string(name(coding))}});
    EXPECT_EQ(x->sent, "hello");
  }
}

TEST_F(Connect, AGetHasItsMessageInTheQuery) {
  EXPECT_EQ(get("connect=v1&encoding=json&message=%22hi%22")->sent, "\"hi\"");
  auto x = get("connect=v1&encoding=proto&base64=1&message=_-8");
  EXPECT_EQ(x->sent, "\xff\xef");
  EXPECT_EQ(x->response.fields.find("content-type"), kProto);
  EXPECT_EQ(get("message=&encoding=proto&connect=v1")->response.status, 200);
  std::string packed = base::percent_encode(base::base64_encode(coded(Coding::kGzip, "squeezed")));
  EXPECT_EQ(get("connect=v1&encoding=proto&base64=1&compression=gzip&message=" + packed)->sent, "squeezed");
}

TEST_F(Connect, AGetThatCannotBeReadSaysWhy) {
  struct Case {
    std::string query;
    int status;
    std::string_view text;
  };
  std::string bomb = base::percent_encode(base::base64_encode(coded(Coding::kGzip, std::string(70 << 10, 'a'))));
  const std::vector<Case> cases{
      {"", 400, "connect=v1"},
      {"connect=v2&encoding=json&message={}", 400, "connect=v1"},
      {"connect=v1&message={}", 400, "encoding in the query must be proto or json, not ''"},
      {"connect=v1&encoding=xml&message={}", 400, "not 'xml'"},
      {"connect=v1&encoding=json", 400, "has no message"},
      {"connect=v1&encoding=json&message=nonsense", 400, "not a string"},
      {"connect=v1&encoding=proto&base64=1&message=%21", 400, "not base64"},
      {"connect=v1&encoding=proto&compression=br&message=a", 501, "'br' is not supported"},
      {"connect=v1&encoding=proto&compression=gzip&message=a", 400, "not in its compression"},
      {"connect=v1&encoding=proto&base64=1&compression=gzip&message=" + bomb, 429, "send it by POST"},
  };
  for (const auto& c : cases) {
    auto x = get(c.query);
    EXPECT_EQ(x->response.status, c.status) << c.query;
    EXPECT_NE(x->sent.find(c.text), std::string::npos) << c.query << ": " << x->sent;
  }
  EXPECT_EQ(service_.echo.calls, 0);
}

TEST_F(Connect, OnlyMethodsThatReadHaveAGet) {
  RpcBench::Opened x(new FakeExchange("GET", "/test.Service/Echo?connect=v1&encoding=json&message={}"),
                     {&bench_.router});
  bench_.router.begin(*x);
  EXPECT_EQ(x->response.status, 405);
}

TEST_F(Connect, AStreamEndsInAFrameOfItsOwn) {
  for (auto version : {Version::kHttp11, Version::kHttp2}) {
    auto x = run("Stream", grpc_frame("a") + grpc_frame("b"), kStreamProto, kVersion, version);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->response.fields.find("content-type"), kStreamProto);
    EXPECT_EQ(grpc_frames(x->sent), (Frames{{0, "a"}, {0, "b"}, {2, "{}"}}));
    auto y = run("Stream", grpc_frame("\"a\"") + grpc_frame("\"b\""), kStreamJson, kVersion, version);
    EXPECT_EQ(y->response.fields.find("content-type"), kStreamJson);
    EXPECT_EQ(grpc_frames(y->sent), (Frames{{0, "\"a\""}, {0, "\"b\""}, {2, "{}"}}));
  }
  EXPECT_EQ(grpc_frames(run("Spell", grpc_frame("\"ab\""), kStreamJson)->sent),
            (Frames{{0, "\"a\""}, {0, "\"b\""}, {2, "{}"}}));
}

TEST_F(Connect, AnySplitOfAStreamGivesTheSameAnswer) {
  std::string body = grpc_frame("\"a\"") + grpc_frame("\"" + std::string(100, 'b') + "\"") + grpc_frame("\"c\"");
  support::for_each_split(body, [&](size_t n) {
    auto x = bench_.open("/test.Service/Stream", kStreamJson);
    support::feed_in_pieces(body, n, [&](auto piece) { x->listener()->on_data(*x, piece); });
    RpcBench::end(*x);
    EXPECT_EQ(grpc_frames(x->sent).size(), 4u);
    EXPECT_EQ(x->consumed, body.size());
  });
}

TEST_F(Connect, ErrorsAndMetadataOfAStreamAreInItsLastFrame) {
  for (auto type : {kStreamProto, kStreamJson}) {
    auto x = run("Watch", grpc_frame("\"a\""), type, with(kVersion, {{"x-request-id", "r1"}}));
    Rpc& rpc = *service_.watch.seen.rpc;
    rpc.initial("first", "1");
    rpc.trailing("last", "2");
    rpc.finish(base::failure(Code::kFailedPrecondition, "not now"));
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->response.fields.find("first"), "1");
    EXPECT_EQ(
        grpc_frames(x->sent),
        (Frames{{2, R"({"error":{"code":"failed_precondition","message":"not now"},"metadata":{"last":["2"]}})"}}));
    EXPECT_EQ(x->record().code, Code::kFailedPrecondition);
  }
}

TEST_F(Connect, AStreamsHeadThatIsWrongIsAnErrorInTheLastFrame) {
  auto x = run("Stream", grpc_frame("a"), kStreamProto, {{"connect-content-encoding", "br"}});
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->response.fields.find("connect-accept-encoding"), "identity, deflate, gzip");
  auto frames = grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].flag, 2);
  EXPECT_NE(frames[0].payload.find("\"unimplemented\""), std::string::npos) << frames[0].payload;
  auto y = run("Stream", grpc_frame("nonsense"), kStreamJson);
  EXPECT_EQ(grpc_frames(y->sent), (Frames{{2, R"({"error":{"code":"invalid_argument","message":"not a string"}})"}}));
}

TEST_F(Connect, MessagesOfAStreamMayBeCompressed) {
  auto x = run("Stream", grpc_frame(coded(Coding::kGzip, "\"hello\""), 1), kStreamJson,
               {{"connect-content-encoding", "gzip"}, {"connect-accept-encoding", "gzip"}});
  EXPECT_EQ(x->response.fields.find("connect-content-encoding"), "gzip");
  EXPECT_EQ(grpc_frames(x->sent), (Frames{{0, "\"hello\""}, {2, "{}"}})) << "it is too short to be worth it";
}

TEST_F(Connect, AnAnswerWithoutAJsonFormEndsTheStream) {
  auto x = run("Stream", grpc_frame("\"unprintable\"") + grpc_frame("\"b\""), kStreamJson);
  auto frames = grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_NE(frames[0].payload.find("\"internal\""), std::string::npos) << frames[0].payload;
}

TEST_F(Connect, EachKindOfMethodHasItsContentType) {
  for (auto [method, type] : {std::pair("Echo", kStreamProto), {"Echo", kStreamJson}, {"Stream", kProto}}) {
    auto x = run(method, "", type);
    EXPECT_EQ(x->response.status, 415) << method << type;
    EXPECT_NE(std::string(x->extra_fields().find("accept-post")).find("application/connect+json"), std::string::npos);
  }
}

TEST_F(Connect, AForeignPagesCallIsRefusedInConnectsForm) {
  const RpcBench::Headers foreign{{"origin", "https://evil.example"}, {"sec-fetch-site", "cross-site"}};
  auto x = run("Echo", "a", kProto, foreign);
  EXPECT_EQ(x->response.status, 403);
  EXPECT_TRUE(x->sent.starts_with("{\"code\":\"permission_denied\"")) << x->sent;
  auto y = run("Stream", grpc_frame("a"), kStreamProto, foreign);
  EXPECT_EQ(y->response.status, 200);
  EXPECT_EQ(grpc_frames(y->sent).at(0).flag, 2);
  EXPECT_EQ(service_.echo.calls, 0);
}

}  // namespace
}  // namespace weir::wire
