#include "auth/authenticator.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/fake_env.h"

namespace weir::auth {
namespace {

using base::Code;
using std::chrono::seconds;
using wire::Permission;
using wire::Role;
using wire::Roles;

constexpr Permission kAll[] = {Permission::kHealth, Permission::kMetrics, Permission::kObserve,
                               Permission::kRead,   Permission::kInfer,   Permission::kAdmin};

class AuthenticatorTest : public testing::Test {
 protected:
  Key& add(const std::string& name, Roles roles) {
    Key key;
    key.grant.name = name;
    key.grant.roles = roles;
    key.digest = digest_of("secret-of-" + name);
    all.push_back(key);
    return all.back();
  }
  Authenticator& use() {
    keys.use(all);
    return authenticator.emplace(env, Authenticator::Sources{&keys, nullptr, nullptr}, anonymous);
  }
  base::Result<wire::Caller> admit(const std::string& secret, Permission permission,
                                   std::string_view protocol = "oip") {
    wire::Request request;
    request.peer = &peer;
    if (!secret.empty()) request.fields.add("authorization", "Bearer " + secret);
    return authenticator->admit(request, permission, protocol);
  }
  Code code(const std::string& secret, Permission permission, std::string_view protocol = "oip") {
    auto caller = admit(secret, permission, protocol);
    return caller ? Code::kOk : caller.error().code;
  }

