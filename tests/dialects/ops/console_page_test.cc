// The console's page, its files, and what its buttons change.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "dialects/ops/console/batch_list.h"
#include "dialects/ops/console/console.h"
#include "support/fake_wire.h"

namespace weir::ops {
namespace {

using nlohmann::json;
using support::FakeExchange;

struct FakeControl final : dialects::ServerControl {
  bool accepting() const override { return true; }
  std::string why_not_ready() const override { return {}; }
  void load(const std::string& model, LoadParameters, Done d) override { asked.push_back("load " + model), done = d; }
  void unload(const std::string& model, Dependents, Done d) override { asked.push_back("unload " + model), done = d; }
  void settings_changed(const wire::Exchange&, std::string) override {}
  std::vector<std::string> asked;
  Done done;
};

struct ConsolePages : testing::Test {
  void ask(FakeExchange& x) {
    (void)router.begin(x);
    if (!x.ended && x.match) router.closed(x);
  }
  std::unique_ptr<FakeExchange> change(std::string_view origin, std::string_view mark) {
    auto x = std::make_unique<FakeExchange>("POST", "/console/v1/models/digits/load");
    if (!origin.empty()) x->mutable_request().fields.add("origin", origin);
    if (!mark.empty()) x->mutable_request().fields.add("x-weir-console", mark);
    (void)router.begin(*x);
    return x;
  }
  base::FakeEnv env;
  wire::Router router{env};
  bus::Bus bus{env, base::ShardId(0), [] {}, {}};
  FakeControl control;
  ConsoleOptions options{true, "/ui", "{\"settings\":[]}\n"};
  Console console{router, bus, env, control, options};
};

TEST_F(ConsolePages, AChangeWantsTheOwnOriginAndTheField) {
  EXPECT_EQ(change("", "1")->response.status, 403);
  EXPECT_EQ(change("http://localhost", "")->response.status, 403);
  EXPECT_EQ(change("https://evil.example", "1")->response.status, 403);
  EXPECT_EQ(change("null", "1")->response.status, 403);
  EXPECT_TRUE(control.asked.empty());
  auto asked = change("http://localhost", "1");
  EXPECT_EQ(control.asked, std::vector<std::string>{"load digits"});
  EXPECT_FALSE(asked->ended);
  control.done(base::failure(base::Code::kNotFound, "no such model"));
  EXPECT_EQ(asked->response.status, 404);
}

TEST_F(ConsolePages, WhoLeavesBeforeAModelIsLoadedIsForgotten) {
  auto asked = change("http://localhost", "1");
  asked->close(false);
  asked.reset();
  control.done({});
}

TEST_F(ConsolePages, EveryRouteSaysWhatItAsksOfItsCaller) {
  for (const auto* route : router.routes()) {
    const bool page = route->pattern.starts_with("/ui");
    const auto wanted = page                                     ? wire::Permission::kHealth
                        : route->method == "POST"                ? wire::Permission::kAdmin
                        : route->pattern == "/console/v1/config" ? wire::Permission::kObserve
                                                                 : wire::Permission::kMetrics;
    EXPECT_EQ(route->permission, wanted) << route->pattern;
  }
}

TEST_F(ConsolePages, ThePageLoadsWhatIsBelowItsPathAndNothingElse) {
  if (console.page().empty()) GTEST_SKIP() << "this build has no console: npm was missing";
  FakeExchange page("GET", "/ui/");
  (void)router.begin(page);
  EXPECT_EQ(page.response.status, 200);
  const auto policy = page.response.fields.find("content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'"), policy.npos);
  EXPECT_EQ(policy.find("unsafe"), policy.npos);
  EXPECT_NE(page.sent.find("src=\"../ui/"), std::string::npos) << page.sent;
  EXPECT_NE(page.sent.find("data-root=\"../\""), std::string::npos) << page.sent;
  EXPECT_EQ(page.sent.find("\"/"), std::string::npos) << "a proxy may serve it below a path: " << page.sent;
  EXPECT_NE(console.page().view().find("src=\"./ui/"), std::string::npos);
  EXPECT_EQ(page.sent.find("://"), std::string::npos) << "nothing from elsewhere";
  const size_t from = page.sent.find("src=\"../ui/") + 7;
  const std::string script = page.sent.substr(from, page.sent.find('"', from) - from);
  FakeExchange file("GET", script);
  file.mutable_request().fields.add("accept-encoding", "gzip");
  (void)router.begin(file);
  EXPECT_EQ(file.response.status, 200) << script;
  EXPECT_EQ(file.response.fields.find("content-encoding"), "gzip");
  EXPECT_TRUE(file.sent.starts_with("\x1f\x8b"));
  EXPECT_LT(file.sent.size(), 150u << 10);
  FakeExchange plain("GET", script), missing("GET", "/ui/../../etc/passwd"), other("GET", "/ui/other.js");
  (void)router.begin(plain), (void)router.begin(missing), (void)router.begin(other);
  EXPECT_EQ(plain.response.status, 406);
  EXPECT_EQ(missing.response.status, 404);
  EXPECT_EQ(other.response.status, 404);
}

TEST(BatchList, HasTheBatchesBehindANumber) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  served->spec.name = "m", served->spec.version = "1";
  served->stats.places = {"cpu", "cuda:1 \"<"};
  const base::Time t{std::chrono::milliseconds(5)};
  for (uint32_t i = 0; i < 3; ++i)
    served->stats.timeline.add({0, i, 2, 3, t, t, t, t, t, t, t + std::chrono::microseconds(7), t, t});
  catalog.models["m"].versions["1"] = served;
  catalog.models["m"].preferred = served.get();
  const json all = json::parse(batch_list(catalog, "m", "", -1, t).value());
  EXPECT_EQ(all["now"], 5000);
  EXPECT_EQ(all["places"], json({"cpu", "cuda:1 \"<"}));
  ASSERT_EQ(all["batches"].size(), 3u);
  EXPECT_EQ(all["batches"][1], json({1, 1, 2, 3, 5000, 5000, 5000, 5000, 5000, 5000, 5007, 5000, 5000}));
  EXPECT_EQ(json::parse(batch_list(catalog, "m", "1", 1, t).value())["batches"].size(), 1u);
  EXPECT_EQ(batch_list(catalog, "other", "", -1, t).error().code, base::Code::kNotFound);
}

}  // namespace
}  // namespace weir::ops
