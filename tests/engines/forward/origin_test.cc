// Which origin a call goes to.
#include "engines/forward/origin.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace weir::forward {
namespace {

const base::Time kNow = base::Time() + std::chrono::hours(1);

struct Origins {
  explicit Origins(size_t count, uint32_t max_outstanding = 1000) {
    target.options.max_outstanding = max_outstanding;
    for (size_t i = 0; i < count; ++i)
      target.origins.emplace_back(*net::parse_url("http://10.0.0." + std::to_string(i + 1) + ":8001"), 0,
                                  Origin::Addresses(1));
  }
  // How often each was chosen; `held`: the call stays there.
  std::map<Origin*, int> choose(int times, bool held = false, base::Time now = kNow) {
    std::map<Origin*, int> out;
    for (int i = 0; i < times; ++i) {
      Origin* origin = target.choose(now, random(), 0, nullptr);
      ++out[origin];
      if (held && origin) ++origin->outstanding;
    }
    return out;
  }
  Target target;
  std::mt19937_64 random{1};
};

TEST(ForwardOrigins, TheOneWithLessToDoIsChosenOfTwo) {
  Origins origins(4);
  origins.choose(400, true);
  for (auto& origin : origins.target.origins) {
    EXPECT_GT(origin.outstanding, 90u);
    EXPECT_LT(origin.outstanding, 110u);
  }
  origins.target.origins[0].outstanding = 500;
  EXPECT_LT(origins.choose(1000)[&origins.target.origins[0]], 100) << "chosen where both choices are it";
}

TEST(ForwardOrigins, OneThatIsNotHealthyIsAskedOnlyWhereNoneIs) {
  Origins origins(2);
  origins.target.origins[0].eject();
  EXPECT_EQ(origins.choose(100)[&origins.target.origins[0]], 0);
  origins.target.origins[1].eject();
  EXPECT_GT(origins.choose(100)[&origins.target.origins[0]], 20);
}

TEST(ForwardOrigins, OneThatComesBackGetsItsShareBitByBit) {
  Origins origins(2);
  Origin& back = origins.target.origins[0];
  back.eject();
  back.admit(kNow);
  for (auto& origin : origins.target.origins) origin.outstanding = 10;
  EXPECT_LT(origins.choose(1000)[&back], 300) << "only where both choices are it";
  EXPECT_GT(origins.choose(1000, false, kNow + Origin::kSlowReturn)[&back], 300);
}

TEST(ForwardOrigins, ASequenceKeepsToOne) {
  Origins origins(3);
  Origin* first = origins.target.choose(kNow, 1, 7, nullptr);
  for (uint64_t random : {2u, 3u, 4u}) EXPECT_EQ(origins.target.choose(kNow, random, 7, nullptr), first);
}

TEST(ForwardOrigins, OneThatHasAllTheCallsItMayGetsNoMore) {
  Origins origins(2, 5);
  auto chosen = origins.choose(12, true);
  EXPECT_EQ(chosen[nullptr], 2);
  EXPECT_EQ(chosen[&origins.target.origins[0]], 5);
}

TEST(ForwardOrigins, ASecondTryGoesElsewhereWhereThereIsOne) {
  Origins two(2), one(1);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(two.target.choose(kNow, two.random(), 0, &two.target.origins[0]), &two.target.origins[1]);
  EXPECT_EQ(one.target.choose(kNow, 1, 0, &one.target.origins[0]), &one.target.origins[0]);
}

TEST(ForwardOrigins, APrefixPrefersOneUntilThatHasMoreThanItsShare) {
  Origins origins(4);
  auto& target = origins.target;
  Origin* first = target.choose_by_prefix(kNow, 1, 77, nullptr);
  for (uint64_t random : {2u, 3u, 4u}) EXPECT_EQ(target.choose_by_prefix(kNow, random, 77, nullptr), first);
  std::map<Origin*, int> spread;
  for (uint64_t prefix = 1; prefix <= 400; ++prefix) ++spread[target.choose_by_prefix(kNow, 1, prefix, nullptr)];
  for (auto& origin : target.origins) EXPECT_GT(spread[&origin], 60);
  for (int i = 0; i < 400; ++i) ++target.choose_by_prefix(kNow, 1, 77, nullptr)->outstanding;
  for (auto& origin : target.origins) EXPECT_LE(origin.outstanding, 127u) << "a quarter more than its share";
  EXPECT_GT(first->outstanding, 120u);
  first->eject();
  EXPECT_NE(target.choose_by_prefix(kNow, 1, 77, nullptr), first);
  EXPECT_NE(target.choose_by_prefix(kNow, 1, 77, nullptr), nullptr);
}

TEST(ForwardOrigins, OneThatComesOrGoesMovesNoSequencesButItsOwn) {
  Origins origins(4);
  Origin& other = origins.target.origins[1];
  constexpr uint64_t kSequences = 400;
  auto places = [&] {
    std::vector<Origin*> out;
    for (uint64_t session = 1; session <= kSequences; ++session)
      out.push_back(origins.target.choose(kNow, session, session, nullptr));
    return out;
  };
  const auto all = places();
  EXPECT_GT(std::count(all.begin(), all.end(), &other), 60);
  other.present = false;
  const auto without = places();
  for (size_t i = 0; i < kSequences; ++i) {
    if (all[i] == &other)
      EXPECT_NE(without[i], &other);
    else
      EXPECT_EQ(without[i], all[i]) << i;
  }
}

std::vector<net::Endpoint> addresses(std::initializer_list<const char*> texts) {
  std::vector<net::Endpoint> out;
  for (const char* text : texts) out.push_back(net::resolve(text)->front());
  return out;
}

struct Named {
  Named() {
    Target::Name& name = target.names.emplace_back();
    name.url = *net::parse_url("http://triton.example:8001");
    for (size_t i = 0; i < 4; ++i)
      name.places.push_back(&target.origins.emplace_back(name.url, i, Origin::Addresses()));
  }
  bool update(std::initializer_list<const char*> texts) { return target.update(target.names[0], addresses(texts)); }
  std::map<std::string, Origin*> servers() {
    std::map<std::string, Origin*> out;
    for (auto& origin : target.origins)
      if (origin.present) out[origin.addresses().front().text()] = &origin;
    return out;
  }
  Target target;
};

TEST(ForwardNames, EachAddressOfANameIsAnOrigin) {
  Named named;
  EXPECT_TRUE(named.update({"10.0.0.1:8001", "10.0.0.2:8001"}));
  EXPECT_EQ(named.target.present(), 2u);
  std::set<Origin*> chosen;
  for (uint64_t random = 1; random < 50; ++random)
    chosen.insert(named.target.choose(kNow, random * 0x9e3779b97f4a7c15, 0, nullptr));
  EXPECT_EQ(chosen.size(), 2u);
  EXPECT_FALSE(named.update({"10.0.0.2:8001", "10.0.0.1:8001"})) << "the same in another order";
}

TEST(ForwardNames, ServersThatStayKeepTheirPlaces) {
  Named named;
  named.update({"10.0.0.1:8001", "10.0.0.2:8001"});
  auto before = named.servers();
  Origin* stays = before["10.0.0.2:8001"];
  stays->outstanding = 5;
  const uint32_t generation = stays->generation;
  EXPECT_TRUE(named.update({"10.0.0.3:8001", "10.0.0.2:8001", "10.0.0.4:8001"}));
  auto after = named.servers();
  EXPECT_EQ(after.size(), 3u);
  EXPECT_EQ(after["10.0.0.2:8001"], stays);
  EXPECT_EQ(stays->generation, generation) << "its connections stay";
  EXPECT_TRUE(named.update({"10.0.0.4:8001"}));
  EXPECT_EQ(named.servers().size(), 1u);
  EXPECT_EQ(named.target.choose(kNow, 1, 0, nullptr), after["10.0.0.4:8001"]);
  EXPECT_EQ(named.target.choose(kNow, 1, 12345, nullptr), after["10.0.0.4:8001"]);
  EXPECT_EQ(named.target.choose_by_prefix(kNow, 1, 12345, nullptr), after["10.0.0.4:8001"]);
}

TEST(ForwardNames, ThereAreNoMoreThanThereArePlacesFor) {
  Named named;
  EXPECT_TRUE(named.update({"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1", "10.0.0.6:1"}));
  EXPECT_EQ(named.target.present(), 4u);
  EXPECT_FALSE(named.update({"10.0.0.6:1", "10.0.0.5:1", "10.0.0.4:1", "10.0.0.3:1", "10.0.0.2:1", "10.0.0.1:1"}))
      << "those that have a place keep it";
}

TEST(ForwardNames, BothFamiliesOfAMachineAreOneServer) {
  Named named;
  EXPECT_TRUE(named.update({"[::1]:8001", "127.0.0.1:8001"}));
  EXPECT_EQ(named.target.present(), 1u);
  EXPECT_EQ(named.target.choose(kNow, 1, 0, nullptr)->addresses().size(), 2u);
}

}  // namespace
}  // namespace weir::forward