  base::FakeEnv env;
  wire::PeerInfo peer{"192.0.2.1:5000", wire::Security::kCleartext};
  Keys keys;
  std::vector<Key> all;
  Roles anonymous{Role::kHealth};
  std::optional<Authenticator> authenticator;
};

// A request's caller as the text by which it is recalled.
std::string remember(Authenticator& authenticator, const wire::Identity* who) {
  wire::Request request;
  request.identity = who;
  return authenticator.remember(request);
}

TEST_F(AuthenticatorTest, AKeyThatIsRecalledIsWorthWhatItIsWorthNow) {
  add("alice", {Role::kInfer}).grant.models = {"chat"};
  use();
  auto live = admit("secret-of-alice", Permission::kInfer);
  ASSERT_TRUE(live);
  const std::string text = remember(*authenticator, live->identity());
  EXPECT_EQ(std::string::npos, text.find("secret"));
  auto again = authenticator->recall(text, Permission::kInfer, "openai");
  ASSERT_TRUE(again);
  EXPECT_EQ(live->identity(), again->identity());
  EXPECT_EQ(Code::kPermissionDenied, authenticator->recall(text, Permission::kAdmin, "openai").error().code);
  all[0].grant.roles = {Role::kMetrics};
  keys.use(all);
  EXPECT_EQ(Code::kPermissionDenied, authenticator->recall(text, Permission::kInfer, "openai").error().code);
  all[0].grant.tenant = "another";
  keys.use(all);
  EXPECT_EQ(Code::kUnauthenticated, authenticator->recall(text, Permission::kInfer, "openai").error().code);
  keys.use({});
  EXPECT_EQ(Code::kUnauthenticated, authenticator->recall(text, Permission::kInfer, "openai").error().code);
}

TEST_F(AuthenticatorTest, ARequestThatWasCountedIsNoMoreRequestWhenItIsRecalled) {
  add("alice", {Role::kInfer}).grant.limits.requests_per_second = 1;
  use();
  auto live = admit("secret-of-alice", Permission::kInfer);
  ASSERT_TRUE(live);
  const std::string text = remember(*authenticator, live->identity());
  EXPECT_EQ(Code::kResourceExhausted, authenticator->recall(text, Permission::kInfer, "openai").error().code);
  EXPECT_TRUE(authenticator->recall(text, Permission::kInfer, "openai", Authenticator::Recalled::kCounted));
}

TEST_F(AuthenticatorTest, WhatATokenAllowedIsRecalledAsItWas) {
  Limiters limiters;
  use();
  Grant grant{"token\nof x", "jwt:x", {Role::kInfer, Role::kAdmin}, std::vector<std::string>{"chat*", "v?"}, {}};
  grant.limits.concurrent = 1, grant.limits.requests_per_second = 2.5;
  grant.limits_of = Grant::LimitsOf::kTenant;
  auto identity = make_identity(grant, limiters);
  const std::string text = remember(*authenticator, identity.get());
  EXPECT_EQ(Code::kUnauthenticated, authenticator->recall(text, Permission::kInfer, "oip").error().code);
  Authenticator with(env, {&keys, nullptr, nullptr, &limiters}, anonymous);
  auto again = with.recall(text, Permission::kInfer, "oip");
  ASSERT_TRUE(again);
  EXPECT_EQ("token\nof x", again->identity()->name);
  EXPECT_EQ(identity->tenant_number, again->identity()->tenant_number);
  EXPECT_EQ(identity->limiter, again->identity()->limiter);
  EXPECT_TRUE(again->identity()->models->allows("chat-1"));
  EXPECT_FALSE(again->identity()->models->allows("other"));
  EXPECT_EQ(Code::kResourceExhausted, with.recall(text, Permission::kInfer, "oip").error().code);
  EXPECT_EQ(Code::kPermissionDenied, with.recall(text, Permission::kAdmin, "oip").error().code);
}

// Limits that are another number when they are recalled are those of another limiter: with a fresh bucket, or none.
TEST_F(AuthenticatorTest, TheLimitsOfATokenAreRecalledToTheLastDigit) {
  Limiters limiters;
  use();
  Authenticator with(env, {&keys, nullptr, nullptr, &limiters}, anonymous);
  for (double rate : {0.0005, 65.1, 1.0 / 3, 1e-9, 1e9, 20.0}) {
    Grant grant{"token", "jwt:x" + std::to_string(rate), {Role::kInfer}, {}, {}};
    grant.limits.requests_per_second = rate;
    grant.limits_of = Grant::LimitsOf::kTenant;
    auto identity = make_identity(grant, limiters);
    auto again = with.recall(remember(*authenticator, identity.get()), Permission::kInfer, "oip");
    ASSERT_TRUE(again) << rate;
    EXPECT_EQ(again->identity()->limiter, identity->limiter) << rate;
    EXPECT_EQ(again->identity()->limiter->limits().requests_per_second, rate);
  }
}

TEST_F(AuthenticatorTest, NobodyInParticularIsRecalledAsNobody) {
  anonymous = {Role::kHealth, Role::kInfer};
  use();
  auto live = admit("", Permission::kInfer);
  ASSERT_TRUE(live);
  EXPECT_EQ("", remember(*authenticator, live->identity()));
  EXPECT_TRUE(authenticator->recall("", Permission::kInfer, "oip"));
  for (const char* text : {"x", "key", "key\na", "grant\na\nb", "grant\na\nb\nc\nx\n0\n0\n0", "\n\n\n"})
    EXPECT_EQ(Code::kUnauthenticated, authenticator->recall(text, Permission::kInfer, "oip").error().code) << text;
  anonymous = {Role::kHealth};
  use();
  EXPECT_EQ(Code::kUnauthenticated, authenticator->recall("", Permission::kInfer, "oip").error().code);
}

TEST_F(AuthenticatorTest, WhoIsRefusedHasAName) {
  add("infer", {Role::kInfer}).grant.limits.concurrent = 1;
  use();
  auto name = [&](const std::string& secret) {
    wire::Request request;
    request.peer = &peer;
    if (!secret.empty()) request.fields.add("authorization", "Bearer " + secret);
    return authenticator->name_of(request);
  };
  EXPECT_EQ(name("secret-of-infer"), "infer");
  EXPECT_EQ(name("secret-of-nobody"), "");
  EXPECT_EQ(name(""), "");
  EXPECT_EQ(code("secret-of-infer", Permission::kInfer), Code::kOk) << "no place was taken";
}

TEST_F(AuthenticatorTest, RolesOpenTheRoutesThatTheyAreFor) {
  add("infer", {Role::kInfer}), add("admin", {Role::kAdmin}), add("metrics", {Role::kMetrics}), add("none", {});
  use();
  auto row = [&](const std::string& name) {
    std::string out;
    for (auto permission : kAll) out += code("secret-of-" + name, permission) == Code::kOk ? '+' : '-';
    return out;  // health, metrics, observe, read, infer, admin
  };
  EXPECT_EQ(row("infer"), "+--++-");
  EXPECT_EQ(row("admin"), "++++-+");
  EXPECT_EQ(row("metrics"), "+++---");
  EXPECT_EQ(row("none"), "+-----");
  EXPECT_EQ(code("secret-of-infer", Permission::kAdmin), Code::kPermissionDenied);
}

TEST_F(AuthenticatorTest, TheRequestsOfOthersAreForNobodyWhoShowsNothingButAnAdministrator) {
  anonymous = {Role::kHealth, Role::kMetrics, Role::kInfer};
  authenticator.emplace(env, Authenticator::Sources{}, anonymous);
  EXPECT_EQ(code("", Permission::kMetrics), Code::kOk);
  auto refused = admit("", Permission::kObserve);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().text.find("auth.admin: open"), std::string::npos) << refused.error().text;
  auto caller = admit("", Permission::kMetrics);
  wire::Request request;
  request.identity = caller->identity();
  EXPECT_EQ(authenticator->permit(request, Permission::kObserve).code, Code::kPermissionDenied);
  EXPECT_TRUE(authenticator->permit(request, Permission::kMetrics).ok());
  anonymous.add(Role::kAdmin);
  authenticator.emplace(env, Authenticator::Sources{}, anonymous);
  EXPECT_EQ(code("", Permission::kObserve), Code::kOk);
}

TEST_F(AuthenticatorTest, TheRequestsOfOthersAreForNobodyWhoShowsNothingWhereAdminMethodsAreNotServed) {
  const Roles all{Role::kHealth, Role::kMetrics, Role::kInfer, Role::kAdmin};
  authenticator.emplace(env, Authenticator::Sources{}, all);
  peer.admin = wire::AdminMethods::kElsewhere;
  auto refused = admit("", Permission::kObserve);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().text.find("at admin.listen"), std::string::npos) << refused.error().text;
  EXPECT_EQ(code("", Permission::kMetrics), Code::kOk);
  auto caller = admit("", Permission::kMetrics);
  wire::Request request;
  request.identity = caller->identity();
  request.peer = &peer;
  EXPECT_EQ(authenticator->permit(request, Permission::kObserve).code, Code::kPermissionDenied);
  peer.admin = wire::AdminMethods::kServed;
  EXPECT_EQ(code("", Permission::kObserve), Code::kOk);
  EXPECT_TRUE(authenticator->permit(request, Permission::kObserve).ok());
  add("metrics", {Role::kMetrics});
  anonymous = all;
  use();
  peer.admin = wire::AdminMethods::kElsewhere;
  EXPECT_EQ(code("secret-of-metrics", Permission::kObserve), Code::kOk);
  EXPECT_EQ(code("", Permission::kObserve), Code::kUnauthenticated);
}

