#include <gtest/gtest.h>

#include <chrono>

#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "support/split_feed.h"
#include "wire/coding.h"
#include "wire/rpc_call.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::RpcBench;
using namespace std::chrono_literals;

using Log = std::vector<std::string>;

class RpcJson : public testing::Test {
 protected:
  static RpcOptions small() {
    RpcOptions options;
    options.max_message = 1000;
    return options;
  }
  RpcBench::Opened run(std::string method, std::string_view body, const RpcBench::Headers& headers = {}) {
    return bench_.run("/test.Service/" + method, body, "application/json", headers, Version::kHttp11);
  }

  support::QuoteJson json_;
  RpcBench bench_{&json_, small()};
  support::TestService service_{bench_.server()};
};

TEST_F(RpcJson, AUnaryCallIsOneObjectEachWay) {
  auto x = run("Echo", "\"hi\"");
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/json");
  EXPECT_EQ(x->response.fields.find("content-length"), "4");
  EXPECT_EQ(x->sent, "\"hi\"");
  EXPECT_EQ(json_.types, (Log{"test.In", "test.Out"}));
  EXPECT_EQ(x->record().protocol, "test");
}

TEST_F(RpcJson, AnySplitOfTheBodyGivesTheSameAnswer) {
  std::string body = "\"" + std::string(300, 'x') + "\"";
  support::for_each_split(body, [&](size_t n) {
    auto x = bench_.open("/test.Service/Echo", "application/json; charset=utf-8");
    support::feed_in_pieces(body, n, [&](auto piece) { x->listener()->on_data(*x, piece); });
    RpcBench::end(*x);
    EXPECT_EQ(x->sent, body);
    EXPECT_EQ(x->consumed, body.size());
  });
}

TEST_F(RpcJson, AnEmptyBodyIsAnEmptyMessage) {
  auto x = run("Slow", "");
  EXPECT_EQ(service_.slow.seen.log, (Log{"unary:"}));
}

TEST_F(RpcJson, BadTextIsA400WithWords) {
  auto x = run("Echo", "nonsense");
  EXPECT_EQ(x->response.status, 400);
  EXPECT_EQ(x->sent, R"({"code":3,"message":"not a string"})");
  EXPECT_EQ(x->record().code, Code::kInvalidArgument);
  EXPECT_EQ(service_.echo.calls, 0);
}

TEST_F(RpcJson, AnErrorHasItsHttpStatus) {
  auto x = run("Slow", "\"a\"");
  service_.slow.seen.rpc->finish(base::failure(Code::kNotFound, "no \"x\"\n"));
  EXPECT_EQ(x->response.status, 404);
  EXPECT_EQ(x->sent, "{\"code\":5,\"message\":\"no \\\"x\\\"\\u000a\"}");
  auto y = run("Slow", "\"a\"");
  service_.slow.seen.rpc->finish(base::failure(Code::kResourceExhausted, "busy"));
  EXPECT_EQ(y->response.status, 429);
  EXPECT_EQ(y->response.fields.find("retry-after"), "1");
}

TEST_F(RpcJson, DetailsAreShownInJsonToo) {
  auto x = run("Slow", "\"a\"");
  service_.slow.seen.rpc->finish({Code::kUnavailable, "later", "serialized status"});
  EXPECT_EQ(x->sent, "\"serialized status\"");
  EXPECT_EQ(json_.types.back(), "google.rpc.Status");
}

TEST_F(RpcJson, AStreamIsOneLineAMessage) {
  auto x = run("Spell", "\"abc\"");
  EXPECT_EQ(x->response.fields.find("content-type"), "application/x-ndjson");
  EXPECT_EQ(x->sent, "\"a\"\n\"b\"\n\"c\"\n");
  EXPECT_TRUE(x->ended);
}

TEST_F(RpcJson, AStreamIsServerSentEventsWhenAsked) {
  auto x = run("Spell", "\"ab\"", {{"accept", "text/event-stream"}});
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(x->sent, "data: \"a\"\n\ndata: \"b\"\n\n");
}

