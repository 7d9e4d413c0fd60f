#include "net/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <map>

#include "lab.h"

namespace weir::net {
namespace {

using lab::loopback;
using lab::pattern;
using lab::Peer;
using lab::Running;

constexpr std::string_view kName = "sniff:";

TEST(Server, EchoesWhatArrivesByteByByte) {
  Running rig;
  Peer peer(rig.port());
  std::string text = pattern(300);
  for (char c : text) ASSERT_TRUE(peer.send({&c, 1}));
  EXPECT_EQ(peer.read(kName.size() + text.size()), std::string(kName) + text);
}

TEST(Server, ServesManyConnectionsOnAllShards) {
  Running rig(loopback(), 3);
  std::vector<Peer> peers;
  for (int i = 0; i < 300; ++i) peers.emplace_back(rig.port());
  for (auto& peer : peers) ASSERT_TRUE(peer.send("hello"));
  for (auto& peer : peers) EXPECT_EQ(peer.read(11), "sniff:hello");
  EXPECT_EQ(rig.server->connections(), 300u);
  EXPECT_EQ(rig.metric("weir_connections"), "300");
  EXPECT_EQ(rig.metric("weir_connections_total{by=\"tcp\"}"), "300");
  peers.clear();
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0 && rig.lab.codecs == 0; }));
  EXPECT_EQ(rig.metric("weir_connections_closed_total{by=\"peer\"}"), "300");
}

TEST(Server, AConnectionThatSaysNothingCostsNoCodec) {
  Running rig;
  Peer silent(rig.port());
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 1; }));
  EXPECT_EQ(rig.lab.made, 0);
}

TEST(Server, ASilentConnectionIsClosedAfterTheSniffTime) {
  wire::Limits limits;
  limits.sniff = std::chrono::nanoseconds(1);
  Running rig(loopback(), 1, limits);
  Peer silent(rig.port());
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(rig.lab.until([&] { return rig.metric("weir_connections_closed_total{by=\"idle\"}") == "1"; }));
}

TEST(Server, ASlowReaderGetsEverythingAndHoldsTheSenderBack) {
  Running rig;
  Peer peer(rig.port());
  const std::string text = pattern(24 << 20);
  std::thread sender([&] { EXPECT_TRUE(peer.send(text)); });
  // The codec stops wanting at 1 MiB of backlog: the sender blocks until somebody reads.
  ASSERT_EQ(peer.read(kName.size()), kName);
  std::string got;
  while (got.size() < text.size()) {
    auto piece = peer.read(std::min<size_t>(1 << 20, text.size() - got.size()));
    ASSERT_FALSE(piece.empty());
    got += piece;
  }
  sender.join();
  EXPECT_TRUE(got == text);
}

TEST(Server, AnElephantDoesNotKeepAMouseWaiting) {
  Running rig;
  Peer elephant(rig.port()), mouse(rig.port());
  ASSERT_TRUE(elephant.send("!send 67108864\n"));
  ASSERT_EQ(elephant.read(kName.size()), kName);
  ASSERT_TRUE(mouse.send("hi"));
  EXPECT_EQ(mouse.read(8), "sniff:hi");
  EXPECT_TRUE(elephant.read(64 << 20) == pattern(64 << 20));
}

TEST(Server, ACodecThatDoesNotWantToReadIsNotFed) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!stop\n"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.stopped == 1; }));
  int before = rig.lab.received;
  ASSERT_TRUE(peer.send("later"));
  // The next sweep ticks the codec, which then wants again.
  EXPECT_EQ(peer.read(11), "sniff:later");
  EXPECT_EQ(rig.lab.stopped, 0);
  EXPECT_EQ(rig.lab.received, before + 5);
}

TEST(Server, RoomForRequestsWakesThoseHeldBack) {
  Running rig(loopback(), 2);
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!stop\n"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.stopped == 1; }));
  rig.server->resume_reading();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.stopped == 0; }));
}

