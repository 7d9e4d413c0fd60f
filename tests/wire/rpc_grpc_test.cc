#include <gtest/gtest.h>

#include <chrono>

#include "grpc_fixture.h"
#include "support/split_feed.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::grpc_frame;
using support::grpc_frames;
using support::grpc_message;
using support::grpc_status;
using support::GrpcFrame;
using namespace std::chrono_literals;

TEST_F(Grpc, AUnaryCallIsAHeadAMessageAndTrailers) {
  auto x = run("Echo", grpc_frame("hello"));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/grpc");
  EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, "hello"}}));
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->trailers.find("grpc-status"), "0");
  EXPECT_EQ(grpc_status(*x), 0);
  EXPECT_EQ(x->record().protocol, "test");
  EXPECT_EQ(x->record().code, Code::kOk);
  EXPECT_EQ(x->consumed, 10u);
}

TEST_F(Grpc, AnySplitOfTheRequestGivesTheSameAnswer) {
  std::string body = grpc_frame("one") + grpc_frame("") + grpc_frame(std::string(3000, 'z'));
  service();
  support::for_each_split(body, [&](size_t n) {
    auto x = open("Stream");
    support::feed_in_pieces(body, n, [&](auto piece) { x->listener()->on_data(*x, piece); });
    RpcBench::end(*x);
    EXPECT_EQ(x->sent, body) << n;
    EXPECT_EQ(grpc_status(*x), 0) << n;
    EXPECT_EQ(x->consumed, body.size()) << n;
  });
}

TEST_F(Grpc, TheContentTypeMayNameProtoAndParameters) {
  service();
  for (auto type : {"application/grpc+proto", "application/grpc;charset=utf-8", "Application/gRPC+Proto ; x=y"})
    EXPECT_EQ(grpc_status(*bench().run("/test.Service/Echo", grpc_frame("a"), type)), 0) << type;
}

TEST_F(Grpc, AnotherContentTypeIs415) {
  service();
  for (auto type : {"text/plain", "application/grpc+json", "application/grpcweb", "", "application/json"}) {
    auto x = bench().run("/test.Service/Echo", grpc_frame("a"), type);
    EXPECT_EQ(x->response.status, 415) << type;  // JSON too: this server has no JsonForm
    EXPECT_EQ(x->consumed, 6u) << type;
    EXPECT_EQ(service().echo.calls, 0);
  }
}

TEST_F(Grpc, OverHttp1ItIsAClearError) {
  service();
  auto x = bench().run("/test.Service/Echo", grpc_frame("a"), "application/grpc", {}, Version::kHttp11);
  EXPECT_EQ(x->response.status, 505);
  EXPECT_NE(x->sent.find("HTTP/2"), std::string::npos);
  auto y = bench().run("/no.Such/Method", grpc_frame("a"), "application/grpc", {}, Version::kHttp11);
  EXPECT_EQ(y->response.status, 505);
}

TEST_F(Grpc, UnknownMethodsAndServicesAreUnimplementedWithoutABody) {
  service();
  struct Row {
    std::string path, text;
  };
  for (const auto& [path, text] : {Row{"/test.Service/Nope", "unknown method Nope of test.Service"},
                                   Row{"/no.Such/Echo", "unknown service no.Such"}, Row{"/x", "unknown service x"}}) {
    auto x = bench().run(path, grpc_frame("a"));
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(x->response.fields.find("grpc-status"), "12") << path;
    EXPECT_EQ(grpc_message(*x), text);
    EXPECT_EQ(x->sent, "");
    EXPECT_TRUE(x->ended);
    EXPECT_EQ(x->trailers.size(), 0u);
    EXPECT_EQ(x->record().code, Code::kUnimplemented);
  }
}

TEST_F(Grpc, GetOnAMethodIs405) {
  service();
  support::FakeExchange x("GET", "/test.Service/Echo");
  bench().router.begin(x);
  EXPECT_EQ(x.response.status, 405);
  EXPECT_NE(x.response.fields.find("allow").data(), nullptr);
  bench().router.closed(x);
}

TEST_F(Grpc, AnErrorBeforeAnyMessageIsTrailersOnly) {
  auto x = run("Slow", grpc_frame("a"));
  ASSERT_TRUE(service().slow.seen.rpc);
  service().slow.seen.rpc->trailing("x-why", "because");
  service().slow.seen.rpc->finish({Code::kNotFound, "nö", "details"});
  EXPECT_EQ(x->response.fields.find("grpc-status"), "5");
  EXPECT_EQ(x->response.fields.find("grpc-message"), "n%C3%B6");
  EXPECT_EQ(x->response.fields.find("grpc-status-details-bin"), "ZGV0YWlscw");
  EXPECT_EQ(x->response.fields.find("x-why"), "because");
  EXPECT_EQ(x->trailers.size(), 0u);
  EXPECT_EQ(x->sent, "");
}