TEST_F(AuthenticatorTest, ARequestThatWasLetInMayAskForMore) {
  add("infer", {Role::kInfer}), add("admin", {Role::kAdmin});
  anonymous = {Role::kHealth, Role::kInfer};
  use();
  auto more = [&](const std::string& secret) {
    auto caller = admit(secret, Permission::kRead);
    EXPECT_TRUE(caller);
    wire::Request request;
    request.identity = caller->identity();
    return authenticator->permit(request, Permission::kAdmin);
  };
  EXPECT_TRUE(more("secret-of-admin").ok());
  EXPECT_EQ(more("secret-of-infer").code, Code::kPermissionDenied);
  EXPECT_EQ(more("secret-of-infer").text, "the key 'infer' has not the role that this needs: admin");
  EXPECT_EQ(more("").code, Code::kUnauthenticated);
  EXPECT_TRUE(authenticator->permit(wire::Request(), Permission::kAdmin).ok()) << "nobody is asked who it is";
}

TEST_F(AuthenticatorTest, WhoShowsNothingOrAWrongKeyIsNobody) {
  add("a", {Role::kInfer, Role::kAdmin, Role::kMetrics});
  use();
  for (auto permission : kAll) {
    const Code wanted = permission == Permission::kHealth ? Code::kOk : Code::kUnauthenticated;
    EXPECT_EQ(code("", permission), wanted);
    EXPECT_EQ(code("wrong", permission), wanted);
    EXPECT_EQ(code("secret-of-", permission), wanted);
    EXPECT_EQ(code("secret-of-aa", permission), wanted);
    EXPECT_EQ(code("secret-of-a", permission), Code::kOk);
  }
  EXPECT_EQ(admit("wrong-key-42", Permission::kInfer).error().text.find("42"), std::string::npos);
}

TEST_F(AuthenticatorTest, HealthMayBeClosed) {
  add("a", {Role::kInfer});
  anonymous = {};
  use();
  EXPECT_EQ(code("", Permission::kHealth), Code::kUnauthenticated);
  EXPECT_EQ(code("wrong", Permission::kHealth), Code::kUnauthenticated);
  EXPECT_EQ(code("secret-of-a", Permission::kHealth), Code::kOk);
}

TEST_F(AuthenticatorTest, AWrongKeyIsNoAnonymousClient) {
  add("a", {Role::kInfer});
  anonymous = {Role::kHealth, Role::kInfer};
  use();
  EXPECT_EQ(code("", Permission::kInfer), Code::kOk);
  EXPECT_EQ(code("wrong", Permission::kInfer), Code::kUnauthenticated);
}

TEST_F(AuthenticatorTest, AKeyExpires) {
  add("a", {Role::kInfer}).grant.expires = env.wall() + seconds(10);
  use();
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  env.advance(seconds(9));
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  env.advance(seconds(1));
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kUnauthenticated);
}

