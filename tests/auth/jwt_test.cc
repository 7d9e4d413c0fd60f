// Tokens of the RFCs, tokens of every algorithm, and tokens of attackers.
#include "auth/jwt.h"

#include <gtest/gtest.h>

#include "base/base64url.h"
#include "tokens.h"

namespace weir::auth {
namespace {

using namespace test;  // NOLINT: this test's own

// RFC 7515 appendix A.
const std::string kPayload =
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
const std::string kHs256 =
    "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" + kPayload + "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const std::string kRs256 =
    "eyJhbGciOiJSUzI1NiJ9" + kPayload +
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1"
    "dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzD"
    "wusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77"
    "Rw";
const std::string kEs256 = "eyJhbGciOiJFUzI1NiJ9" + kPayload +
                           "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const std::string kNone = "eyJhbGciOiJub25lIn0" + kPayload;
const std::string kJwkHs256 =
    R"({"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"})";
const std::string kJwkRs256 =
    R"({"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"})";
const std::string kJwkEs256 =
    R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";

constexpr base::WallTime at(int64_t seconds) { return base::WallTime(std::chrono::seconds(seconds)); }
constexpr int64_t kNow = 1'700'000'000;

KeySet keys_of(const std::string& jwks) {
  auto set = KeySet::parse_jwks(R"({"keys":[)" + jwks + "]}", KeySet::Secrets::kTaken);
  EXPECT_TRUE(set) << set.error().text;
  return std::move(*set);
}

JwtRules rules_of_tests() {
  JwtRules rules;
  rules.issuer = "https://issuer.example";
  rules.audiences = {"weir"};
  return rules;
}

// Claims that pass, with what is added or, where a name is there twice, what must not pass.
std::string claims(const std::string& more = "") {
  return R"({"iss":"https://issuer.example","aud":"weir","sub":"alice","exp":1700000100)" + more + "}";
}

struct Verdict {
  JwtCheck check;
  std::string text() const { return check.claims ? "" : check.claims.error().text; }
};
Verdict verdict(const std::string& token, const KeySet& keys, const JwtRules& rules = rules_of_tests(),
                int64_t now = kNow) {
  Verdict out{verify_jwt(token, keys, rules, at(now))};
  if (!out.check.claims) {
    EXPECT_EQ(out.check.claims.error().code, base::Code::kUnauthenticated);
  }
  return out;
}

const SigningKey& ec_key() {
  static const SigningKey key = SigningKey::ec("P-256");
  return key;
}
const KeySet& ec_keys() {
  static const KeySet keys = keys_of("{" + ec_key().jwk() + R"(,"kid":"one"})");
  return keys;
}
Verdict of_claims(const std::string& text, const JwtRules& rules = rules_of_tests(), int64_t now = kNow) {
  return verdict(token_of(ec_key(), "ES256", text), ec_keys(), rules, now);
}

TEST(Jwt, TokensOfRfc7515AreVerified) {
  JwtRules rules;
  rules.issuer = "joe", rules.audiences = {"*"}, rules.tenant_claim = "iss";
  for (const auto& [token, jwk] : {std::pair{kHs256, kJwkHs256}, {kRs256, kJwkRs256}, {kEs256, kJwkEs256}}) {
    auto got = verdict(token, keys_of(jwk), rules, 1300819300);
    ASSERT_TRUE(got.check.claims) << got.text() << token;
    EXPECT_EQ(got.check.claims->tenant, "joe");
    EXPECT_EQ(got.check.claims->expires, at(1300819380));
    EXPECT_EQ(got.check.cost, 1u);
    std::string other = token;
    other[other.find('.') + 20] ^= 1;
    EXPECT_FALSE(verdict(other, keys_of(jwk), rules, 1300819300).check.claims);
  }
  EXPECT_FALSE(verdict(kNone, keys_of(kJwkHs256), rules, 1300819300).check.claims);
  EXPECT_EQ(verdict(kHs256, keys_of(kJwkHs256), rules).text(), "the token has expired (exp): get a new one");
}

TEST(Jwt, TheSignatureOfRfc8037IsVerified) {
  auto key = VerificationKey::edwards(
      KeyType::kEd25519,
      *base::base64url_decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", base::Base64Url::kStrict));
  ASSERT_TRUE(key);
  const auto& eddsa = *find_algorithm("EdDSA");
  const std::string text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
  auto signature =
      *base::base64url_decode("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
                              base::Base64Url::kStrict);
  EXPECT_TRUE(key->verifies(eddsa, text, signature));
  EXPECT_FALSE(key->verifies(eddsa, text + "x", signature));
  signature[3] ^= 1;
  EXPECT_FALSE(key->verifies(eddsa, text, signature));
}

TEST(Jwt, EachAlgorithmIsVerifiedWithItsOwnKindOfKey) {
  const auto rsa = SigningKey::rsa(), p384 = SigningKey::ec("P-384"), p521 = SigningKey::ec("P-521"),
             ed = SigningKey::ed25519(), ed448 = SigningKey::ed448();
  const std::string secret(64, 's');
  const KeySet keys =
      keys_of("{" + rsa.jwk() + "},{" + ec_key().jwk() + "},{" + p384.jwk() + "},{" + p521.jwk() + "},{" + ed.jwk() +
              "},{" + ed448.jwk() + R"(},{"kty":"oct","k":")" + base64url(secret) + "\"}");
  for (const char* name : {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
    EXPECT_EQ(verdict(token_of(rsa, name, claims()), keys).text(), "") << name;
  EXPECT_EQ(verdict(token_of(ec_key(), "ES256", claims()), keys).text(), "");
  EXPECT_EQ(verdict(token_of(p384, "ES384", claims()), keys).text(), "");
  EXPECT_EQ(verdict(token_of(p521, "ES512", claims()), keys).text(), "");
  for (const char* name : {"EdDSA", "Ed25519"})
    EXPECT_EQ(verdict(token_of(ed, name, claims()), keys).text(), "") << name;
  for (const char* name : {"EdDSA", "Ed448"})
    EXPECT_EQ(verdict(token_of(ed448, name, claims()), keys).text(), "") << name;
  EXPECT_FALSE(verdict(token_of(ed448, "Ed25519", claims()), keys).check.claims) << "of the other curve";
  EXPECT_FALSE(verdict(token_of(ed, "Ed448", claims()), keys).check.claims);
  for (const char* name : {"HS256", "HS384", "HS512"})
    EXPECT_EQ(verdict(hmac_token(secret, name, claims()), keys).text(), "") << name;
  for (const char* name : {"none", "None", "NONE", "nOnE", "", "HS1", "RS1", "rs256", "es512", "ES256K", "HMAC"})
    EXPECT_NE(verdict(base64url(R"({"alg":")" + std::string(name) + "\"}") + '.' + base64url(claims()) + '.', keys)
                  .text()
                  .find("algorithm (alg) is none of"),
              std::string::npos)
        << name;
}

TEST(Jwt, WhatTakesLongToVerifyCostsMore) {
  const auto p384 = SigningKey::ec("P-384"), other = SigningKey::ec("P-384");
  const KeySet keys = keys_of("{" + p384.jwk() + "},{" + SigningKey::ec("P-384").jwk() + "}");
  auto got = verdict(token_of(other, "ES384", claims()), keys);
  EXPECT_FALSE(got.check.claims);
  EXPECT_EQ(got.check.cost, 2 * VerificationKey::kMostCost) << "two keys that it may be signed with";
  EXPECT_EQ(verdict(token_of(p384, "ES384", claims()), keys).check.cost, VerificationKey::kMostCost);
}

TEST(Jwt, LimitsAreTheTokensOwnOrTheRules) {
  JwtRules rules = rules_of_tests();
  rules.limits.requests_per_second = 5, rules.limits.concurrent = 2;
  auto limits = [&](const std::string& more) {
    auto got = of_claims(
        R"({"aud":"weir","iss":"https://issuer.example","sub":"a","exp":)" + std::to_string(kNow + 100) + more + "}",
        rules);
    EXPECT_TRUE(got.check.claims) << got.text();
    return got.check.claims ? got.check.claims->limits : base::UsageLimits();
  };
  EXPECT_EQ(limits(""), rules.limits);
  EXPECT_EQ(limits(R"(,"limits":"of another kind")"), rules.limits) << "another claim of that name";
  const base::UsageLimits own = limits(R"(,"limits":{"requests_per_second":0.5,"tokens_per_minute":100,"other":[1]})");
  EXPECT_EQ(own.requests_per_second, 0.5);
  EXPECT_EQ(own.tokens_per_minute, 100u);
  EXPECT_EQ(own.concurrent, 2u) << "what the token does not say stays";
  for (const char* bad : {"0", "-1", "1.5", "\"many\"", "1e400"}) {
    auto got = of_claims(R"({"aud":"weir","iss":"https://issuer.example","sub":"a","exp":)" +
                             std::to_string(kNow + 100) + R"(,"limits":{"concurrent":)" + bad + "}}",
                         rules);
    EXPECT_FALSE(got.check.claims) << bad;
    EXPECT_NE(got.text().find("concurrent"), std::string::npos) << got.text();
  }
  rules.limits_claim = "";
  EXPECT_EQ(limits(R"(,"limits":{"concurrent":1})"), rules.limits);
}

TEST(Jwt, APublicKeyIsNoSecret) {
  const auto rsa = SigningKey::rsa();
  const KeySet keys = keys_of("{" + rsa.jwk() + "}");
  const std::string modulus = rsa.number(OSSL_PKEY_PARAM_RSA_N);
  for (const std::string& secret : {modulus, "{" + rsa.jwk() + "}"}) {
    auto got = verdict(hmac_token(secret, "HS256", claims()), keys);
    EXPECT_FALSE(got.check.claims);
    EXPECT_EQ(got.check.cost, 0u) << "no key of the set fits";
  }
  // The other way round: a secret verifies no RS256, and a key that names its algorithm no other.
  EXPECT_FALSE(verdict(token_of(rsa, "RS256", claims()), keys_of(kJwkHs256)).check.claims);
  const KeySet only = keys_of("{" + rsa.jwk() + R"(,"alg":"RS512"})");
  EXPECT_FALSE(verdict(token_of(rsa, "RS256", claims()), only).check.claims);
  EXPECT_TRUE(verdict(token_of(rsa, "RS512", claims()), only).check.claims);
}

TEST(Jwt, AKeyInTheTokenIsNotBelieved) {
  const auto theirs = SigningKey::ec("P-256");
  for (const std::string& more : {",\"jwk\":{" + theirs.jwk() + "}", std::string(",\"jku\":\"https://evil.example\""),
                                  std::string(",\"x5c\":[\"MIIB\"]")})
    EXPECT_EQ(verdict(token_of(theirs, "ES256", claims(), more), ec_keys()).text(),
              "the token's signature is not right");
}

TEST(Jwt, ExtensionsAndOtherTypesAreRefused) {
  EXPECT_NE(
      verdict(token_of(ec_key(), "ES256", claims(), R"(,"crit":["b64"],"b64":false)"), ec_keys()).text().find("crit"),
      std::string::npos);
  EXPECT_NE(verdict(token_of(ec_key(), "ES256", claims(), R"(,"crit":[])"), ec_keys()).text().find("crit"),
            std::string::npos);
  for (const char* type : {"logout+jwt", "dpop+jwt", "JWE"})
    EXPECT_NE(verdict(token_of(ec_key(), "ES256", claims(), ",\"typ\":\"" + std::string(type) + '"'), ec_keys())
                  .text()
                  .find("typ"),
              std::string::npos);
  for (const char* type : {"JWT", "jwt", "at+jwt", "application/at+jwt"})
    EXPECT_EQ(verdict(token_of(ec_key(), "ES256", claims(), ",\"typ\":\"" + std::string(type) + '"'), ec_keys()).text(),
              "");
}

TEST(Jwt, EllipticSignaturesHaveOneLength) {
  const std::string text = base64url(R"({"alg":"ES256"})") + '.' + base64url(claims());
  const std::string raw = ec_key().sign("ES256", text);
  ASSERT_EQ(raw.size(), 64u);
  auto shown = [&](const std::string& signature) {
    return bool(verdict(text + '.' + base64url(signature), ec_keys()).check.claims);
  };
  EXPECT_TRUE(shown(raw));
  for (const std::string& wrong :
       {std::string(), raw.substr(0, 63), raw + '\0', raw + raw, std::string(64, '\0'), std::string(64, '\xff'),
        raw.substr(0, 32) + std::string(32, '\0'), std::string(32, '\0') + raw.substr(32)})
    EXPECT_FALSE(shown(wrong)) << wrong.size();
}

TEST(Jwt, EncodingIsStrict) {
  const std::string token = token_of(ec_key(), "ES256", claims());
  ASSERT_TRUE(verdict(token, ec_keys()).check.claims);
  for (const std::string& wrong :
       {token + "=", token + ".", "." + token, token + "\n", " " + token, token + "A",
        token.substr(0, token.size() - 1), std::string(), std::string("."), std::string(".."), std::string("eyJ..")})
    EXPECT_FALSE(verdict(wrong, ec_keys()).check.claims) << wrong;
  // The last character of the signature has four bits that no byte takes.
  std::string same = token;
  same.back() = same.back() == 'A' ? 'B' : char(same.back() + 1);
  EXPECT_FALSE(verdict(same, ec_keys()).check.claims);
  std::string standard = token;
  for (char& c : standard) c = c == '-' ? '+' : c == '_' ? '/' : c;
  EXPECT_EQ(bool(verdict(standard, ec_keys()).check.claims), standard == token);
  const std::string big = token_of(ec_key(), "ES256", claims(",\"x\":\"" + std::string(16 << 10, 'x') + '"'));
  EXPECT_EQ(verdict(big, ec_keys()).text(), "the token is longer than 16 KiB");
}

TEST(Jwt, ATokenHasItsBoundsAndNoMore) {
  size_t taken = 0, refused = 0;  // the longest and the shortest
  for (size_t n = 11'900; refused == 0; ++n) {
    const std::string token = token_of(ec_key(), "ES256", claims(",\"x\":\"" + std::string(n, 'x') + '"'));
    (verdict(token, ec_keys()).check.claims ? taken : refused) = token.size();
  }
  EXPECT_LE(taken, kMostTokenBytes);
  EXPECT_GT(refused, kMostTokenBytes);
  EXPECT_LE(refused - taken, 2u) << "base64url has no other lengths between them";
  auto models = [](size_t count, size_t size) {
    std::string list;
    for (size_t i = 0; i < count; ++i) list += (i ? ",\"" : "\"") + std::string(size, 'm') + '"';
    return of_claims(claims(",\"models\":[" + list + "]")).text();
  };
  const std::string refusal = "the token names more than 64 models, or one that is empty or longer than 256 bytes";
  EXPECT_EQ(models(kMostTokenModels, 1), "");
  EXPECT_EQ(models(kMostTokenModels + 1, 1), refusal);
  EXPECT_EQ(models(1, kMostTokenName), "");
  EXPECT_EQ(models(1, kMostTokenName + 1), refusal);
}

TEST(Jwt, MembersAreThereOnceAndOfTheirType) {
  for (const char* more :
       {",\"exp\":1800000000", ",\"aud\":\"weir\"", ",\"sub\":\"bob\"", ",\"x\":1,\"x\":2", ",\"nbf\":\"0\"",
        ",\"iat\":[]", ",\"scope\":1.5e", ",\"models\":{\"a\":1}", ",\"models\":[1]",
        ",\"realm_access\":{\"roles\":[],\"roles\":[]}", ",\"nbf\":1e300", ",\"iss\":1e"})
    EXPECT_NE(of_claims(claims(more)).text().find(" cannot be read: "), std::string::npos) << more;
  for (const char* header : {R"({"alg":"ES256","alg":"ES256"})", R"({"alg":["ES256"]})", R"({"alg":"ES256","kid":1})",
                             R"([])", R"({"alg":"ES256"}{})", "{", "", R"({"alg":"ES256","typ":null})"})
    EXPECT_NE(
        verdict(signed_token(ec_key(), "ES256", header, claims()), ec_keys()).text().find("header cannot be read"),
        std::string::npos)
        << header;
  std::string many;
  for (int i = 0; i < 300; ++i) many += ",\"m" + std::to_string(i) + "\":0";
  EXPECT_NE(of_claims(claims(many)).text().find("too many members"), std::string::npos);
  std::string deep = ",\"x\":" + std::string(200, '[') + std::string(200, ']');
  EXPECT_FALSE(of_claims(claims(deep)).check.claims);
}

// Other services have claims of these names, too: of lists of objects, of flags.
TEST(Jwt, WhatIsNoStringInAClaimOfRolesNamesNoRole) {
  for (const char* more :
       {R"(,"roles":[{"id":"1","key":"admin"}])", R"(,"roles":{"admin":{"1":"a"}})", R"(,"permissions":true)",
        R"(,"permissions":[1,null,["weir:admin"]])", R"(,"scope":{})", R"(,"roles":null)"}) {
    auto got = of_claims(claims(more));
    ASSERT_TRUE(got.check.claims) << more << got.text();
    EXPECT_EQ(got.check.claims->roles, std::vector<std::string>()) << more;
  }
  auto mixed = of_claims(claims(R"(,"roles":[{"id":"1"},"weir:metrics",2])"));
  ASSERT_TRUE(mixed.check.claims) << mixed.text();
  EXPECT_EQ(mixed.check.claims->roles, std::vector<std::string>{"metrics"});
}

TEST(Jwt, TimesAreHeldWithLeeway) {
  JwtRules rules = rules_of_tests();
  rules.leeway = std::chrono::seconds(30);
  EXPECT_EQ(of_claims(claims(), rules, 1700000129).text(), "");
  EXPECT_EQ(of_claims(claims(), rules, 1700000130).text(), "the token has expired (exp): get a new one");
  EXPECT_EQ(of_claims(claims(",\"nbf\":1700000030"), rules).text(), "");
  EXPECT_EQ(of_claims(claims(",\"nbf\":1700000031"), rules).text(), "the token is not valid yet (nbf)");
  EXPECT_EQ(of_claims(claims(",\"iat\":1700000030.75"), rules).text(), "");
  EXPECT_NE(of_claims(claims(",\"iat\":1700000031"), rules).text().find("(iat)"), std::string::npos);
  EXPECT_NE(of_claims(R"({"iss":"https://issuer.example","aud":"weir","sub":"a"})", rules).text().find("(exp)"),
            std::string::npos);
  EXPECT_EQ(of_claims(R"({"iss":"https://issuer.example","aud":"weir","sub":"a","exp":-1})", rules).text(),
            "the token has expired (exp): get a new one");
  auto far = of_claims(R"({"iss":"https://issuer.example","aud":"weir","sub":"a","exp":253402300799})", rules);
  ASSERT_TRUE(far.check.claims);
  EXPECT_GT(far.check.claims->expires, at(4'000'000'000)) << "no overflow";
}

TEST(Jwt, AudienceAndIssuerAreOurs) {
  auto with = [](const char* iss, const char* aud) {
    return of_claims(std::string(R"({"sub":"a","exp":1700000100,"iss":)") + iss + ",\"aud\":" + aud + "}").text();
  };
  EXPECT_EQ(with(R"("https://issuer.example")", R"(["other","weir"])"), "");
  for (const char* aud : {R"("other")", R"("weir2")", R"("weir other")", R"([])", R"(["WEIR"])", "\"*\""})
    EXPECT_NE(with(R"("https://issuer.example")", aud).find("(aud)"), std::string::npos) << aud;
  for (const char* iss : {R"("https://issuer.example/")", R"(["https://issuer.example","b"])"})
    EXPECT_NE(with(iss, "\"weir\"").find("(iss)"), std::string::npos) << iss;
  EXPECT_NE(with("null", "\"weir\""), "");
  JwtRules rules = rules_of_tests();
  rules.audiences = {};
  EXPECT_FALSE(of_claims(claims(), rules).check.claims) << "no audience is not any audience";
}

TEST(Jwt, RolesModelsAndTenantComeFromTheClaimsOfCommonIssuers) {
  auto keycloak =
      of_claims(claims(R"(,"scope":"openid weir:infer","realm_access":{"roles":["admin","weir:metrics"]})"));
  ASSERT_TRUE(keycloak.check.claims) << keycloak.text();
  EXPECT_EQ(keycloak.check.claims->roles, (std::vector<std::string>{"infer", "metrics"}))
      << "another service's admin is none here";
  EXPECT_EQ(keycloak.check.claims->tenant, "alice");
  EXPECT_FALSE(keycloak.check.claims->has_models);
  auto auth0 = of_claims(claims(R"(,"permissions":["weir:admin"],"models":"chat* embed")"));
  ASSERT_TRUE(auth0.check.claims) << auth0.text();
  EXPECT_EQ(auth0.check.claims->roles, std::vector<std::string>{"admin"});
  EXPECT_EQ(auth0.check.claims->models, (std::vector<std::string>{"chat*", "embed"}));
  auto none = of_claims(claims(R"(,"models":[])"));
  ASSERT_TRUE(none.check.claims) << none.text();
  EXPECT_TRUE(none.check.claims->has_models && none.check.claims->models.empty());

  JwtRules rules = rules_of_tests();
  rules.tenant_claim = "kubernetes.io.namespace";
  auto kubernetes = of_claims(
      claims(
          R"(,"kubernetes.io":{"namespace":"prod","serviceaccount":{"name":"chat"}},"kubernetes":{"io":{"namespace":1}})"),
      rules);
  EXPECT_FALSE(kubernetes.check.claims) << "two places, two tenants";
  kubernetes = of_claims(claims(R"(,"kubernetes.io":{"namespace":"prod","serviceaccount":{"name":"chat"}})"), rules);
  ASSERT_TRUE(kubernetes.check.claims) << kubernetes.text();
  EXPECT_EQ(kubernetes.check.claims->tenant, "prod");
  for (const char* more : {"", R"(,"kubernetes.io":{"namespace":""})", R"(,"kubernetes.io":{"namespace":["a","b"]})",
                           R"(,"kubernetes.io":{"namespace":"a\nb"})", R"(,"kubernetes.io":"prod")"})
    EXPECT_NE(of_claims(claims(more), rules).text().find("tenant"), std::string::npos) << more;
}

TEST(Jwt, AnUnknownKeyIsSaidAndCostsNoSignature) {
  auto got = verdict(token_of(ec_key(), "ES256", claims(), R"(,"kid":"two")"), ec_keys());
  EXPECT_TRUE(got.check.unknown_key);
  EXPECT_EQ(got.check.cost, 0u);
  got = verdict(token_of(ec_key(), "ES256", claims(), R"(,"kid":"one")"), ec_keys());
  EXPECT_TRUE(got.check.claims) << got.text();
  const auto other = SigningKey::ec("P-256");
  got = verdict(token_of(other, "ES256", claims(), R"(,"kid":"one")"), ec_keys());
  EXPECT_FALSE(got.check.unknown_key);
  EXPECT_EQ(got.check.cost, 1u);
  // Claims come first: what is refused for them costs no signature either.
  EXPECT_EQ(of_claims(claims(), rules_of_tests(), kNow + 1000).check.cost, 0u);
}

TEST(Jwt, ATokenWithoutAKeyIdIsTriedWithAFewKeys) {
  std::string jwks;
  const auto last = SigningKey::ec("P-256");
  for (int i = 0; i < 9; ++i) jwks += "{" + SigningKey::ec("P-256").jwk() + ",\"kid\":\"" + std::to_string(i) + "\"},";
  const KeySet keys = keys_of(jwks + "{" + last.jwk() + ",\"kid\":\"last\"}");
  EXPECT_EQ(verdict(token_of(last, "ES256", claims()), keys).check.cost, KeySet::kMostTried);
  EXPECT_TRUE(verdict(token_of(last, "ES256", claims(), R"(,"kid":"last")"), keys).check.claims);
}

}  // namespace
}  // namespace weir::auth