TEST_F(Grpc, AnErrorAfterAMessageIsInTheTrailersOnly) {
  auto x = run("Watch", grpc_frame("a"));
  service().watch.seen.rpc->send(Bytes::copy_of("m"));
  service().watch.seen.rpc->finish(base::failure(Code::kAborted, "no"));
  EXPECT_FALSE(x->response.fields.has("grpc-status"));
  EXPECT_EQ(grpc_status(*x), 10);
}

// The id that the access log has: a client that sent none learns it with an error.
TEST_F(Grpc, ErrorsCarryTheRequestIdOnceWhereverTheyStand) {
  auto ids = [](const Fields& fields) {
    std::vector<std::string> out;
    for (size_t i = 0; i < fields.size(); ++i)
      if (fields[i].name == "x-request-id") out.emplace_back(fields[i].value);
    return out;
  };
  using Ids = std::vector<std::string>;
  auto only = run("Slow", grpc_frame("a"));
  service().slow.seen.rpc->finish(base::failure(Code::kNotFound, "no"));
  EXPECT_EQ(ids(only->response.fields), Ids{only->record().request_id});
  auto late = run("Watch", grpc_frame("a"));
  service().watch.seen.rpc->send(Bytes::copy_of("m"));
  service().watch.seen.rpc->finish(base::failure(Code::kAborted, "no"));
  EXPECT_EQ(ids(late->response.fields), Ids{});
  EXPECT_EQ(ids(late->trailers), Ids{late->record().request_id});
  auto theirs = run("Slow", grpc_frame("a"), {{"x-request-id", "mine"}});
  service().slow.seen.rpc->finish(base::failure(Code::kNotFound, "no"));
  EXPECT_EQ(ids(theirs->response.fields), Ids{"mine"});
  auto unknown = bench().run("/no.Such/Method", grpc_frame("a"));
  EXPECT_EQ(ids(unknown->response.fields), Ids{unknown->record().request_id});
  auto good = run("Echo", grpc_frame("a"));
  EXPECT_EQ(ids(good->response.fields), Ids{});
  EXPECT_EQ(ids(good->trailers), Ids{});
  auto refused = bench().run("/test.Service/Echo", grpc_frame("a"), "text/plain");
  EXPECT_EQ(ids(refused->response.fields), Ids{refused->record().request_id});
  auto old = bench().run("/test.Service/Echo", grpc_frame("a"), "application/grpc", {}, Version::kHttp11);
  EXPECT_EQ(ids(old->response.fields), Ids{old->record().request_id});
}

TEST_F(Grpc, OnlyTheFirstStatusCounts) {
  auto x = run("Watch", grpc_frame("a"));
  Rpc& rpc = *service().watch.seen.rpc;
  rpc.finish(base::failure(Code::kAborted, "first"));
  rpc.finish({});
  rpc.send(Bytes::copy_of("late"));
  EXPECT_EQ(grpc_status(*x), 10);
  EXPECT_EQ(x->sent, "");
}

TEST_F(Grpc, MetadataGoesOutWithHeadAndTrailers) {
  auto x = run("Slow", grpc_frame("a"));
  Rpc& rpc = *service().slow.seen.rpc;
  rpc.initial("x-first", "1");
  rpc.initial("x-raw-bin", std::string_view("\0\xff", 2));
  rpc.trailing("x-last", "2");
  rpc.send(Bytes::copy_of("m"));
  rpc.finish({});
  EXPECT_EQ(x->response.fields.find("x-first"), "1");
  EXPECT_EQ(x->response.fields.find("x-raw-bin"), "AP8");
  EXPECT_EQ(x->trailers.find("x-last"), "2");
}

TEST_F(Grpc, AUnaryMethodWantsExactlyOneMessage) {
  auto none = run("Echo", "");
  EXPECT_EQ(grpc_status(*none), 12);
  auto two = run("Echo", grpc_frame("a") + grpc_frame("b"));
  EXPECT_EQ(grpc_status(*two), 12);
  auto stream_none = run("Spell", "");
  EXPECT_EQ(grpc_status(*stream_none), 12);
  EXPECT_EQ(service().echo.calls, 0);
  EXPECT_EQ(grpc_status(*run("Echo", grpc_frame(""))), 0);
}

TEST_F(Grpc, AUnaryCallWaitsForTheHalfClose) {
  auto x = open("Echo");
  RpcBench::data(*x, grpc_frame("a"));
  EXPECT_EQ(service().echo.calls, 0);
  RpcBench::end(*x);
  EXPECT_EQ(service().echo.calls, 1);
}

TEST_F(Grpc, ARequestThatEndsInsideAMessageIsInternal) {
  std::string body = grpc_frame("abc");
  for (size_t n = 1; n < body.size(); ++n) {
    auto x = run("Echo", body.substr(0, n));
    EXPECT_EQ(grpc_status(*x), 13) << n;
    EXPECT_EQ(x->record().reject, reason::kGrpcLen);
    EXPECT_EQ(grpc_status(*run("Echo", body + body.substr(0, n))), n == 0 ? 0 : 13) << n;
  }
  EXPECT_EQ(service().echo.calls, 0);
}

