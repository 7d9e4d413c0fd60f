#include "base/network.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

TEST(Network, HasTheAddressesOfItsPrefix) {
  auto net = [](std::string_view text) { return parse_network(text).value(); };
  auto ip = [](std::string_view text) { return parse_ip(text).value(); };
  EXPECT_TRUE(net("10.0.0.0/8").has(ip("10.255.1.2")));
  EXPECT_FALSE(net("10.0.0.0/8").has(ip("11.0.0.0")));
  EXPECT_TRUE(net("10.0.0.0/8").has(ip("::ffff:10.1.1.1")));
  EXPECT_TRUE(net("192.0.2.128/25").has(ip("192.0.2.129")));
  EXPECT_FALSE(net("192.0.2.128/25").has(ip("192.0.2.127")));
  EXPECT_TRUE(net("2001:db8::/33").has(ip("2001:db8:7fff::1")));
  EXPECT_FALSE(net("2001:db8::/33").has(ip("2001:db8:8000::1")));
  EXPECT_TRUE(net("::1").has(ip("::1")));
  EXPECT_FALSE(net("::1").has(ip("::2")));
  EXPECT_TRUE(net("0.0.0.0/0").has(ip("1.2.3.4")));
  EXPECT_FALSE(net("0.0.0.0/0").has(ip("2001:db8::1")));
}

TEST(Network, WhatIsNoNetworkIsNamed) {
  for (const char* text : {"", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "2001:db8::/129", "a.example", "10.0.0", "/8"})
    EXPECT_EQ(parse_network(text).error().code, Code::kInvalidArgument) << text;
  EXPECT_FALSE(NetworkList::parse({"unix", "10.0.0.0/8", "nonsense"}));
}

TEST(Network, OfAPeerTheAddressIsFoundWithAndWithoutAPort) {
  for (const char* text : {"192.0.2.1", "192.0.2.1:5000", "[::ffff:192.0.2.1]:80", "::ffff:192.0.2.1"})
    EXPECT_EQ(ip_text(ip_of(text).value()), "192.0.2.1") << text;
  for (const char* text : {"2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:5000"})
    EXPECT_EQ(ip_text(ip_of(text).value()), "2001:db8::1") << text;
  for (const char* text :
       {"", "unix", "unknown", "_hidden", "[2001:db8::1", "[2001:db8::1]x", "1.2.3.4.5", "[]:1", ":1"})
    EXPECT_FALSE(ip_of(text)) << text;
  EXPECT_FALSE(parse_ip(std::string_view("1.2.3.4\0", 8)));
  EXPECT_FALSE(parse_ip(std::string(1000, '1')));
}

TEST(Network, AClientIsAnAddressOrASlash64) {
  EXPECT_EQ(client_name("192.0.2.1:5000"), "192.0.2.1");
  EXPECT_EQ(client_name("[2001:db8:1:2:3:4:5:6]:5000"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_name("[2001:db8:1:2::9]:1"), client_name("2001:db8:1:2:ffff::1"));
  EXPECT_NE(client_name("[2001:db8:1:2::9]:1"), client_name("[2001:db8:1:3::9]:1"));
  EXPECT_EQ(client_name("unix"), "unix");
}

TEST(Network, AListKnowsPeersAndUnixSockets) {
  auto list = NetworkList::parse({"127.0.0.0/8", "unix"}).value();
  EXPECT_TRUE(list.has_peer("127.1.2.3:5000"));
  EXPECT_TRUE(list.has_peer("unix"));
  EXPECT_FALSE(list.has_peer("192.0.2.1:5000"));
  EXPECT_FALSE(NetworkList().has_peer("unix"));
  EXPECT_FALSE(NetworkList::parse({"127.0.0.0/8"}).value().has_peer("unix"));
}

}  // namespace
}  // namespace weir::base