TEST_F(AuthenticatorTest, AKeyOfSomeProtocolsOpensNoOther) {
  add("a", {Role::kInfer, Role::kMetrics}).grant.protocol = "openai ollama";
  use();
  EXPECT_EQ(code("secret-of-a", Permission::kInfer, "openai"), Code::kOk);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer, "ollama"), Code::kOk);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer, "oip"), Code::kPermissionDenied);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer, "open"), Code::kPermissionDenied);
  EXPECT_EQ(admit("secret-of-a", Permission::kInfer, "oip").error().text,
            "the key 'a' is for the routes of openai, ollama alone");
  EXPECT_EQ(code("secret-of-a", Permission::kRead, ""), Code::kPermissionDenied) << "a path that there is not";
}

TEST_F(AuthenticatorTest, ARevokedKeyStopsAtOnceAlsoInWhatGoesOn) {
  add("a", {Role::kInfer}), add("b", {Role::kInfer});
  use();
  auto a = admit("secret-of-a", Permission::kInfer), b = admit("secret-of-b", Permission::kInfer);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(wire::admit_another(a->identity(), env.now(), env.wall()).ok());
  all.erase(all.begin());
  keys.use(all);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kUnauthenticated);
  EXPECT_EQ(code("secret-of-b", Permission::kInfer), Code::kOk);
  EXPECT_EQ(wire::admit_another(a->identity(), env.now(), env.wall()).code, Code::kUnauthenticated);
  EXPECT_TRUE(wire::admit_another(b->identity(), env.now(), env.wall()).ok());
}

TEST_F(AuthenticatorTest, TheRateIsABucketThatFillsAgain) {
  add("a", {Role::kInfer}).grant.limits.requests_per_second = 2;
  use();
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  auto third = admit("secret-of-a", Permission::kInfer);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(base::worth_trying_again(third.error()));
  env.advance(std::chrono::milliseconds(500));
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kResourceExhausted);
}

TEST_F(AuthenticatorTest, PlacesComeBackWithTheCaller) {
  add("a", {Role::kInfer}).grant.limits.concurrent = 2;
  use();
  auto one = admit("secret-of-a", Permission::kInfer);
  {
    auto two = admit("secret-of-a", Permission::kInfer);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kResourceExhausted);
    EXPECT_EQ(code("secret-of-a", Permission::kAdmin), Code::kPermissionDenied) << "takes no place";
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
}

TEST_F(AuthenticatorTest, TokensAreOwedUntilTheBucketHasFilled) {
  add("a", {Role::kInfer}).grant.limits.tokens_per_minute = 60;
  use();
  auto caller = admit("secret-of-a", Permission::kInfer);
  ASSERT_TRUE(caller);
  caller->identity()->limiter->charge_tokens(env.now(), 90);
  auto refused = admit("secret-of-a", Permission::kInfer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(base::retry_after(refused.error()), seconds(31)) << "30 owed, and one to begin with";
  env.advance(seconds(30));
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kResourceExhausted);
  env.advance(seconds(1));
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
}

TEST_F(AuthenticatorTest, AReloadForgivesNothing) {
  add("a", {Role::kInfer}).grant.limits.requests_per_second = 0.01;
  use();
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
  keys.use(all);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kResourceExhausted);
  all[0].grant.limits.requests_per_second = 1000;
  keys.use(all);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
}

TEST_F(AuthenticatorTest, KeysOfOneTenantAreOneTenant) {
  add("a", {Role::kInfer}).grant.tenant = "t";
  add("b", {Role::kInfer}).grant.tenant = "t";
  add("c", {Role::kInfer});
  use();
  auto tenant = [&](const char* secret) { return admit(secret, Permission::kInfer)->identity()->tenant_number; };
  EXPECT_EQ(tenant("secret-of-a"), tenant("secret-of-b"));
  EXPECT_NE(tenant("secret-of-a"), tenant("secret-of-c"));
  EXPECT_EQ(tenant("secret-of-a") % 2, 0u) << "msg::is_anonymous()";
}

TEST_F(AuthenticatorTest, WithoutKeysWhatIsShownMeansNothing) {
  anonymous = {Role::kHealth, Role::kInfer, Role::kMetrics};
  authenticator.emplace(env, Authenticator::Sources{}, anonymous);
  EXPECT_EQ(code("anything", Permission::kInfer), Code::kOk);
  EXPECT_EQ(code("", Permission::kAdmin), Code::kPermissionDenied);
  EXPECT_NE(admit("", Permission::kAdmin).error().text.find("auth.admin"), std::string::npos);
}

// Bounded work and memory are seen from outside (tests/e2e/auth_test.py); here, that nothing of the keys is kept.
TEST_F(AuthenticatorTest, AHundredThousandWrongKeysChangeNothing) {
  add("a", {Role::kInfer});
  use();
  for (int i = 0; i < 100'000; ++i)
    ASSERT_EQ(code("wrong" + std::to_string(i), Permission::kInfer), Code::kUnauthenticated);
  EXPECT_EQ(code("secret-of-a", Permission::kInfer), Code::kOk);
}

}  // namespace
}  // namespace weir::auth
