#include "bus/readiness.h"

#include <gtest/gtest.h>

#include "bus/load_notes.h"

namespace weir::bus {
namespace {

using Rule = ReadinessRule;

Catalog catalog_of(std::vector<IndexRow> rows) {
  Catalog catalog;
  for (const auto& row : rows)
    if (row.state == ModelState::kReady) catalog.models[row.name];
  catalog.index = std::move(rows);
  return catalog;
}

TEST(Readiness, StrictIsEveryModelThatSomebodyAskedFor) {
  EXPECT_EQ(why_not_ready(catalog_of({}), Rule::kStrict), "");
  EXPECT_EQ(why_not_ready(catalog_of({{"a", "1", ModelState::kReady, ""}}), Rule::kStrict), "");
  EXPECT_EQ(why_not_ready(catalog_of({{"a", "1", ModelState::kReady, ""},
                                      {"b", "", ModelState::kUnloaded, "not loaded"},
                                      {"c", "2", ModelState::kUnloading, ""}}),
                          Rule::kStrict),
            "");
  EXPECT_EQ(why_not_ready(catalog_of({{"a", "1", ModelState::kReady, ""},
                                      {"b", "2", ModelState::kUnavailable, "the file is cut"},
                                      {"c", "", ModelState::kLoading, ""},
                                      {"d", "", ModelState::kUnloaded, "unloaded"}}),
                          Rule::kStrict),
            "2 of 3 models are not ready: 'b' version 2: the file is cut; 'c': it is loading");
}

TEST(Readiness, ALastReloadThatFailedIsReadyWhileTheOldVersionServes) {
  EXPECT_EQ(why_not_ready(catalog_of({{"a", "1", ModelState::kReady, "the reload failed"}}), Rule::kStrict), "");
}

TEST(Readiness, AnyIsOneModelAndProcessIsNone) {
  auto broken = catalog_of({{"b", "1", ModelState::kUnavailable, "cut"}});
  EXPECT_EQ(why_not_ready(broken, Rule::kAny), "no model serves: 'b' version 1: cut");
  EXPECT_EQ(why_not_ready(catalog_of({}), Rule::kAny), "no model serves");
  EXPECT_EQ(why_not_ready(broken, Rule::kProcess), "");
  auto half = catalog_of({{"a", "1", ModelState::kReady, ""}, {"b", "1", ModelState::kUnavailable, "cut"}});
  EXPECT_EQ(why_not_ready(half, Rule::kAny), "");
  EXPECT_EQ(why_not_ready(half, Rule::kStrict), "1 of 2 models is not ready: 'b' version 1: cut");
}

struct AskedModel final : msg::Inbox, HasLoadNotes {
  struct Probe final : msg::ReadinessProbe {
    void ask(Done) override {}
  };
  AskedModel() { set_load_notes({{}, std::make_shared<Probe>()}); }
  void put(msg::Call*) override {}
  void poke() override {}
};

TEST(Readiness, AModelThatIsAskedItselfIsAsReadyAsItSaid) {
  auto catalog = catalog_of({{"a", "1", ModelState::kReady, ""}, {"b", "2", ModelState::kReady, ""}});
  for (const auto& row : catalog.index) catalog.models[row.name].versions[row.version] = std::make_shared<Served>();
  EXPECT_EQ(why_not_ready(catalog, Rule::kStrict), "");
  catalog.models["b"].versions["2"]->inbox = std::make_unique<AskedModel>();
  SaidReadiness said;
  EXPECT_EQ(why_not_ready(catalog, Rule::kStrict, &said),
            "1 of 2 models is not ready: 'b' version 2: it has not said yet whether it is ready");
  EXPECT_EQ(why_not_ready(catalog, Rule::kAny, &said), "") << "the other one is";
  said["b"]["1"] = "";
  EXPECT_EQ(why_not_ready(catalog, Rule::kStrict, &said), "") << "what its former version said";
  said["b"]["2"] = "the cache is cold";
  EXPECT_EQ(why_not_ready(catalog, Rule::kStrict, &said),
            "1 of 2 models is not ready: 'b' version 2: the cache is cold");
  EXPECT_EQ(why_not_ready(catalog, Rule::kProcess, &said), "");
  catalog.models.erase("a"), catalog.index.erase(catalog.index.begin());
  EXPECT_EQ(why_not_ready(catalog, Rule::kAny, &said), "no model serves: 'b' version 2: the cache is cold");
}

TEST(Readiness, OneModelIsAsReadyAsThePreferredVersionSaid) {
  auto catalog = catalog_of({{"a", "1", ModelState::kReady, ""}, {"b", "1", ModelState::kReady, ""}});
  for (const char* version : {"1", "2"}) {
    auto served = std::make_shared<Served>();
    served->spec.version = version;
    served->inbox = std::make_unique<AskedModel>();
    catalog.models["b"].versions[version] = served;
    catalog.models["b"].preferred = served.get();
  }
  SaidReadiness said;
  EXPECT_EQ(why_model_not_ready(catalog, "a", &said), "");
  EXPECT_EQ(why_model_not_ready(catalog, "b", &said), "it has not said yet whether it is ready");
  said["b"] = {{"1", "the cache is cold"}, {"2", ""}};
  EXPECT_EQ(why_model_not_ready(catalog, "b", &said), "");
  said["b"] = {{"1", ""}, {"2", "the cache is cold"}};
  EXPECT_EQ(why_model_not_ready(catalog, "b", &said), "the cache is cold");
  EXPECT_EQ(why_model_not_ready(catalog, "b", nullptr), "") << "nobody asks";
  EXPECT_EQ(why_model_not_ready(catalog, "c", &said), "it is not loaded");
}

TEST(Readiness, TenAreListedAndReasonsOfTwoHundredBytesAreWhole) {
  std::vector<IndexRow> rows;
  for (char c = 'a'; c < 'a' + 10; ++c) rows.push_back({std::string(1, c), "", ModelState::kUnavailable, ""});
  std::string why = why_not_ready(catalog_of(rows), Rule::kStrict);
  EXPECT_TRUE(why.ends_with("; 'j': it is not loaded")) << why;
  rows.push_back({"k", "", ModelState::kUnavailable, ""});
  why = why_not_ready(catalog_of(rows), Rule::kStrict);
  EXPECT_TRUE(why.ends_with("; 'j': it is not loaded; and 1 more")) << why;
  for (auto [bytes, end] : {std::pair<size_t, std::string>(200, "x"), {201, "…"}}) {
    rows = {{"a", "", ModelState::kUnavailable, std::string(bytes, 'x')}};
    EXPECT_EQ(why_not_ready(catalog_of(rows), Rule::kStrict),
              "1 of 1 models is not ready: 'a': " + std::string(199, 'x') + (bytes == 200 ? "" : "x") + end);
  }
}

TEST(Readiness, ManyAndLongReasonsAreCut) {
  std::vector<IndexRow> rows;
  for (int i = 0; i < 1000; ++i)
    rows.push_back({"m" + std::to_string(1000 + i), "1", ModelState::kUnavailable, std::string(1000, 'x')});
  std::string why = why_not_ready(catalog_of(std::move(rows)), Rule::kStrict);
  EXPECT_LT(why.size(), 10 * 250u);
  EXPECT_TRUE(why.starts_with("1000 of 1000 models are not ready: 'm1000' version 1: xxx")) << why;
  EXPECT_TRUE(why.ends_with("…; and 990 more")) << why;
}

}  // namespace
}  // namespace weir::bus
