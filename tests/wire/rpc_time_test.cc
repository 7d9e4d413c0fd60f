// Calls of gRPC in time: messages that come slowly, deadlines.
#include <gtest/gtest.h>

#include <chrono>

#include "grpc_fixture.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using base::Bytes;
using base::Code;
using support::grpc_frame;
using support::grpc_message;
using support::grpc_status;
using namespace std::chrono_literals;

TEST_F(Grpc, AMessageThatDripsIsCutOff) {
  options_.min_body_rate = 1024;
  auto x = open("Echo");
  std::string body = grpc_frame(std::string(1000, 'x'));
  int seconds = 0;
  for (; seconds < 60 && !x->ended; ++seconds) {
    RpcBench::data(*x, body.substr(size_t(seconds) * 10, 10));
    bench().advance(*x, std::chrono::seconds(1));
  }
  EXPECT_EQ(seconds, 10);
  EXPECT_EQ(grpc_status(*x), 4);
  EXPECT_EQ(x->record().reject, reason::kSlowBody);
}

TEST_F(Grpc, WhereMemoryIsScarceALargeMessageMustComeSwiftly) {
  options_.min_body_rate = 1024;
  options_.max_message = 8 << 20;
  auto x = open("Echo");
  RpcBench::data(*x, grpc_frame(std::string(6 << 20, 'x')).substr(0, 3 << 20));
  auto drip = [&](int seconds) {
    int i = 0;
    for (; i < seconds && !x->ended; ++i) {
      RpcBench::data(*x, std::string(5000, 'x'));
      bench().advance(*x, std::chrono::seconds(1));
    }
    return i;
  };
  EXPECT_EQ(drip(100), 100);
  bench().slabs.is_scarce = true;
  EXPECT_LE(drip(100), 10);
  EXPECT_EQ(x->record().reject, reason::kSlowBody);
}

TEST_F(Grpc, AStreamMayPauseBetweenMessagesButNotInsideOne) {
  options_.min_body_rate = 1024;
  auto x = open("Chat");
  RpcBench::data(*x, grpc_frame("a"));
  bench().advance(*x, std::chrono::minutes(5));
  EXPECT_FALSE(x->ended);
  EXPECT_EQ(bench().env.armed(), 0u) << "no timer where nothing is owed";
  RpcBench::data(*x, grpc_frame("b").substr(0, 3));
  bench().advance(*x, std::chrono::seconds(9));
  EXPECT_FALSE(x->ended);
  bench().advance(*x, std::chrono::seconds(1));
  EXPECT_EQ(grpc_status(*x), 4);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:a", "close"}));
}

TEST_F(Grpc, AMessageThatKeepsComingIsTakenHoweverLongItIs) {
  options_.min_body_rate = 1024;
  auto x = open("Echo");
  std::string body = grpc_frame(std::string(100'000, 'x'));
  for (size_t at = 0; at < body.size(); at += 2000) {
    RpcBench::data(*x, body.substr(at, 2000));
    bench().advance(*x, std::chrono::seconds(1));
  }
  RpcBench::end(*x);
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(Grpc, TheTimeoutBecomesTheDeadline) {
  auto x = run("Echo", grpc_frame("a"), {{"grpc-timeout", "150m"}});
  EXPECT_EQ(service().echo.deadline, bench().env.now() + 150ms);
  run("Echo", grpc_frame("a"), {{"grpc-timeout", "99999999H"}});
  EXPECT_EQ(service().echo.deadline, base::kNever);
  run("Echo", grpc_frame("a"));
  EXPECT_EQ(service().echo.deadline, base::kNever);
}

TEST_F(Grpc, ABadTimeoutIsInternalAndZeroIsOverAtOnce) {
  for (auto text : {"1x", "123456789S", "", "-1S", "S"}) {
    auto x = run("Echo", grpc_frame("a"), {{"grpc-timeout", text}});
    EXPECT_EQ(grpc_status(*x), 13) << text;
    EXPECT_EQ(x->record().reject, reason::kGrpcTimeout);
  }
  for (auto text : {"0n", "0H", "00000000S"})
    EXPECT_EQ(grpc_status(*run("Echo", grpc_frame("a"), {{"grpc-timeout", text}})), 4) << text;
  EXPECT_EQ(service().echo.calls, 0);
}

TEST_F(Grpc, ADeadlineThatPassesWhileTheRequestComesInIsExceeded) {
  auto x = open("Echo", {{"grpc-timeout", "10m"}});
  RpcBench::data(*x, grpc_frame("a"));
  bench().advance(*x, 10ms);
  RpcBench::end(*x);
  EXPECT_EQ(grpc_status(*x), 4);
  EXPECT_EQ(service().echo.calls, 0);
}

TEST_F(Grpc, ACallWhoseRequestDoesNotComeEndsAtItsDeadline) {
  for (const char* method : {"Echo", "Spell", "Collect", "Chat"}) {
    auto x = open(method, {{"grpc-timeout", "100m"}});
    bench().advance(*x, 99ms);
    EXPECT_FALSE(x->ended) << method;
    bench().advance(*x, 1ms);
    EXPECT_EQ(grpc_status(*x), 4) << method;
    EXPECT_EQ(bench().env.armed(), 0u) << method;
  }
  EXPECT_EQ(service().echo.calls, 0);
}

// It passes the deadline on, with its Call.
TEST_F(Grpc, AUnaryMethodThatHasItsRequestEndsItself) {
  auto x = open("Slow", {{"grpc-timeout", "100m"}});
  RpcBench::data(*x, grpc_frame("a"));
  EXPECT_EQ(bench().env.armed(), 1u);
  RpcBench::end(*x);
  EXPECT_EQ(bench().env.armed(), 0u);
  bench().advance(*x, 1s);
  EXPECT_FALSE(x->ended);
  service().slow.seen.rpc->finish({});
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(Grpc, AStreamEndsAtItsDeadline) {
  auto x = open("Chat", {{"grpc-timeout", "1S"}});
  RpcBench::data(*x, grpc_frame("a"));
  service().chat.seen.rpc->send(Bytes::copy_of("m"));
  bench().advance(*x, 999ms);
  EXPECT_FALSE(x->ended);
  bench().advance(*x, 1ms);
  EXPECT_EQ(grpc_status(*x), 4);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:a", "close"}));
  x->close(true);
  EXPECT_EQ(service().chat.seen.log.size(), 3u);
}

TEST_F(Grpc, NoTimerOutlivesItsCall) {
  {
    auto x = open("Chat", {{"grpc-timeout", "1S"}});
    EXPECT_EQ(bench().env.armed(), 1u);
    service().chat.seen.rpc->finish({});
    EXPECT_EQ(bench().env.armed(), 0u);
    auto y = open("Chat", {{"grpc-timeout", "1S"}});
  }
  EXPECT_EQ(bench().env.armed(), 0u);
}

}  // namespace
}  // namespace weir::wire
