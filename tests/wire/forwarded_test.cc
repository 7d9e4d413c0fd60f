#include "wire/forwarded.h"

#include <gtest/gtest.h>

#include "wire/access.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using Field = TrustedProxies::Field;
using List = std::vector<std::pair<std::string, std::string>>;

// The address that is believed, or "" for the peer's own.
std::string named(Field field, const List& fields) {
  base::Clients clients;
  TrustedProxies proxies(base::NetworkList::parse({"10.0.0.0/8", "2001:db8:ffff::/48"}).value(), field, clients);
  Fields all;
  for (const auto& [name, value] : fields) all.add(name, value);
  PeerInfo peer{"10.0.0.1:5000", Security::kTls, true};
  auto got = proxies.named(all, peer);
  if (!got) return "";
  EXPECT_EQ(got->security, Security::kTls);
  EXPECT_FALSE(got->proxy);
  EXPECT_TRUE(bool(got->client));
  return got->address;
}
std::string x(const std::string& value) { return named(Field::kXForwardedFor, {{"x-forwarded-for", value}}); }
std::string f(const std::string& value) { return named(Field::kForwarded, {{"forwarded", value}}); }

TEST(TrustedProxies, TheClientIsTheLastWhoIsNoProxy) {
  EXPECT_EQ(x("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(x("1.1.1.1, 192.0.2.1"), "192.0.2.1") << "what stands before it is anybody's invention";
  EXPECT_EQ(x("1.1.1.1, 192.0.2.1, 10.1.1.1"), "192.0.2.1");
  EXPECT_EQ(x("192.0.2.1:4711"), "192.0.2.1:4711");
  EXPECT_EQ(x("2001:db8::1"), "[2001:db8::1]");
  EXPECT_EQ(x("[2001:db8::1]:80,10.0.0.9"), "[2001:db8::1]:80");
  EXPECT_EQ(x("2001:db8::1, 2001:db8:ffff::1"), "[2001:db8::1]");
  EXPECT_EQ(x("10.0.0.7, 10.0.0.8"), "10.0.0.7") << "where all are proxies the first of them asks";
}

TEST(TrustedProxies, WhatIsNoAddressEndsTheList) {
  EXPECT_EQ(x(""), "");
  EXPECT_EQ(x("unknown"), "");
  EXPECT_EQ(x("192.0.2.1, unknown"), "");
  EXPECT_EQ(x("192.0.2.1, unknown, 10.0.0.8"), "10.0.0.8") << "as far as it can be followed";
  EXPECT_EQ(x("192.0.2.1,"), "");
  EXPECT_EQ(x("a.example"), "");
}

TEST(TrustedProxies, TheListsOfSeveralFieldsAreOne) {
  EXPECT_EQ(named(Field::kXForwardedFor, {{"x-forwarded-for", "192.0.2.1"}, {"x-forwarded-for", "10.0.0.8"}}),
            "192.0.2.1");
  EXPECT_EQ(named(Field::kXForwardedFor, {{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-for", "192.0.2.1"}}),
            "192.0.2.1");
}

TEST(TrustedProxies, OfTheTwoFieldsOnlyOneIsBelieved) {
  EXPECT_EQ(named(Field::kXForwardedFor, {{"forwarded", "for=192.0.2.1"}}), "");
  EXPECT_EQ(named(Field::kForwarded, {{"x-forwarded-for", "192.0.2.1"}}), "");
}

TEST(TrustedProxies, ForwardedIsReadAsItsRfcSays) {
  EXPECT_EQ(f("for=192.0.2.60;proto=http;by=203.0.113.43"), "192.0.2.60");
  EXPECT_EQ(f("proto=https; For=\"[2001:db8:cafe::17]:4711\""), "[2001:db8:cafe::17]:4711");
  EXPECT_EQ(f("for=1.1.1.1, for=192.0.2.43, for=10.2.2.2"), "192.0.2.43");
  EXPECT_EQ(f("for=\"_gazonk\""), "");
  EXPECT_EQ(f("for=unknown, for=10.0.0.8"), "10.0.0.8");
  EXPECT_EQ(f("proto=http"), "");
  EXPECT_EQ(f("for=\"192.0.2.1"), "");
}

TEST(TrustedProxies, AListWithoutAnEndIsReadToABound) {
  std::string many = "192.0.2.1";
  for (int i = 0; i < 1000; ++i) many += ",10.0.0.1";
  EXPECT_EQ(x(many), "10.0.0.1");
}

// Or whoever may send a Forwarded field would be let in where its connection is not.
TEST(TrustedProxies, WhoIsNamedStaysOnTheConnectionOfItsProxy) {
  base::Clients clients;
  TrustedProxies proxies(base::NetworkList::parse({"127.0.0.0/8"}).value(), Field::kForwarded, clients);
  Request request;
  request.fields.add("forwarded", "for=192.0.2.1");
  request.authority = "weir.example";
  PeerInfo proxy{"127.0.0.1:5000", Security::kCleartext, true, Network::kLoopback, AdminMethods::kElsewhere};
  auto client = proxies.named(request.fields, proxy);
  ASSERT_TRUE(client);
  EXPECT_EQ(client->network, Network::kLoopback);
  EXPECT_EQ(client->admin, AdminMethods::kElsewhere);
  request.peer = client.get();
  AccessRules rules({}, {});
  auto denial = rules.check(request, Permission::kAdmin);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->reason, reason::kAdminListener);
  request.fields.add("user-agent", "Mozilla/5.0");
  denial = rules.check(request, Permission::kRead);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->reason, reason::kUntrustedHost);
}

TEST(TrustedProxies, ProxiesAndUnixSocketsAreNotLimited) {
  base::Clients clients;
  TrustedProxies proxies(base::NetworkList::parse({"10.0.0.0/8"}).value(), Field::kForwarded, clients);
  EXPECT_FALSE(proxies.client("10.0.0.1:5000")->limited());
  EXPECT_FALSE(proxies.client("unix")->limited());
  EXPECT_TRUE(proxies.client("192.0.2.1:5000")->limited());
  EXPECT_FALSE(proxies.trusts("unix")) << "but not believed either";
}

TEST(TrustedProxies, SoManyProxiesInARowAreLookedAtAndNoMore) {
  auto behind = [](size_t proxies) {
    std::string value = "192.0.2.1";
    for (size_t i = 0; i < proxies; ++i) value += ", 10.0.0.9";
    return x(value);
  };
  EXPECT_EQ(behind(31), "192.0.2.1");
  EXPECT_EQ(behind(32), "10.0.0.9");
  EXPECT_EQ(behind(1000), "10.0.0.9");
}

}  // namespace
}  // namespace weir::wire