TEST(Server, AfterAHalfCloseTheRestIsStillAnswered) {
  Running rig;
  Peer peer(rig.port());
  const std::string text = pattern(3 << 20);
  std::thread sender([&] {
    EXPECT_TRUE(peer.send(text));
    peer.half_close();
  });
  EXPECT_TRUE(peer.read_all() == std::string(kName) + text);
  sender.join();
  EXPECT_EQ(rig.lab.eofs, 1);
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.codecs == 0; }));
}

TEST(Server, AnOpenExchangeOutlivesAHalfClose) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!open\n"));
  ASSERT_EQ(peer.read(13), "sniff:opened\n");
  peer.half_close();
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 1; }));
  EXPECT_EQ(rig.server->connections(), 1u);
}

TEST(Server, TakesNoMoreConnectionsThanHalfOfTheDescriptors) {
  for (uint32_t wanted : {2u, UINT32_MAX}) {
    auto options = loopback();
    options.max_connections = wanted;
    Running rig(options);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(rig.server->max_connections(), std::min<rlim_t>(wanted, limit.rlim_cur / 2));
  }
}

TEST(Server, AResetEndsTheConnection) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!open\n"));
  ASSERT_EQ(peer.read(13), "sniff:opened\n");
  peer.reset();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.closes == 1 && rig.lab.codecs == 0; }));
}

TEST(Server, AResetIsNoticedWhileNothingIsRead) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!open\n"));
  ASSERT_EQ(peer.read(13), "sniff:opened\n");
  peer.half_close();
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 1; }));
  peer.reset();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.closes == 1; }));
}

TEST(Server, TheLastAnswerIsNotLostToAReset) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!close\n"));
  // Bytes that nobody wants arrive after the server has said its last word.
  std::string unwanted = pattern(1 << 20);
  std::thread sender([&] { peer.send(unwanted), peer.half_close(); });
  EXPECT_EQ(peer.read_all(), "sniff:bye\n");
  EXPECT_EQ(peer.error(), 0);
  sender.join();
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0; }));
}

TEST(Server, APeerThatDoesNotCloseIsLeftAfterAMoment) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_EQ(peer.read_all(), "sniff:bye\n");
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0; }));
  EXPECT_EQ(rig.metric("weir_connections_closed_total{by=\"server\"}"), "1");
}

TEST(Server, WhatACodecThrowsEndsItsConnectionAndNoOther) {
  Running rig;
  Peer other(rig.port());
  ASSERT_TRUE(other.send("a"));
  EXPECT_EQ(other.read(7), "sniff:a");
  for (std::string_view command : {"!throw\n", "!throw later\n", "!throw a library's\n"}) {
    Peer peer(rig.port());
    ASSERT_TRUE(peer.send(command));
    EXPECT_TRUE(peer.ended()) << command;
    ASSERT_TRUE(other.send("b"));
    EXPECT_EQ(other.read(1), "b");
  }
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.codecs == 1; }));
  EXPECT_EQ(rig.metric("weir_connections_closed_total{by=\"error\"}"), "3");
}

TEST(Server, ConnectionsAboveTheLimitAreClosed) {
  auto options = loopback();
  options.max_connections = 2;
  Running rig(options);
  Peer first(rig.port()), second(rig.port());
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 2; }));
  Peer third(rig.port());
  EXPECT_TRUE(third.ended());
  EXPECT_TRUE(rig.lab.until([&] { return rig.metric("weir_connections_refused_total") == "1"; }));
  first.reset();
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 1; }));
  Peer fourth(rig.port());
  ASSERT_TRUE(fourth.send("x"));
  EXPECT_EQ(fourth.read(7), "sniff:x");
}

