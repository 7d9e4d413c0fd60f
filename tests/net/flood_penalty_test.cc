// Clients whose connections end for floods.
#include "net/flood_penalty.h"

#include <gtest/gtest.h>

#include "lab.h"

namespace weir::net {
namespace {

using lab::Peer;
using lab::Running;

TEST(Server, AClientThatFloodsAgainAndAgainIsNotLetIn) {
  Running rig;
  auto flood = [&](const char* from) {
    Peer peer(rig.port(), "127.0.0.1", from);
    return peer.send("!flood\n") ? peer.read_all() : std::string();
  };
  Peer early(rig.port(), "127.0.0.1", "127.6.6.6");
  ASSERT_TRUE(rig.lab.until([&] { return rig.server->connections() == 1; }));
  for (uint32_t i = 0; i < FloodPenalty::kAllowed; ++i) EXPECT_EQ(flood("127.6.6.6"), "sniff:calm\n");
  EXPECT_EQ(flood("127.6.6.6"), "");
  EXPECT_EQ(rig.metric("weir_connections_penalized_total"), "1");
  // It keeps the connections that it has; others, and proxies that speak for many, are let in.
  ASSERT_TRUE(early.send("x"));
  EXPECT_EQ(early.read(7), "sniff:x");
  Peer other(rig.port(), "127.0.0.1", "127.0.0.2");
  ASSERT_TRUE(other.send("x"));
  EXPECT_EQ(other.read(7), "sniff:x");
  for (uint32_t i = 0; i <= FloodPenalty::kAllowed; ++i) EXPECT_EQ(flood("127.9.0.1"), "sniff:calm\n");
}

TEST(FloodPenalty, EndsWithItsWindow) {
  base::Clients clients;
  auto client = clients.enter("192.0.2.7", base::Client::Limited::kYes);
  FloodPenalty penalty;
  base::Time now{};
  for (uint32_t i = 1; i < FloodPenalty::kAllowed; ++i) EXPECT_FALSE(penalty.add(client, now));
  EXPECT_FALSE(penalty.applies(client.get(), now));
  EXPECT_TRUE(penalty.add(client, now));
  EXPECT_TRUE(penalty.applies(client.get(), now + FloodPenalty::kWindow));
  now += FloodPenalty::kWindow + base::Duration(1);
  EXPECT_FALSE(penalty.applies(client.get(), now));
  EXPECT_FALSE(penalty.add(client, now)) << "it begins to count anew";
  EXPECT_FALSE(penalty.applies(nullptr, now));
}

TEST(FloodPenalty, ForgetsTheOldestWhereManyFlood) {
  base::Clients clients;
  FloodPenalty penalty;
  auto begin = base::Time{};
  auto name = [](size_t i) { return "198.51.100." + std::to_string(i); };
  auto flood = [&](size_t i) {
    auto client = clients.enter(name(i), base::Client::Limited::kYes);
    for (uint32_t n = 0; n < FloodPenalty::kAllowed; ++n) penalty.add(client, begin + base::Duration(i));
    return client;
  };
  auto first = flood(0), second = flood(1);
  for (size_t i = 2; i <= FloodPenalty::kClients; ++i) flood(i);
  EXPECT_FALSE(penalty.applies(first.get(), begin));
  EXPECT_TRUE(penalty.applies(second.get(), begin));
}

}  // namespace
}  // namespace weir::net
