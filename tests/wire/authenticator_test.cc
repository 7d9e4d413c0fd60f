// The router carries out the verdict of an Authenticator.
#include "wire/authenticator.h"

#include <gtest/gtest.h>

#include "support/fake_wire.h"
#include "wire/limits.h"
#include "wire/router.h"

namespace weir::wire {
namespace {

using base::Code;
using support::FakeExchange;

std::shared_ptr<Identity> identity(std::string name) {
  auto made = std::make_shared<Identity>();
  made->name = std::move(name);
  return made;
}

struct Keys final : Authenticator {
  base::Result<Caller> admit(const Request&, Permission permission, std::string_view protocol) override {
    asked += std::string(wire::name(permission)) + "/" + std::string(protocol) + " ";
    if (!refusal.ok()) return refusal;
    return Caller::enter(who, {});
  }
  std::string name_of(const Request&) override { return "known"; }
  base::Status permit(const Request&, Permission permission) override {
    return permission == Permission::kAdmin ? refusal : base::Status();
  }
  std::string asked;
  base::Status refusal;
  std::shared_ptr<Identity> who = identity("me");
};

struct Shown final : Service {
  void serve(Exchange& x, const PathArgs&) override {
    ++served;
    if (const auto* who = x.request().identity) name = who->name;
    x.respond(200, "text/plain", base::Bytes::constant("ok"));
  }
  int served = 0;
  std::string name;
};

struct AuthenticatorTest : testing::Test {
  void SetUp() override {
    router.add({"GET", "/models", &service, "openai", Plan{BodyPlan::kWhole, 1000}, Permission::kRead});
    router.add({"POST", "/load", &service, "", Plan{BodyPlan::kWhole, 1000}, Permission::kAdmin});
    router.authenticate(keys);
  }
  void go(FakeExchange& x) {
    if (router.begin(x).body == BodyPlan::kWhole && !x.responding()) router.whole(x);
    router.closed(x);
  }
  base::FakeEnv env;
  Keys keys;
  Shown service;
  Router router{env};
};

TEST_F(AuthenticatorTest, IsAskedAgainForAHeadThatComesAgain) {
  FakeExchange x("GET", "/models");
  x.mutable_request().kept = HeadKept::kKept;
  go(x);
  auto come_again = [&] {
    x.record().clear(), x.extra_fields().clear();
    x.headed = x.ended = false, x.sent.clear();
    x.mutable_request().kept = HeadKept::kAgain;
    go(x);
  };
  keys.who = identity("other");
  come_again();
  EXPECT_EQ(service.name, "other");
  keys.refusal = base::failure(Code::kUnauthenticated, "the key has been taken back");
  come_again();
  EXPECT_EQ(x.response.status, 401);
  EXPECT_EQ(service.served, 2);
  EXPECT_EQ(x.record().reject, reason::kAuth);
  keys.refusal = {};
  come_again();
  EXPECT_EQ(x.response.status, 200);
  EXPECT_EQ(service.served, 3);
  EXPECT_EQ(keys.asked, "read/openai read/openai read/openai read/openai ");
}

TEST_F(AuthenticatorTest, IsAskedForTheRoutesPermissionAndProtocolBeforeTheServiceIs) {
  FakeExchange models("GET", "/models"), load("POST", "/load"), nowhere("GET", "/nowhere"), ask("OPTIONS", "/models");
  go(models), go(load), go(nowhere), go(ask);
  EXPECT_EQ(keys.asked, "read/openai admin/ read/ ") << "and not for what a browser asks before it asks";
  EXPECT_EQ(service.served, 2);
  EXPECT_EQ(service.name, "me");
}

TEST_F(AuthenticatorTest, WhoIsNotKnownIsToldHowToShowAKey) {
  keys.refusal = base::failure(Code::kUnauthenticated, "show a key");
  FakeExchange x("GET", "/models");
  go(x);
  EXPECT_EQ(x.response.status, 401);
  EXPECT_EQ(x.response.fields.find("www-authenticate"), "Bearer");
  EXPECT_FALSE(x.response.fields.has("retry-after"));
  EXPECT_EQ(x.record().reject, reason::kAuth);
  EXPECT_EQ(x.record().code, Code::kUnauthenticated);
  EXPECT_EQ(service.served, 0);
}

TEST_F(AuthenticatorTest, WhoHasNotTheRoleIsForbidden) {
  keys.refusal = base::failure(Code::kPermissionDenied, "not yours");
  FakeExchange x("POST", "/load");
  go(x);
  EXPECT_EQ(x.response.status, 403);
  EXPECT_FALSE(x.response.fields.has("www-authenticate"));
  EXPECT_EQ(x.record().reject, reason::kAuth);
}

TEST_F(AuthenticatorTest, WhoIsOverItsLimitsIsToldWhenToComeAgain) {
  keys.refusal = base::try_again(Code::kResourceExhausted, "too many", std::chrono::seconds(7));
  FakeExchange x("GET", "/models");
  go(x);
  EXPECT_EQ(x.response.status, 429);
  EXPECT_EQ(x.response.fields.find("retry-after"), "7");
  EXPECT_EQ(x.record().reject, reason::kUsage);
}

TEST(Caller, HoldsItsPlaceUntilItGoes) {
  auto who = identity("me");
  who->limiter = std::make_shared<base::UsageLimiter>("me", base::UsageLimits{.concurrent = 1});
  {
    auto first = Caller::enter(who, {});
    ASSERT_TRUE(first);
    EXPECT_EQ(first->identity(), who.get());
    EXPECT_EQ(Caller::enter(who, {}).error().code, Code::kResourceExhausted);
  }
  EXPECT_TRUE(Caller::enter(who, {}));
  EXPECT_TRUE(Caller::enter(nullptr, {})) << "nobody is asked";
}

TEST(AdmitAnother, ACallerMayGoOnUntilItsKeyEndsOrIsSpent) {
  const base::WallTime now{std::chrono::seconds(100)};
  auto who = identity("me");
  EXPECT_TRUE(admit_another(nullptr, {}, now).ok());
  EXPECT_TRUE(admit_another(who.get(), {}, now).ok());
  who->expires = now + std::chrono::nanoseconds(1);
  EXPECT_TRUE(admit_another(who.get(), {}, now).ok());
  who->expires = now;
  EXPECT_EQ(admit_another(who.get(), {}, now).code, Code::kUnauthenticated);
  who->expires = base::WallTime::max();
  who->limiter = std::make_shared<base::UsageLimiter>("me", base::UsageLimits{.tokens_per_minute = 1});
  EXPECT_TRUE(admit_another(who.get(), {}, now).ok());
  who->limiter->charge_tokens({}, 2);
  EXPECT_EQ(admit_another(who.get(), {}, now).code, Code::kResourceExhausted);
  who->revoked = true;
  EXPECT_EQ(admit_another(who.get(), {}, now).text, "the key 'me' has expired or was taken away since this began");
}

}  // namespace
}  // namespace weir::wire
