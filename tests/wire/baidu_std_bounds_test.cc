// The bounds of one connection of baidu_std, and its end.
#include "baidu_std_fixture.h"

namespace weir::wire::baidu {
namespace {

TEST_F(BaiduStd, WhatIsNoPacketEndsTheConnection) {
  const std::string good = text_field(1, text_field(1, "test.Service") + text_field(2, "Echo"));
  const std::vector<std::string> bad = {
      "PRPX" + size(10) + size(5),
      "PRPC" + size(5) + size(10) + good,  // the meta is longer than the body
      packet("", "x"),
      packet("\x0a", "x"),
      packet(good + "\x0b", "x"),              // no request; cut; a type that is none
      packet(good + number_field(5, 9), "x"),  // the attachment is longer than the rest
      packet(good + number_field(5, uint64_t(-1)), "x"),
      "PRPC" + size(1 << 30) + size(1 << 20)};
  for (const auto& bytes : bad) {
    codec_.reset();
    feed(ask("Slow", 1, "x"));  // under way: it is still answered
    feed(bytes);
    EXPECT_FALSE(codec().wants_read()) << bytes;
    EXPECT_FALSE(codec().finished());
    service_.slow.seen.rpc->send(base::Bytes::copy_of("y"));
    service_.slow.seen.rpc->finish({});
    EXPECT_EQ("y", replies()[1].message);
    EXPECT_TRUE(codec().finished());
  }
}

TEST_F(BaiduStd, AMessageThatIsTooLongIsRefusedBeforeItHasCome) {
  const std::string all = ask("Echo", 7, std::string(300, 'x'));
  const std::string meta = all.substr(12, size_at(all, 8));
  feed("PRPC" + size(meta.size() + (100 << 20)) + size(meta.size()) + meta + "x");
  EXPECT_EQ(1003u, replies()[7].error);  // EREQUEST: nobody sends it again
  EXPECT_TRUE(codec().finished());
  EXPECT_EQ(0, service_.echo.calls);
}

TEST_F(BaiduStd, RequestsBeyondTheLimitWaitWithThePeer) {
  limits_.streams = 2;
  std::string all;
  for (uint64_t id = 1; id <= 4; ++id) all += ask(id == 4 ? "Echo" : "Slow", id, "x");
  feed(all);
  EXPECT_EQ(2u, service_.slow.seen.log.size());
  EXPECT_TRUE(codec().wants_read());  // for its end might come
  feed(ask("Echo", 5, std::string(70'000, 'x')));
  EXPECT_FALSE(codec().wants_read());
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(2));
  EXPECT_EQ(3u, std::count(service_.slow.seen.log.begin(), service_.slow.seen.log.end(), "unary:x"));
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(3));
  replies();
  EXPECT_EQ((std::vector<uint64_t>{2, 3, 4, 5}), order_);
  EXPECT_TRUE(codec().wants_read());
}

TEST_F(BaiduStd, AnswersThatNobodyTakesCountAsCalls) {
  base::MemoryLedger ledger(64 << 20);
  bench_.slabs.memory = &ledger;
  limits_.streams = 10;
  std::string all;
  for (uint64_t id = 1; id <= 12; ++id) all += ask("Echo", id, "x");
  feed(all);
  EXPECT_EQ(10, service_.echo.calls);
  EXPECT_GT(ledger.held(), 10 * 1024u);
  EXPECT_EQ(12u, replies().size());
  EXPECT_EQ(12, service_.echo.calls);
  EXPECT_TRUE(codec().wants_read());
  pass(4s);
  EXPECT_EQ(0u, ledger.held());
  codec_.reset();
}

TEST_F(BaiduStd, AReadHasALimitOfRequests) {
  limits_.requests_per_read = 3;
  std::string all;
  for (uint64_t id = 1; id <= 8; ++id) all += ask(id % 2 != 0 ? "Echo" : "Nope", id, "x");
  feed(all);
  EXPECT_TRUE(wire_.tick_wanted);
  EXPECT_FALSE(codec().wants_read());
  EXPECT_EQ(3u, replies().size());  // taken in the same turn: no more of them are served
  for (size_t more : {3u, 2u}) {
    codec().tick(wire_.now());
    EXPECT_EQ(more, replies().size());
  }
  EXPECT_TRUE(codec().wants_read());
}

TEST_F(BaiduStd, SlowPeersAreCutOff) {
  feed("PRPC\0\0");
  pass(limits_.head + 2s);
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  const std::string call = ask("Nope", 7, std::string(4000, 'x'));
  feed(std::string_view(call).substr(0, 200));  // refused at once: what follows is nobody's
  EXPECT_EQ(1002u, replies()[7].error);
  EXPECT_FALSE(codec().finished());
  pass(2 * limits_.grace + 2s);
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  feed(ask("Echo", 7, std::string(100'000, 'x')));
  pass(2 * limits_.grace + 2s);  // it does not take its answer
  EXPECT_TRUE(codec().finished());
  EXPECT_TRUE(take_output(codec()).empty());

  codec_.reset();
  EXPECT_EQ("x", talk(ask("Echo", 7, "x")).message);
  pass(limits_.stream_idle);
  EXPECT_FALSE(codec().finished());
  pass(2s);
  EXPECT_TRUE(codec().finished());
}

TEST_F(BaiduStd, CallsEndWithTheirConnection) {
  feed(ask("Slow", 1, "x"));
  codec().closed();
  EXPECT_EQ("close", service_.slow.seen.log.back());
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  feed(ask("Echo", 2, "kept") + ask("Slow", 3, "x"));
  codec().eof();
  EXPECT_EQ("close", service_.slow.seen.log.back());
  EXPECT_EQ("kept", replies()[2].message);
  EXPECT_TRUE(codec().finished());
}

TEST_F(BaiduStd, AServerThatEndsSaysSo) {
  feed(ask("Slow", 1, "x"));
  codec().drain(Drain::kAnnounce);
  EXPECT_EQ("y", talk(ask("Echo", 7, "y")).message);
  codec().drain(Drain::kRefuse);
  EXPECT_EQ(2003u, talk(ask("Echo", 7, "y")).error);  // ELOGOFF
  EXPECT_FALSE(codec().finished());
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(1));
  EXPECT_TRUE(codec().finished());
}

}  // namespace
}  // namespace weir::wire::baidu