TEST(Server, OneClientCannotHaveAllConnections) {
  auto options = loopback();
  options.max_connections = 40;
  Running rig(options);
  std::vector<std::unique_ptr<Peer>> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(std::make_unique<Peer>(rig.port(), "127.0.0.1", "127.6.6.6"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 20; })) << "while there is room all are welcome";
  Peer more(rig.port(), "127.0.0.1", "127.6.6.6");
  EXPECT_TRUE(more.ended());
  EXPECT_EQ(rig.metric("weir_connections_over_share_total"), "1");
  // Others have the rest, each up to a share, and a trusted proxy more than that.
  std::vector<std::unique_ptr<Peer>> others;
  for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<Peer>(rig.port(), "127.0.0.1", "127.0.0.2"));
  for (int i = 0; i < 12; ++i) others.push_back(std::make_unique<Peer>(rig.port(), "127.0.0.1", "127.9.0.1"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 40; }));
  for (auto& peer : others) {
    ASSERT_TRUE(peer->send("x"));
    EXPECT_EQ(peer->read(7), "sniff:x");
  }
  greedy.resize(5);
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 25; }));
  Peer again(rig.port(), "127.0.0.1", "127.6.6.6");
  ASSERT_TRUE(again.send("x"));
  EXPECT_EQ(again.read(7), "sniff:x");
}

TEST(Server, AProxyHeaderNamesTheClient) {
  auto options = loopback();
  options.proxy_protocol = base::NetworkList::parse({"127.9.0.0/16"}).value();
  Running rig(options);
  Peer proxied(rig.port(), "127.0.0.1", "127.9.0.1");
  ASSERT_TRUE(proxied.send("PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\nhello"));
  EXPECT_EQ(proxied.read(11), "sniff:hello");
  EXPECT_EQ(rig.clients.enter("192.0.2.7", base::Client::Limited::kYes)->held(base::Held::kConnections), 1u);
  EXPECT_EQ(rig.clients.enter("127.9.0.1", base::Client::Limited::kNo)->held(base::Held::kConnections), 0u);
  // Bytes that come later than the header.
  Peer slow(rig.port(), "127.0.0.1", "127.9.0.1");
  ASSERT_TRUE(slow.send("PROXY TCP4 192.0.2.8 127.0"));
  ASSERT_TRUE(slow.send(".0.1 5000 80\r\n"));
  ASSERT_TRUE(rig.lab.until([&] {
    return rig.clients.enter("192.0.2.8", base::Client::Limited::kYes)->held(base::Held::kConnections) == 1;
  }));
  ASSERT_TRUE(slow.send("x"));
  EXPECT_EQ(slow.read(7), "sniff:x");
  // From a listed peer nothing else is taken, and from others no header is one.
  Peer bare(rig.port(), "127.0.0.1", "127.9.0.1");
  ASSERT_TRUE(bare.send("GET / HTTP/1.1\r\n"));
  EXPECT_TRUE(bare.ended());
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.rejects() == std::vector<std::string>{"proxy"}; }));
  Peer forger(rig.port());
  ASSERT_TRUE(forger.send("PROXY TCP4 192.0.2.9 127.0.0.1 5000 80\r\n"));
  EXPECT_EQ(forger.read(12), "sniff:PROXY ");
  EXPECT_EQ(rig.clients.enter("192.0.2.9", base::Client::Limited::kYes)->held(base::Held::kConnections), 0u);
}

TEST(Server, WhenDescriptorsRunOutItTurnsAwayAndRecovers) {
  Running rig;
  Peer early(rig.port());
  ASSERT_TRUE(early.send("x"));
  ASSERT_EQ(early.read(7), "sniff:x");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<Fd> filler;
  rlimit tight = before;
  tight.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  while (true) {
    Fd one(::dup(0));
    if (!one) break;
    filler.push_back(std::move(one));
  }
  filler.pop_back();
  Peer turned_away(rig.port());  // takes the last one
  ASSERT_TRUE(turned_away.connected());
  EXPECT_TRUE(turned_away.ended());
  EXPECT_TRUE(rig.lab.until([&] { return rig.metric("weir_accept_starved_total") == "1"; }));
  filler.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  Peer welcome(rig.port());
  ASSERT_TRUE(welcome.send("x"));
  EXPECT_EQ(welcome.read(7), "sniff:x");
}

