// Routes of one path and method that take bodies of different media types.
#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"
#include "wire/router.h"

namespace weir::wire {
namespace {

using support::FakeExchange;

struct RouterTypes : ::testing::Test {
  struct Silent final : Service {
    void serve(Exchange& x, const PathArgs&) override { x.respond(200, "", {}); }
  };

  void add(const char* pattern, const char* protocol, std::string_view type) {
    router.add(
        {"POST", pattern, &service, protocol, Plan{BodyPlan::kIgnore}, Permission::kInfer, Upgrade::kNone, type});
  }
  // Its status and protocol.
  std::string post(const char* target, const char* type) {
    FakeExchange x("POST", target);
    if (type) x.mutable_request().fields.add("content-type", type);
    router.begin(x);
    const std::string out = std::to_string(x.response.status) + ' ' + std::string(x.record().protocol);
    router.closed(x);
    return out;
  }

  base::FakeEnv env;
  Silent service;
  Router router{env};
};

TEST_F(RouterTypes, ATypeHasItsRouteAndAllOthersHaveTheOneWithout) {
  add("/both", "rest", "");
  add("/both", "json", "application/json");
  EXPECT_EQ(post("/both", "application/json"), "200 json");
  EXPECT_EQ(post("/both", "Application/JSON; charset=utf-8"), "200 json");
  for (const char* other : {"application/octet-stream", "application/jsonl", "application/json+x", ""})
    EXPECT_EQ(post("/both", other), "200 rest") << other;
  EXPECT_EQ(post("/both", nullptr), "200 rest");
  FakeExchange wrong("PUT", "/both");
  router.begin(wrong);
  EXPECT_EQ(wrong.response.status, 405);
  EXPECT_EQ(wrong.response.fields.find("allow"), "POST, OPTIONS");
  router.closed(wrong);
}

TEST_F(RouterTypes, WhereAllRoutesHaveATypeOthersAre415) {
  add("/json", "json", "application/json");
  EXPECT_EQ(post("/json", "application/json"), "200 json");
  EXPECT_EQ(post("/json", "text/plain"), "415 json");
  EXPECT_EQ(post("/json", nullptr), "415 json");
}

}  // namespace
}  // namespace weir::wire