TEST_F(RpcJson, AStreamThatFailsLaterEndsWithAnErrorLine) {
  auto x = run("Watch", "\"a\"");
  service_.watch.seen.rpc->send(Bytes::copy_of("m"));
  service_.watch.seen.rpc->finish(base::failure(Code::kAborted, "oh"));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, "\"m\"\n{\"error\":{\"code\":10,\"message\":\"oh\"}}\n");
  EXPECT_EQ(x->record().code, Code::kAborted);
  auto y = run("Watch", "\"a\"");
  service_.watch.seen.rpc->finish(base::failure(Code::kAborted, "oh"));
  EXPECT_EQ(y->response.status, 409);
}

TEST_F(RpcJson, AnEmptyStreamIsAnEmptyBody) {
  auto x = run("Spell", "\"\"");
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, "");
  EXPECT_TRUE(x->ended);
}

TEST_F(RpcJson, RequestStreamsAreLines) {
  auto x = run("Collect", "\"a\"\n\n  \"b\"x\n");
  EXPECT_EQ(x->response.status, 400);
  auto y = run("Collect", "\"a\"\r\n");
  EXPECT_EQ(y->response.status, 400);  // QuoteJson takes no white space
  service_.collect.seen.log.clear();
  auto z = run("Collect", "\"a\"\n\n\"b\"\n\"c\"");
  EXPECT_EQ(service_.collect.seen.log, (Log{"open", "message:a", "message:b", "message:c", "half-close"}));
  service_.collect.seen.rpc->send(Bytes::copy_of("sum"));
  service_.collect.seen.rpc->finish({});
  EXPECT_EQ(z->sent, "\"sum\"");
}

TEST_F(RpcJson, ABidiMethodAnswersWithLines) {
  auto x = run("Stream", "\"a\"\n\"b\"");
  EXPECT_EQ(x->sent, "\"a\"\n\"b\"\n");
  EXPECT_TRUE(x->ended);
}

TEST_F(RpcJson, LinesWaitForAPeerThatDoesNotRead) {
  auto x = bench_.open("/test.Service/Stream", "application/x-ndjson");
  x->fake_backlog = Exchange::kHighWater + 1;
  RpcBench::data(*x, "\"a\"\n\"b\"");
  RpcBench::end(*x);
  EXPECT_EQ(x->sent, "");
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(x->sent, "\"a\"\n\"b\"\n");
}

TEST_F(RpcJson, ABodyOverTheLimitIs413) {
  auto x = run("Echo", "\"" + std::string(1000, 'x') + "\"");
  EXPECT_EQ(x->response.status, 413);
  EXPECT_EQ(x->record().code, Code::kResourceExhausted);
  EXPECT_EQ(x->consumed, 1002u);
}

TEST_F(RpcJson, ACodedBodyIsInflated) {
  Bytes plain = Bytes::copy_of("\"hello\"");
  auto x = run("Echo", deflate(Coding::kGzip, {&plain, 1}).view(), {{"content-encoding", "gzip"}});
  EXPECT_EQ(x->sent, "\"hello\"");
  EXPECT_EQ(run("Echo", "junk", {{"content-encoding", "gzip"}})->response.status, 400);
  EXPECT_EQ(run("Echo", "\"a\"", {{"content-encoding", "zstd"}})->response.status, 400);
  Bytes bomb = Bytes::copy_of(std::string(5000, 'x'));
  EXPECT_EQ(run("Echo", deflate(Coding::kGzip, {&bomb, 1}).view(), {{"content-encoding", "gzip"}})->response.status,
            413);
}

