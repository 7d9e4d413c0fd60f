// Frames of a call that wait: for the answers before them to go out, for a slab, for the next turn.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "grpc_fixture.h"

namespace weir::wire {
namespace {

using support::grpc_frame;
using support::grpc_status;
using namespace std::chrono_literals;

class GrpcHeld : public Grpc {};

TEST_F(GrpcHeld, APeerThatDoesNotReadItsAnswersIsNotReadEither) {
  auto x = open("Stream");
  x->fake_backlog = Exchange::kHighWater + 1;
  RpcBench::data(*x, grpc_frame("a"));
  RpcBench::end(*x);
  EXPECT_EQ(service().stream.seen.log, Log{});
  EXPECT_EQ(x->consumed, 0u);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(service().stream.seen.log, (Log{"drain", "message:a", "half-close"}));
  EXPECT_EQ(x->consumed, 6u);
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(GrpcHeld, WhatIsHeldIsLeftAloneAfterTheClose) {
  service();
  auto x = open("Stream");
  bench().slabs.empty = true;
  std::string body = grpc_frame("a") + grpc_frame("b");
  RpcBench::data(*x, body);
  x->listener()->on_close(*x, false);  // nothing of what is held may be touched after this
  bench().slabs.empty = false;
  bench().advance(*x, 20ms);
  EXPECT_EQ(service().stream.seen.log, (Log{"close"}));
}

TEST_F(GrpcHeld, ManySmallMessagesOfOneReadAreSpreadOverTurns) {
  std::string frames;
  for (int i = 0; i < 3000; ++i) frames += grpc_frame("");
  auto x = open("Collect");
  RpcBench::data(*x, frames);
  RpcBench::end(*x);
  auto& log = service().collect.seen.log;
  size_t most = log.size();
  for (int turn = 0; log.back() != "half-close"; ++turn) {
    ASSERT_LT(turn, 100);
    EXPECT_EQ(x->consumed, 0u) << "what waits holds the peer";
    size_t before = log.size();
    bench().advance(*x, 1us);
    most = std::max(most, log.size() - before);
  }
  EXPECT_EQ(log.size(), 3002u);
  EXPECT_LE(most, 2u + 1024u);
  EXPECT_EQ(x->consumed, frames.size());
}

TEST_F(GrpcHeld, WhatComesBehindWhatIsHeldKeepsItsPlace) {
  auto x = open("Collect");
  int sent = 0;
  auto more = [&](int count) {
    std::string frames;
    for (int i = 0; i < count; ++i) frames += grpc_frame(std::to_string(sent++));
    RpcBench::data(*x, frames);
  };
  for (int count : {3000, 5, 2500, 1, 700}) {
    more(count);
    bench().advance(*x, 1us);
  }
  RpcBench::end(*x);
  auto& log = service().collect.seen.log;
  for (int turn = 0; log.back() != "half-close"; ++turn) {
    ASSERT_LT(turn, 100);
    bench().advance(*x, 1us);
  }
  size_t at = 0;
  for (int i = 0; i < sent; ++i) {
    while (at < log.size() && !log[at].starts_with("message:")) ++at;
    ASSERT_LT(at, log.size());
    ASSERT_EQ(log[at++], "message:" + std::to_string(i));
  }
}

}  // namespace
}  // namespace weir::wire
