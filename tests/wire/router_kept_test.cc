// A head that comes again on its connection: the router finds the same without looking for it.
#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"
#include "wire/router.h"

namespace weir::wire {
namespace {

using support::FakeExchange;

struct Arguments final : Service {
  void serve(Exchange& x, const PathArgs& args) override {
    x.respond(200, "text/plain",
              base::Bytes::adopt(x.request().method + " model=" + std::string(args["model"]) +
                                 " version=" + std::string(args["version"])));
  }
};

struct RouterKept : ::testing::Test {
  base::FakeEnv env;
  Arguments service;
  Router router{env, Cors{{"https://good.example"}}};

  void SetUp() override {
    router.add({"GET", "/v2", &service, "test", Plan{BodyPlan::kWhole, 1000}});
    router.add({"POST", "/v2/models/{model}/infer", &service, "test", Plan{BodyPlan::kWhole, 1000}});
  }
  Plan go(FakeExchange& x) {
    Plan plan = router.begin(x);
    if (plan.body == BodyPlan::kWhole && !x.responding()) router.whole(x);
    return plan;
  }
};

// As a codec does with an Exchange that it keeps, when the same head comes again.
void serve_again(FakeExchange& x) {
  x.record().clear();
  x.extra_fields().clear();
  x.headed = x.ended = false;
  x.sent.clear();
  x.mutable_request().kept = HeadKept::kAgain;
}

TEST_F(RouterKept, AHeadThatComesAgainFindsTheSameWithAnIdOfItsOwn) {
  FakeExchange x("POST", "/v2/models/a%20b/infer");
  x.mutable_request().kept = HeadKept::kKept;
  go(x);
  router.closed(x);
  const std::string first = x.record().request_id;
  ASSERT_NE(x.match, nullptr);
  for (int i = 0; i < 3; ++i) {
    serve_again(x);
    EXPECT_EQ(go(x).limit, 1000u);
    EXPECT_EQ(x.sent, "POST model=a b version=");
    EXPECT_EQ(x.record().route, "/v2/models/{model}/infer");
    EXPECT_EQ(x.record().protocol, "test");
    EXPECT_EQ(x.record().request_id.size(), 16u);
    EXPECT_EQ(x.record().request_id.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(x.record().request_id, first);
    EXPECT_EQ(x.extra_fields().find("x-request-id"), x.record().request_id);
    EXPECT_FALSE(Router::asked_for_admin(x));
    (void)router.permit(x, Permission::kAdmin);
    router.closed(x);
  }
  x.mutable_request().kept = HeadKept::kNot;  // another head, in the same Exchange
  x.mutable_request().method = "GET", x.mutable_request().target = "/v2";
  x.record().clear(), x.extra_fields().clear();
  x.headed = x.ended = false, x.sent.clear();
  go(x);
  EXPECT_EQ(x.sent, "GET model= version=");
  router.closed(x);
  EXPECT_EQ(x.match, nullptr);
}

TEST_F(RouterKept, AHeadWithAnIdATraceOrAnOriginIsLookedAtEachTime) {
  for (auto [name, value] : {std::pair("x-request-id", "mine"), std::pair("origin", "https://good.example"),
                             std::pair("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}) {
    FakeExchange x("POST", "/v2/models/a/infer");
    x.mutable_request().fields.add(name, value);
    x.mutable_request().kept = HeadKept::kKept;
    go(x);
    router.closed(x);
    EXPECT_EQ(x.match, nullptr) << name;
  }
}

// A gRPC call is served from its head on, and has its id with an error alone.
TEST_F(RouterKept, AGrpcCallThatComesAgainIsServedFromItsHead) {
  router.add({"POST", "/a.B/{method}", &service, "grpc", Plan{BodyPlan::kStream, 1000}});
  FakeExchange x("POST", "/a.B/C");
  x.mutable_request().fields.add("content-type", "application/grpc");
  x.mutable_request().kept = HeadKept::kKept;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(router.begin(x).body, BodyPlan::kStream);
    EXPECT_TRUE(x.sent.starts_with("POST model=")) << x.sent;
    EXPECT_EQ(x.record().route, "/a.B/{method}");
    EXPECT_EQ(x.record().request_id.size(), 16u);
    EXPECT_FALSE(x.extra_fields().has("x-request-id"));
    router.closed(x);
    ASSERT_NE(x.match, nullptr);
    serve_again(x);
  }
}

}  // namespace
}  // namespace weir::wire