TEST_F(RpcJson, WithoutASlabThePeerIsHeldAndTheCallComesLater) {
  Bytes plain = Bytes::copy_of("\"hello\"");
  for (std::string coding : {"identity", "gzip"}) {
    std::string body(coding == "gzip" ? deflate(Coding::kGzip, {&plain, 1}).view() : plain.view());
    auto x = bench_.open("/test.Service/Echo", "application/json", {{"content-encoding", coding}});
    bench_.slabs.empty = true;
    RpcBench::data(*x, body);
    RpcBench::end(*x);
    bench_.advance(*x, 20ms);
    EXPECT_EQ(x->consumed, 0u) << coding;
    EXPECT_FALSE(x->headed);
    bench_.slabs.empty = false;
    bench_.advance(*x, 20ms);
    EXPECT_EQ(x->sent, "\"hello\"");
    EXPECT_EQ(x->consumed, body.size());
    EXPECT_EQ(bench_.env.armed(), 0u);
  }
}

TEST_F(RpcJson, TheMessageTakesThePlaceOfItsText) {
  auto x = run("Slow", "\"" + std::string(500, 'x') + "\"");
  EXPECT_EQ(service_.slow.seen.log, (Log{"unary:" + std::string(500, 'x')}));
  EXPECT_EQ(bench_.slabs.taken, 1u);
}

TEST(RpcJsonRoom, AMessageThatOutgrowsItsTextIsRefusedWhereThereIsNoSlab) {
  struct Swelling final : JsonForm {
    base::Result<std::string> to_binary(std::string_view, std::string_view json) override {
      return std::string(json.size() * 4, 'b');
    }
    base::Result<std::string> to_json(std::string_view, std::string_view binary) override {
      return std::string(binary.substr(0, 1));
    }
  } swelling;
  RpcBench bench(&swelling, {.max_message = 20'000});
  support::TestService service(bench.server());
  auto call = [&](size_t size) {
    auto x = bench.open("/test.Service/Echo", "application/json");
    RpcBench::data(*x, std::string(size, 'j'));
    bench.slabs.empty = true;
    RpcBench::end(*x);
    bench.slabs.empty = false;
    return x->response.status;
  };
  EXPECT_EQ(call(100), 200);  // little enough for the heap
  EXPECT_EQ(call(4000), 503);
  EXPECT_EQ(call(6000), 413);
  auto x = bench.run("/test.Service/Echo", std::string(4000, 'j'), "application/json");
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(bench.slabs.sizes.back(), 16'000u);
}

TEST_F(RpcJson, AnAnswerWithoutJsonFormIsInternal) {
  auto x = run("Echo", "\"unprintable\"");
  EXPECT_EQ(x->response.status, 500);
}

TEST_F(RpcJson, AMethodThatEndsWithoutAnAnswerIsInternal) {
  auto x = run("Slow", "\"a\"");
  service_.slow.seen.rpc->finish({});
  EXPECT_EQ(x->response.status, 500);
}

TEST_F(RpcJson, AStreamEndsAtItsDeadline) {
  auto x = run("Watch", "\"a\"", {{"grpc-timeout", "1S"}});
  bench_.advance(*x, 1s);
  EXPECT_EQ(x->response.status, 504);
  EXPECT_EQ(service_.watch.seen.log, (Log{"unary:a", "close"}));
}

TEST_F(RpcJson, AForeignPagesCallIsRefusedAsACallIs) {
  for (const char* method : {"Echo", "Watch", "Collect", "Chat"}) {
    auto x = run(method, "\"a\"", {{"sec-fetch-site", "cross-site"}});
    EXPECT_EQ(x->response.status, 403);
    EXPECT_EQ(x->sent.substr(0, 19), "{\"code\":7,\"message\"") << x->sent;
    EXPECT_NE(x->sent.find("cors.origins"), std::string::npos);
  }
  EXPECT_EQ(service_.echo.calls, 0);
  EXPECT_TRUE(service_.watch.seen.log.empty() && service_.chat.seen.log.empty());
}

TEST_F(RpcJson, AnUnknownMethodIsAPlain404) { EXPECT_EQ(run("Nope", "{}")->response.status, 404); }

}  // namespace
}  // namespace weir::wire
