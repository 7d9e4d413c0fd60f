#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "support/fake_offload.h"
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

// Texts and answers that are long, with workers that work when the test says so.
class LongRpcJson : public testing::Test {
 protected:
  LongRpcJson() { bench_.server().set_worker_pool(offload_); }
  RpcBench::Opened run(std::string method, std::string_view body) {
    return bench_.run("/test.Service/" + method, body, "application/json", {}, Version::kHttp11);
  }
  static std::string quoted(size_t n, char c = 'x') { return "\"" + std::string(n, c) + "\""; }

  support::QuoteJson json_;
  support::FakeOffload offload_;
  RpcBench bench_{&json_};
  support::TestService service_{bench_.server()};
};

TEST_F(LongRpcJson, ALongTextIsReadByAWorkerAndALongAnswerWrittenByOne) {
  std::string body = quoted(kLongText);
  auto x = run("Echo", body);
  EXPECT_EQ(offload_.waiting(), 1u);
  EXPECT_EQ(json_.types, Log{}) << "nothing is done on the shard";
  EXPECT_EQ(service_.echo.calls, 0);
  offload_.work_one();
  EXPECT_EQ(service_.echo.calls, 1);
  EXPECT_FALSE(x->headed);
  offload_.work_one();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(x->sent == body);
  EXPECT_EQ(offload_.sent, 2u);
}

TEST_F(LongRpcJson, AShortTextIsReadWhereItCameIn) {
  auto x = run("Echo", quoted(100));
  EXPECT_EQ(offload_.sent, 0u);
  EXPECT_EQ(x->response.status, 200);
}

TEST_F(LongRpcJson, LinesAndAnswersKeepTheirOrderAroundLongOnes) {
  std::string text = quoted(kLongText, 'l');
  auto x = run("Stream", "\"a\"\n" + text + "\n\"b\"\n");
  EXPECT_EQ(service_.stream.seen.log, Log{"message:a"});
  offload_.work_one();      // the text; its answer is on its way now
  bench_.advance(*x, 1us);  // the next line, whose answer waits behind that
  EXPECT_EQ(service_.stream.seen.log.size(), 4u);
  EXPECT_EQ(service_.stream.seen.log.back(), "half-close");
  EXPECT_TRUE(x->sent == "\"a\"\n");
  EXPECT_FALSE(x->ended);
  offload_.work();
  EXPECT_TRUE(x->sent == "\"a\"\n" + text + "\n\"b\"\n");
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->record().code, Code::kOk);
}

TEST_F(LongRpcJson, AClientThatLeavesTakesItsWorkAlong) {
  { auto x = run("Echo", quoted(kLongText)); }
  EXPECT_EQ(offload_.cancelled, 1u);
  {
    auto x = run("Echo", quoted(kLongText));
    offload_.work_one();
  }
  EXPECT_EQ(offload_.cancelled, 2u) << "the answer is not written either";
  EXPECT_EQ(offload_.waiting(), 0u);
}

TEST_F(LongRpcJson, ATextThatIsWrongIsRefusedWhenItHasBeenRead) {
  auto x = run("Echo", std::string(kLongText + 1, 'x'));
  offload_.work();
  EXPECT_EQ(x->response.status, 400);
  EXPECT_EQ(x->sent, R"({"code":3,"message":"not a string"})");
}

TEST_F(LongRpcJson, WorkersThatAreFullRefuseTheCall) {
  offload_.refusal = base::try_again(Code::kResourceExhausted, "full");
  auto x = run("Echo", quoted(kLongText));
  EXPECT_EQ(x->response.status, 429);
  offload_.refusal = {};
  auto y = run("Echo", quoted(kLongText));
  offload_.fail(base::try_again(Code::kUnavailable, "ends"));
  EXPECT_EQ(y->response.status, 503);
}

