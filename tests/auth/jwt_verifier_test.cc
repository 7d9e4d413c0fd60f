// The costs of tokens: once for each, and bounded for those who show wrong ones.
#include "auth/jwt_verifier.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tokens.h"

namespace weir::auth {
namespace {

using namespace test;  // NOLINT: this test's own

constexpr base::WallTime kWallNow{std::chrono::seconds(1'700'000'000)};
constexpr base::Time kStart{std::chrono::hours(1)};

struct Verifying : testing::Test {
  Verifying() {
    settings.rules.audiences = {"weir"};
    keys.on_missing([this] { ++missing; });
    keys.use(set_of({&key}));
  }
  static std::shared_ptr<const KeySet> set_of(std::vector<const SigningKey*> keys) {
    std::string text;
    for (const auto* key : keys) text += (text.empty() ? "{" : ",{") + key->jwk() + "}";
    return std::make_shared<const KeySet>(*KeySet::parse_jwks(R"({"keys":[)" + text + "]}", KeySet::Secrets::kRefused));
  }
  static std::string claims(const std::string& subject, int64_t expires = 1'700'000'100) {
    return R"({"aud":"weir","sub":")" + subject + R"(","exp":)" + std::to_string(expires) + "}";
  }
  base::Result<IdentityRef> verify(const std::string& token, const char* client = "192.0.2.1", base::Time now = kStart,
                                   base::WallTime wall = kWallNow) {
    return verifier.verify(token, client, now, wall);
  }

  SigningKey key = SigningKey::ec("P-256"), other = SigningKey::ec("P-256");
  JwtSettings settings;
  int missing = 0;
  TokenKeys keys;
  Limiters limiters;
  FailureLimit failures{base::process_key()};
  JwtVerifier verifier{settings, keys, limiters, failures};
};

TEST_F(Verifying, ATokenIsVerifiedOnceAndForgottenWhenItExpires) {
  const std::string token = token_of(key, "ES256", claims("alice"));
  auto first = verify(token), second = verify(token);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->get(), second->get());
  EXPECT_EQ((*first)->name, "jwt:alice");
  EXPECT_EQ((*first)->tenant, "jwt:alice");
  EXPECT_TRUE((*first)->roles.has(wire::Role::kInfer));
  EXPECT_FALSE((*first)->roles.has(wire::Role::kAdmin));
  EXPECT_EQ((*first)->expires, base::WallTime(std::chrono::seconds(1'700'000'160)));
  auto late = verify(token, "192.0.2.1", kStart, kWallNow + std::chrono::seconds(160));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, base::Code::kUnauthenticated);
  EXPECT_EQ(verifier.cached(), 0u);
}

TEST_F(Verifying, AKeyThatIsWithdrawnTakesItsTokensAlong) {
  keys.use(set_of({&key, &other}));
  const std::string token = token_of(key, "ES256", claims("alice")), theirs = token_of(other, "ES256", claims("bob"));
  auto alice = verify(token), bob = verify(theirs);
  ASSERT_TRUE(alice && bob);
  keys.use(set_of({&other}));
  verifier.refresh();
  EXPECT_TRUE((*alice)->revoked);
  EXPECT_FALSE((*bob)->revoked);
  EXPECT_FALSE(verify(token));
  EXPECT_EQ(verify(theirs)->get(), bob->get()) << "not verified again";
}

TEST_F(Verifying, NoMoreThanTheLastTokensAreKept) {
  for (size_t i = 0; i < JwtVerifier::kMostCached + 10; ++i)
    ASSERT_TRUE(verify(token_of(key, "ES256", claims(std::to_string(i)))));
  EXPECT_EQ(verifier.cached(), JwtVerifier::kMostCached);
}

TEST_F(Verifying, AClientWithWrongSignaturesIsHeldBackAndNobodyElse) {
  const std::string good = token_of(key, "ES256", claims("alice"));
  ASSERT_TRUE(verify(good));
  size_t tried = 0;
  base::Status last;
  for (; tried < 1000; ++tried) {
    last = verify(token_of(other, "ES256", claims("mallory" + std::to_string(tried)))).error();
    if (last.code == base::Code::kResourceExhausted) break;
  }
  EXPECT_EQ(tried, FailureLimit::kBurst);
  EXPECT_TRUE(base::worth_trying_again(last));
  EXPECT_EQ(verify(token_of(key, "ES256", claims("carol"))).error().code, base::Code::kResourceExhausted)
      << "a new token of this client waits";
  EXPECT_TRUE(verify(good)) << "a known one does not";
  EXPECT_TRUE(verify(token_of(key, "ES256", claims("dave")), "192.0.2.2")) << "nor do other clients";
  EXPECT_TRUE(verify(token_of(key, "ES256", claims("carol")), "192.0.2.1", kStart + std::chrono::seconds(1)));
  // Tokens that cost no signature are not counted.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(verify("eyJ.eyJ.x", "192.0.2.3").error().code, base::Code::kUnauthenticated);
}

// Connections to another shard are no more attempts.
TEST_F(Verifying, WrongSignaturesCountOverAllShards) {
  JwtVerifier elsewhere{settings, keys, limiters, failures};
  uint32_t tried = 0;
  for (base::Code code = base::Code::kOk; tried < 1000; ++tried) {
    const std::string wrong = token_of(other, "ES256", claims("mallory" + std::to_string(tried)));
    auto found = tried % 2 == 0 ? verify(wrong) : elsewhere.verify(wrong, "192.0.2.1", kStart, kWallNow);
    code = found.error().code;
    if (code == base::Code::kResourceExhausted) break;
  }
  EXPECT_EQ(tried, FailureLimit::kBurst);
  EXPECT_TRUE(elsewhere.verify(token_of(key, "ES256", claims("dave")), "192.0.2.2", kStart, kWallNow))
      << "other clients";
}

TEST(FailureLimit, WhatManyThreadsCountIsAllCounted) {
  FailureLimit limit{base::process_key()};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) limit.count("192.0.2.1", kStart, 1);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(limit.wait("192.0.2.1", kStart), std::chrono::milliseconds(100) * (4000 - FailureLimit::kBurst + 1));
  EXPECT_EQ(limit.wait("192.0.2.2", kStart).count(), 0);
}

TEST_F(Verifying, AnExpiredTokenThatWasGoodNamesItsHolder) {
  const std::string token = token_of(key, "ES256", claims("alice"));
  ASSERT_TRUE(verify(token));
  const auto late = kWallNow + std::chrono::seconds(160);
  EXPECT_EQ(verify(token, "192.0.2.1", kStart, late).error().text,
            "the token of 'jwt:alice' has expired (exp): get a new one");
  EXPECT_EQ(verify(token_of(other, "ES256", claims("alice")), "192.0.2.1", kStart, late).error().text,
            "the token has expired (exp): get a new one")
      << "nobody has signed that";
}

TEST_F(Verifying, WrongSignaturesOfASlowKeyAreFewer) {
  const SigningKey slow = SigningKey::ec("P-384"), wrong = SigningKey::ec("P-384");
  keys.use(set_of({&slow}));
  uint32_t tried = 0;
  while (tried < 100 && verify(token_of(wrong, "ES384", claims("m" + std::to_string(tried)))).error().code !=
                            base::Code::kResourceExhausted)
    ++tried;
  EXPECT_EQ(tried, (FailureLimit::kBurst + VerificationKey::kMostCost - 1) / VerificationKey::kMostCost);
  EXPECT_TRUE(verify(token_of(slow, "ES384", claims("a")), "192.0.2.2")) << "other clients are not held back";
}

// Two shards: limits are counted by tenant, over all of its tokens.
TEST_F(Verifying, TheTokensOfATenantShareItsLimits) {
  settings.rules.limits.concurrent = 1;
  JwtVerifier elsewhere{settings, keys, limiters, failures};
  auto one = verify(token_of(key, "ES256", claims("alice"))),
       two = elsewhere.verify(token_of(key, "ES256", claims("alice", 1'700'000'200)), "192.0.2.2", kStart, kWallNow),
       bob = verify(token_of(key, "ES256", claims("bob")));
  ASSERT_TRUE(one && two && bob);
  auto held = wire::Caller::enter(*one, kStart);
  ASSERT_TRUE(held);
  auto refused = wire::Caller::enter(*two, kStart);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("'jwt:alice' is over its limit of requests at once"), std::string::npos)
      << refused.error().text;
  EXPECT_TRUE(wire::Caller::enter(*bob, kStart));
}

// Whoever has tokens with different limits must not get a fresh bucket by changing between them.
TEST_F(Verifying, ChangingBetweenLimitsFillsNoBucket) {
  auto limited = [&](int rate, int64_t expires) {
    auto got = verify(token_of(key, "ES256",
                               R"({"aud":"weir","sub":"a","exp":)" + std::to_string(expires) +
                                   R"(,"limits":{"requests_per_second":)" + std::to_string(rate) + "}}"));
    return wire::Caller::enter(got.value(), kStart).has_value();
  };
  EXPECT_TRUE(limited(1, 1'700'000'100));
  EXPECT_TRUE(limited(2, 1'700'000'101));
  EXPECT_TRUE(limited(2, 1'700'000'102));
  EXPECT_FALSE(limited(1, 1'700'000'103)) << "a new token";
  EXPECT_FALSE(limited(2, 1'700'000'104));
}

TEST_F(Verifying, AnUnknownKeyIsAskedFor) {
  EXPECT_FALSE(verify(token_of(key, "RS256", "{}")).has_value());
  const auto named = std::make_shared<const KeySet>(
      *KeySet::parse_jwks(R"({"keys":[{)" + key.jwk() + R"(,"kid":"a"}]})", KeySet::Secrets::kRefused));
  keys.use(named);
  EXPECT_EQ(missing, 0);
  EXPECT_FALSE(verify(token_of(other, "ES256", claims("a"), R"(,"kid":"b")")));
  EXPECT_EQ(missing, 1);
  EXPECT_FALSE(verify(token_of(other, "ES256", claims("a"), R"(,"kid":"c")")));
  EXPECT_EQ(missing, 1) << "once, until somebody has looked";
  keys.looked();
  EXPECT_FALSE(verify(token_of(other, "ES256", claims("a"), R"(,"kid":"c")")));
  EXPECT_EQ(missing, 2);
}

TEST_F(Verifying, WithoutKeysNothingIsVerified) {
  TokenKeys none;
  JwtVerifier fresh(settings, none, limiters, failures);
  auto got = fresh.verify(token_of(key, "ES256", claims("a")), "192.0.2.1", kStart, kWallNow);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, base::Code::kUnavailable);
}

TEST_F(Verifying, RolesAndModelsAreTheTokens) {
  auto got = verify(
      token_of(key, "ES256",
               R"({"aud":"weir","sub":"a","exp":1700000100,"scope":"weir:admin weir:unheard-of","models":["chat*"]})"));
  ASSERT_TRUE(got);
  EXPECT_TRUE((*got)->roles.has(wire::Role::kAdmin));
  EXPECT_FALSE((*got)->roles.has(wire::Role::kInfer)) << "roles that are named take the place of the default";
  ASSERT_TRUE((*got)->models);
  EXPECT_TRUE((*got)->models->allows("chat-large"));
  EXPECT_FALSE((*got)->models->allows("embed"));
}

TEST(JwtSettings, AreHeldAgainstTheirRules) {
  JwtSettings s;
  EXPECT_TRUE(check_jwt_settings(s).ok()) << "off";
  s.keys_file = "x";
  EXPECT_NE(check_jwt_settings(s).text.find("auth.jwt.audience"), std::string::npos);
  s.rules.audiences = {"weir"};
  EXPECT_TRUE(check_jwt_settings(s).ok());
  s.default_roles = {"root"};
  EXPECT_NE(check_jwt_settings(s).text.find("auth.jwt.default_roles"), std::string::npos);
  s.default_roles = {}, s.keys_url = "https://issuer.example/jwks";
  EXPECT_NE(check_jwt_settings(s).text.find("expected one of them"), std::string::npos);
  s.keys_file.clear();
  EXPECT_TRUE(check_jwt_settings(s).ok());
  for (const char* url : {"http://issuer.example/jwks", "ftp://x", "issuer.example", "http://127.0.0.1.evil.example/",
                          "http://127.0.0.1:80@evil.example/"}) {
    s.keys_url = url;
    EXPECT_FALSE(check_jwt_settings(s).ok()) << url;
  }
  for (const char* url : {"http://127.0.0.1:8081/jwks", "http://localhost/jwks", "http://[::1]:1/"}) {
    s.keys_url = url;
    EXPECT_TRUE(check_jwt_settings(s).ok()) << url;
  }
}

}  // namespace
}  // namespace weir::auth
