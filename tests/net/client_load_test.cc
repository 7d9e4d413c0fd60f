#include "net/client_load.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clients.h"

namespace weir::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Bench {
  base::ClientRef client(const std::string& name, base::Client::Limited limited = base::Client::Limited::kYes) {
    return clients.enter(name, limited);
  }
  void spend(const base::ClientRef& client, base::Duration time) { load.add(&client, time, now); }
  LoadClass load_class(const base::ClientRef& client) const { return load.load_class(client.get()); }

  base::Clients clients;
  ClientLoad load;
  base::Time now{seconds(1000)};
};

TEST(ClientLoad, WhoHasHadMuchIsHeavyUntilItIsForgotten) {
  Bench t;
  auto busy = t.client("busy"), quiet = t.client("quiet");
  EXPECT_EQ(t.load_class(busy), LoadClass::kLight);
  t.spend(busy, ClientLoad::kLeast - base::Duration(1));
  EXPECT_EQ(t.load_class(busy), LoadClass::kLight);
  t.spend(busy, base::Duration(1));
  t.spend(quiet, milliseconds(1));
  EXPECT_EQ(t.load_class(busy), LoadClass::kHeavy);
  EXPECT_EQ(t.load_class(quiet), LoadClass::kLight);
  t.now += ClientLoad::kPeriod;
  t.spend(quiet, milliseconds(1));
  EXPECT_EQ(t.load_class(busy), LoadClass::kLight) << "half of it is left";
  t.now += seconds(3600);
  t.spend(busy, ClientLoad::kLeast);
  EXPECT_EQ(t.load_class(busy), LoadClass::kHeavy);
}

TEST(ClientLoad, AThirdOfTheWorkIsMuchAndASixthIsNot) {
  for (bool starved : {false, true})  // by what else the machine does
    for (auto [each, expected] : {std::pair{3, LoadClass::kHeavy}, {6, LoadClass::kLight}}) {
      Bench t;
      auto client = t.client("a"), other = t.client("b");
      for (int i = 0; i < 1000; ++i, t.now += milliseconds(starved ? 10 * each : each)) {
        t.spend(client, milliseconds(1));
        t.spend(other, milliseconds(each - 1));
        ASSERT_TRUE(i < 500 || starved || t.load_class(client) == expected) << "a millisecond of each " << each;
        ASSERT_TRUE(i < 500 || !starved || t.load_class(other) == LoadClass::kHeavy);
      }
    }
}

TEST(ClientLoad, ProxiesAndWhoeverIsNotCountedAreLight) {
  Bench t;
  auto proxy = t.client("proxy", base::Client::Limited::kNo);
  base::ClientRef nobody;
  t.spend(proxy, seconds(1));
  t.spend(nobody, seconds(1));
  t.load.add(nullptr, seconds(1), t.now);
  EXPECT_EQ(t.load_class(proxy), LoadClass::kLight);
  EXPECT_EQ(t.load_class(nobody), LoadClass::kLight);
}

TEST(ClientLoad, NobodyHidesInACrowd) {
  Bench t;
  auto busy = t.client("busy");
  std::vector<base::ClientRef> crowd;
  for (int i = 0; i < 1000; ++i) crowd.push_back(t.client("c" + std::to_string(i)));
  size_t next = 0;
  for (int ms = 0; ms < 2000; ++ms, t.now += milliseconds(1)) {
    t.spend(busy, base::Duration(milliseconds(1)) / 2);
    for (int i = 0; i < 10; ++i) t.spend(crowd[next++ % crowd.size()], base::Duration(milliseconds(1)) / 20);
  }
  EXPECT_EQ(t.load_class(busy), LoadClass::kHeavy);
  for (const auto& one : crowd) EXPECT_EQ(t.load_class(one), LoadClass::kLight);
}

}  // namespace
}  // namespace weir::net