TEST_F(LongRpcJson, AnAnswerThatCannotBeWrittenIsAnErrorInItsPlace) {
  auto x = run("Watch", "\"a\"");
  service_.watch.seen.rpc->send(Bytes::copy_of("first"));
  service_.watch.seen.rpc->send(Bytes::copy_of(std::string(kLongMessage + 1, 'x')));
  service_.watch.seen.rpc->send(Bytes::copy_of("third"));
  EXPECT_GT(service_.watch.seen.rpc->backlog(), kLongMessage) << "what waits counts";
  service_.watch.seen.rpc->finish({});
  offload_.fail(base::failure(Code::kResourceExhausted, "none"));
  EXPECT_EQ(x->sent, "\"first\"\n{\"error\":{\"code\":8,\"message\":\"none\"}}\n");
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->record().code, Code::kResourceExhausted);
}

// What a turn does is counted in messages, not in time.
TEST_F(LongRpcJson, ManyLinesAreSpreadOverTurns) {
  std::string body;
  for (int i = 0; i < 2000; ++i) body += "{}\n";
  auto x = run("Collect", body);
  size_t most = 0;
  for (int turn = 0; service_.collect.seen.log.back() != "half-close"; ++turn) {
    ASSERT_LT(turn, 100);
    size_t before = service_.collect.seen.log.size();
    bench_.advance(*x, 1us);
    most = std::max(most, service_.collect.seen.log.size() - before);
  }
  EXPECT_EQ(service_.collect.seen.log.size(), 2002u);
  EXPECT_LE(most, kWorkPerTurn / kWorkPerMessage);
  EXPECT_GE(most, 50u) << "a turn is for more than a handful";
}

TEST_F(LongRpcJson, CallsShareATurnAndEachHasItsPartInTheNextOnes) {
  std::string body;
  for (int i = 0; i < 400; ++i) body += "{}\n";
  std::vector<RpcBench::Opened> calls;
  auto& log = service_.collect.seen.log;
  auto ended = [&] { return size_t(std::count(log.begin(), log.end(), "half-close")); };
  size_t most = 0;
  for (int i = 0; i < 8; ++i) calls.push_back(run("Collect", body));
  std::vector<size_t> half_closes;  // after each turn in which something was done
  for (int turn = 0; ended() < calls.size(); ++turn) {
    ASSERT_LT(turn, 100'000);
    const size_t before = log.size();
    bench_.advance(*calls[0], 1ns);
    if (log.size() == before) continue;
    most = std::max(most, log.size() - before);
    half_closes.push_back(ended());
  }
  EXPECT_LE(most, kAllWorkPerTurn / kWorkPerMessage + 10);
  EXPECT_GE(half_closes.size(), 20u);
  EXPECT_EQ(half_closes[half_closes.size() / 2], 0u) << "none is served before all others";
}

// As when a batch of answers comes back at once.
TEST_F(LongRpcJson, ManyShortAnswersAreWrittenOverTurnsAndTheStatusBehindThem) {
  auto x = run("Watch", "\"a\"");
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    service_.watch.seen.rpc->send(Bytes::copy_of(std::string(200, char('a' + i % 26))));
    all += quoted(200, char('a' + i % 26)) + '\n';
  }
  EXPECT_LE(x->sent.size(), kAllWorkPerTurn);
  EXPECT_GT(service_.watch.seen.rpc->backlog(), 1000u * 200 - kAllWorkPerTurn);
  service_.watch.seen.rpc->finish({});
  EXPECT_FALSE(x->ended);
  size_t most = 0;
  for (int turn = 0; !x->ended; ++turn) {
    ASSERT_LT(turn, 100);
    const size_t before = x->sent.size();
    bench_.advance(*x, 1us);
    most = std::max(most, x->sent.size() - before);
  }
  EXPECT_LE(most, kAllWorkPerTurn);
  EXPECT_TRUE(x->sent == all);
  EXPECT_EQ(offload_.sent, 0u) << "a hop for each would cost more";
}

TEST_F(LongRpcJson, EmptyLinesTakeTurnsToo) {
  auto x = run("Collect", std::string(100'000, '\n') + "\"a\"");
  EXPECT_EQ(service_.collect.seen.log, Log{"open"});
  for (int turn = 0; turn < 100; ++turn) bench_.advance(*x, 1us);
  EXPECT_EQ(service_.collect.seen.log, (Log{"open", "message:a", "half-close"}));
}

TEST_F(RpcJson, AnUnknownMethodIsAPlain404) { EXPECT_EQ(run("Nope", "{}")->response.status, 404); }

}  // namespace
}  // namespace weir::wire