TEST(Drain, WaitsForTheOpenExchangeAndThenIsClean) {
  Running rig(loopback(), 2);
  Peer busy(rig.port()), idle(rig.port());
  ASSERT_TRUE(busy.send("!open\n") && idle.send("x"));
  ASSERT_EQ(busy.read(13), "sniff:opened\n");
  ASSERT_EQ(idle.read(7), "sniff:x");
  std::promise<bool> done;
  rig.server->drain([&](bool clean) { done.set_value(clean); });
  EXPECT_TRUE(idle.ended());
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.refused == 2; }));
  EXPECT_EQ(rig.lab.announced, 2);
  EXPECT_FALSE(Peer(rig.port()).connected()) << "the listeners are closed";
  ASSERT_TRUE(busy.send("!done\n"));
  EXPECT_EQ(busy.read_all(), "done\n");
  busy.reset(), idle.reset();
  EXPECT_TRUE(done.get_future().get());
  EXPECT_EQ(rig.server->connections(), 0u);
}

TEST(Drain, OfAnEmptyServerIsClean) {
  Running rig(loopback(), 2);
  std::promise<bool> done;
  rig.server->drain([&](bool clean) { done.set_value(clean); });
  EXPECT_TRUE(done.get_future().get());
}

TEST(Drain, AtTheTimeoutClosesWhatIsLeftAndSaysSo) {
  auto options = loopback();
  options.drain_timeout = std::chrono::milliseconds(200);
  Running rig(options, 2);
  Peer busy(rig.port());
  ASSERT_TRUE(busy.send("!open\n"));
  ASSERT_EQ(busy.read(13), "sniff:opened\n");
  std::promise<bool> done;
  rig.server->drain([&](bool clean) { done.set_value(clean); });
  EXPECT_FALSE(done.get_future().get());
  EXPECT_TRUE(busy.ended());
}

TEST(Drain, TellsAndClosesManyConnectionsInSeveralTurns) {
  constexpr int kPeers = 8;
  auto options = loopback();
  options.drain_timeout = std::chrono::milliseconds(200);
  Running rig(options);
  rig.lab.slow = true;
  rig.shards[0]->post([&] { rig.shards[0]->at_turn_end([&] { ++rig.lab.turn; }); });
  std::vector<Peer> peers;
  for (int i = 0; i < kPeers; ++i) {
    peers.emplace_back(rig.port());
    ASSERT_TRUE(peers.back().send("!open\n"));
    ASSERT_EQ(peers.back().read(13), "sniff:opened\n");
  }
  std::promise<bool> done;
  rig.server->drain([&](bool clean) { done.set_value(clean); });
  EXPECT_FALSE(done.get_future().get());
  for (auto& peer : peers) EXPECT_TRUE(peer.ended());
  EXPECT_EQ(rig.lab.refused, kPeers);
  EXPECT_EQ(rig.lab.closes, kPeers);
  rig.server.reset();
  std::map<int, int> in_turn;
  for (int turn : rig.lab.slow_turns) ++in_turn[turn];
  // A turn that is long already does one thing of each kind.
  for (auto [turn, count] : in_turn) EXPECT_LE(count, 2);
}

TEST(Drain, ASecondOneIsTheFirst) {
  Running rig;
  std::atomic<int> calls{0};
  std::promise<void> done;
  rig.server->drain([&](bool) { ++calls, done.set_value(); });
  rig.server->drain([&](bool) { ++calls; });
  done.get_future().wait();
  EXPECT_EQ(calls, 1);
}

TEST(Drain, AServerMayGoAwayInTheMiddle) {
  Running rig(loopback(), 2);
  Peer busy(rig.port());
  ASSERT_TRUE(busy.send("!open\n"));
  ASSERT_EQ(busy.read(13), "sniff:opened\n");
  rig.server->drain([](bool) { FAIL() << "nobody is left to hear of it"; });
  rig.server.reset();
  EXPECT_TRUE(busy.ended());
}

TEST(Server, MayGoAwayAfterItsShardsHaveStopped) {
  Running rig(loopback(), 2);
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("x"));
  ASSERT_EQ(peer.read(7), "sniff:x");
  for (auto& shard : rig.shards) shard->stop(), shard->join();
  rig.server.reset();
  EXPECT_EQ(rig.lab.codecs, 0);
  EXPECT_TRUE(peer.ended());
}

}  // namespace
}  // namespace weir::net
