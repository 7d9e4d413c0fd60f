// Peers that go while their codec does not want to read: their FIN or reset is behind bytes that nobody reads.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "tls_fixture.h"

namespace weir::net {
namespace {

template <class P>
void hold_back(lab::Rig& rig, P& peer, std::string_view unread) {
  const int stopped = rig.lab.stopped;
  ASSERT_TRUE(peer.send("!open\n"));
  ASSERT_EQ(peer.read(13), "sniff:opened\n");
  ASSERT_TRUE(peer.send("!hold\n"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.stopped == stopped + 1; }));
  ASSERT_TRUE(peer.send(unread));
}

TEST(HeldBack, AFinIsNoticedOnceAndAnswersStillGoOut) {
  lab::Running rig;
  Peer silent(rig.port()), unread(rig.port());
  hold_back(rig, silent, "");
  hold_back(rig, unread, "unread");
  for (Peer* peer : {&silent, &unread}) peer->half_close();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // two more ticks
  EXPECT_EQ(rig.lab.eofs, 2);
  EXPECT_EQ(rig.lab.closes, 0);  // what has been answered may still be on its way
}

// Over TLS the end is close_notify, which is unread as well.
TEST(HeldBack, TheEndOfATlsSessionIsNoticedOnce) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.connected());
  hold_back(rig, peer, "unread");
  EXPECT_EQ(SSL_shutdown(peer.ssl()), 0);
  peer.peer().half_close();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 1; }));
  EXPECT_EQ(rig.lab.closes, 0);
}

// A FIN mostly follows, and is read as in cleartext: behind what the codec has not worked on yet.
TEST(HeldBack, ACloseNotifyAloneBehindAnOpenRequestIsTheEndASecondLater) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {}), idle(rig.port(), {});
  ASSERT_TRUE(peer.connected() && idle.connected());
  ASSERT_TRUE(peer.send("!open\n"));
  ASSERT_EQ(peer.read(13), "sniff:opened\n");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(SSL_shutdown(peer.ssl()), 0);
  ASSERT_TRUE(idle.send("x"));
  ASSERT_EQ(idle.read(7), "sniff:x");
  EXPECT_EQ(SSL_shutdown(idle.ssl()), 0);
  EXPECT_EQ(SSL_shutdown(idle.ssl()), 1) << "without a request it is over at once";
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 2; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(900));
}

TEST(HeldBack, AResetEndsTheConnection) {
  lab::Running rig;
  Peer peer(rig.port());
  hold_back(rig, peer, "unread");
  peer.reset();
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.closes == 1 && rig.lab.codecs == 0; }));
  EXPECT_EQ(rig.lab.eofs, 0);
  EXPECT_EQ(rig.metric("weir_connections_closed_total{by=\"peer\"}"), "1");
}

TEST(HeldBack, AFinBehindBytesThatAreReadLaterIsReadAfterThem) {
  lab::Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!stop\n"));
  ASSERT_TRUE(rig.lab.until([&] { return rig.lab.stopped == 1; }));
  ASSERT_TRUE(peer.send("late"));
  peer.half_close();
  EXPECT_EQ(peer.read_all(), "sniff:late");
  EXPECT_EQ(rig.lab.eofs, 1);
}

// While its output is held up a connection is told of resets; once it lingers, the peer's FIN makes its socket "closed
// both ways", which is no reset, and must not become one.
TEST(HeldBack, TheLastAnswerOfAPeerThatStillSendsIsWholeAndTheServerEndsIt) {
  constexpr size_t kLength = 32 << 20;  // more than the sockets take
  lab::Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!over " + std::to_string(kLength) + "\n"));
  EXPECT_EQ(peer.read(6), "sniff:");
  ASSERT_TRUE(peer.send(std::string(400'000, 'x')));
  peer.half_close();
  EXPECT_EQ(peer.read_all().size(), kLength);
  EXPECT_EQ(peer.error(), 0);
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.closes == 1 && rig.lab.codecs == 0; }));
  EXPECT_EQ(rig.metric("weir_connections_closed_total{by=\"server\"}"), "1");
}

}  // namespace
}  // namespace weir::net