TEST_F(Grpc, WhatIsWorthTryingAgainSaysWhen) {
  auto x = run("Collect", grpc_frame("a"));
  service().collect.seen.rpc->finish(base::try_again(Code::kUnavailable, "not now"));
  EXPECT_EQ(grpc_status(*x), 14);
  EXPECT_EQ(x->response.fields.find("grpc-retry-pushback-ms"), "1000");
  auto y = run("Collect", grpc_frame("a"));
  service().collect.seen.rpc->finish(base::failure(Code::kUnavailable, "never"));
  EXPECT_FALSE(y->response.fields.has("grpc-retry-pushback-ms"));
}

TEST_F(Grpc, AMessageOverTheLimitIsResourceExhausted) {
  options_.max_message = 8;
  EXPECT_EQ(grpc_status(*run("Echo", grpc_frame("12345678"))), 0);
  auto x = open("Echo");
  RpcBench::data(*x, grpc_frame("123456789").substr(0, 5));
  EXPECT_EQ(grpc_status(*x), 8);
  EXPECT_TRUE(x->ended);
}

TEST_F(Grpc, ABadFlagIsInternalAndTheMethodHearsTheEnd) {
  auto x = open("Chat");
  RpcBench::data(*x, grpc_frame("a"));
  RpcBench::data(*x, "\x02");
  EXPECT_EQ(grpc_status(*x), 13);
  RpcBench::data(*x, grpc_frame("b"));
  RpcBench::end(*x);
  x->close(true);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:a", "close"}));
}

TEST_F(Grpc, AStreamingMethodSeesMessagesThenTheHalfClose) {
  auto x = run("Collect", grpc_frame("a") + grpc_frame("b"));
  EXPECT_EQ(service().collect.seen.log, (Log{"open", "message:a", "message:b", "half-close"}));
  service().collect.seen.rpc->send(Bytes::copy_of("sum"));
  service().collect.seen.rpc->finish({});
  EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, "sum"}}));
  x->close(true);
  EXPECT_EQ(service().collect.seen.log.back(), "close");
}

TEST_F(Grpc, AServerStreamSendsEachMessageInAFrame) {
  auto x = run("Spell", grpc_frame("abc"));
  EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, "a"}, {0, "b"}, {0, "c"}}));
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(Grpc, TheClientLeavingIsHeardOnceAndIsCancelledInTheLedger) {
  auto x = open("Chat");
  x->close(false);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "close"}));
  EXPECT_EQ(x->record().code, Code::kCancelled);
}

TEST_F(Grpc, AUnaryCallThatIsCancelledTellsItsReader) {
  auto x = run("Slow", grpc_frame("a"));
  x->close(false);
  EXPECT_EQ(service().slow.seen.log, (Log{"unary:a", "close"}));
}

TEST_F(Grpc, AfterTheStatusTheRestOfTheRequestIsReadAndDropped) {
  auto x = open("Chat");
  service().chat.seen.rpc->finish({});
  RpcBench::data(*x, std::string(1000, 'x'));
  EXPECT_EQ(x->consumed, 1000u);
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(Grpc, BigPiecesGoOutUncopiedAndSmallOnesJoined) {
  auto x = run("Slow", grpc_frame("a"));
  std::string big(100000, 'b');
  service().slow.seen.rpc->send({Bytes::copy_of("head"), Bytes::copy_of("er"), Bytes::copy_of(big), Bytes(),
                                 Bytes::copy_of("t1"), Bytes::copy_of("t2"), Bytes::copy_of(big)});
  service().slow.seen.rpc->finish({});
  EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, "header" + big + "t1t2" + big}}));
}

TEST_F(Grpc, AnEmptyMessageIsAFrameOfFiveBytes) {
  auto x = run("Slow", grpc_frame("a"));
  service().slow.seen.rpc->send(std::vector<Bytes>{});
  service().slow.seen.rpc->finish({});
  EXPECT_EQ(x->sent, std::string(5, '\0'));
  EXPECT_EQ(grpc_frames(run("Echo", grpc_frame(""))->sent), (std::vector<GrpcFrame>{{0, ""}}));
}

TEST_F(Grpc, AForeignPagesCallIsATrailersOnlyAnswer) {
  auto x = run("Echo", support::grpc_frame("a"), {{"origin", "https://evil.example"}});
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(support::grpc_status(*x), int(base::Code::kPermissionDenied));
  EXPECT_NE(support::grpc_message(*x).find("cors.origins"), std::string::npos);
  EXPECT_EQ(x->sent, "");
  EXPECT_EQ(service().echo.calls, 0);
}

}  // namespace
}  // namespace weir::wire
