#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "support/fake_offload.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "wire/rpc_call.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::RpcBench;
using namespace std::chrono_literals;

using Log = std::vector<std::string>;

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

// The work of a turn is counted in messages, not in time.
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

}  // namespace
}  // namespace weir::wire
