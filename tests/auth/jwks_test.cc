#include "auth/jwks.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "tokens.h"

namespace weir::auth {
namespace {

using namespace test;  // NOLINT: this test's own
using Secrets = KeySet::Secrets;

std::string document(const std::string& keys) { return R"({"keys":[)" + keys + "]}"; }
std::string pem_of(EVP_PKEY* key, bool private_too = false) {
  BIO* out = BIO_new(BIO_s_mem());
  private_too ? PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr)
              : PEM_write_bio_PUBKEY(out, key);
  char* text = nullptr;
  std::string pem(text, size_t(BIO_get_mem_data(out, &text) * 0));
  pem.assign(text, size_t(BIO_get_mem_data(out, &text)));
  BIO_free(out);
  return pem;
}
std::string wrong(const base::Result<KeySet>& set) { return set ? "" : set.error().text; }

TEST(Jwks, KeysThatCannotBeUsedAreLeftOutAndSaid) {
  const auto ec = SigningKey::ec("P-256"), weak = SigningKey::rsa(1024), other = SigningKey::ec("P-224");
  auto set = KeySet::parse_jwks(
      document("{" + ec.jwk() + R"(,"kid":"good","use":"sig","key_ops":["verify"],"x5t":"zzz"},)" +
               R"({"kty":"AKP","alg":"ML-DSA-44","pub":"AA"},{"kty":"OKP","crv":"X25519","x":"AA"},)" + "{" +
               weak.jwk() + "},{" + other.jwk() + "},{" + ec.jwk() + R"(,"use":"enc"},{)" + ec.jwk() +
               R"(,"key_ops":["sign"]},{"kty":"oct","k":"c2hvcnQ"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{})"),
      Secrets::kTaken);
  ASSERT_TRUE(set) << wrong(set);
  ASSERT_EQ(set->keys().size(), 1u);
  EXPECT_EQ(set->keys()[0].id(), "good");
  ASSERT_EQ(set->left_out().size(), 9u);
  EXPECT_EQ(set->left_out()[0], "key 2: its kty is none of RSA, EC, OKP and oct");
  EXPECT_EQ(set->left_out()[2], "key 4: an RSA key of 1024 bits; expected 2048 to 8192");
}

TEST(Jwks, AMemberOfAnotherTypeMakesItsKeyUnsuitableAndNoOther) {
  const auto good = SigningKey::ec("P-256"), other = SigningKey::ec("P-256");
  for (const char* member : {R"("alg":null)", R"("kid":1)", R"("use":["sig"])", R"("key_ops":"verify")",
                             R"("key_ops":[1])", R"("key_ops":null)"}) {
    auto set = KeySet::parse_jwks(
        document("{" + other.jwk() + "," + member + R"(},{"kty":{},"kid":"x"},{)" + good.jwk() + R"(,"kid":"good"})"),
        Secrets::kRefused);
    ASSERT_TRUE(set) << member << wrong(set);
    ASSERT_EQ(set->keys().size(), 1u) << member;
    EXPECT_EQ(set->keys()[0].id(), "good");
    ASSERT_EQ(set->left_out().size(), 2u) << member;
    EXPECT_EQ(set->left_out()[0].substr(0, 7), "key 1: ") << member;
    EXPECT_EQ(set->left_out()[1], "key 2: its kty is no string");
  }
  EXPECT_NE(wrong(KeySet::parse_jwks(document("{\"kty\":1}"), Secrets::kTaken)).find("no key that can verify"),
            std::string::npos);
  EXPECT_NE(wrong(KeySet::parse_jwks(document("{\"kty\":1,\"kty\":1}"), Secrets::kTaken)).find("there twice"),
            std::string::npos);
}

TEST(Jwks, APointThatIsNotOnItsCurveIsNoKey) {
  const auto ec = SigningKey::ec("P-256");
  std::string x = ec.number(OSSL_PKEY_PARAM_EC_PUB_X, 32), y = ec.number(OSSL_PKEY_PARAM_EC_PUB_Y, 32);
  EXPECT_TRUE(VerificationKey::elliptic(KeyType::kP256, x, y));
  y[31] ^= 1;
  EXPECT_EQ(VerificationKey::elliptic(KeyType::kP256, x, y).error().text, "a point that is not on its curve");
  EXPECT_FALSE(VerificationKey::elliptic(KeyType::kP256, x, std::string(33, '\0')));
}

TEST(Jwks, RsaKeysThatAreWeakOrSlowAreRefused) {
  const auto rsa = SigningKey::rsa();
  const std::string n = rsa.number(OSSL_PKEY_PARAM_RSA_N), e = rsa.number(OSSL_PKEY_PARAM_RSA_E);
  EXPECT_TRUE(VerificationKey::rsa(n, e));
  EXPECT_FALSE(VerificationKey::rsa(n, "\x01"));
  EXPECT_FALSE(VerificationKey::rsa(n, std::string("\x01\x00\x02", 3))) << "even";
  EXPECT_FALSE(VerificationKey::rsa(n, std::string(8, '\x7f'))) << "64 bits";
  EXPECT_FALSE(VerificationKey::rsa(std::string(2048, '\xff'), e)) << "16384 bits";
  EXPECT_FALSE(VerificationKey::rsa("", ""));
}

TEST(Jwks, ADocumentIsHeldToItsBounds) {
  const std::string key = R"({"kty":"oct","k":")" + base64url(std::string(32, 'k')) + "\"}";
  std::string many = key;
  for (size_t i = 1; i < KeySet::kMostKeys; ++i) many += "," + key;
  EXPECT_EQ(KeySet::parse_jwks(document(many), Secrets::kTaken)->keys().size(), KeySet::kMostKeys);
  EXPECT_EQ(wrong(KeySet::parse_jwks(document(many + "," + key), Secrets::kTaken)), "more than 64 keys");
  EXPECT_EQ(wrong(KeySet::parse_jwks(document(key) + std::string(KeySet::kMostBytes, ' '), Secrets::kTaken)),
            "more than 256 KiB");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"keys":{}})"), document("1"),
        document(key) + "x", document("{\"kty\":\"oct\",\"kty\":\"oct\"}"), R"({"keys":[],"keys":[]})" + std::string()})
    EXPECT_NE(wrong(KeySet::parse_jwks(text, Secrets::kTaken)).find("not a JWKS document"), std::string::npos) << text;
  EXPECT_NE(wrong(KeySet::parse_jwks(document(""), Secrets::kTaken)).find("no key that can verify"), std::string::npos);
}

TEST(Jwks, ADocumentThatOthersCanLoadHasNoSecrets) {
  const std::string key = R"({"kty":"oct","k":")" + base64url(std::string(32, 'k')) + "\"}";
  EXPECT_NE(wrong(KeySet::parse_jwks(document(key), Secrets::kRefused)).find("it is a secret"), std::string::npos);
}

TEST(Jwks, AFileIsAJwksOrPemOrASecret) {
  const auto ec = SigningKey::ec("P-256"), rsa = SigningKey::rsa(), ed = SigningKey::ed25519();
  EXPECT_EQ(KeySet::parse_file(" \n" + document("{" + ec.jwk() + "}"))->keys().size(), 1u);
  auto pem = KeySet::parse_file("# ours\n" + pem_of(ec.get()) + pem_of(rsa.get()) + pem_of(ed.get()));
  ASSERT_TRUE(pem) << wrong(pem);
  ASSERT_EQ(pem->keys().size(), 3u);
  EXPECT_EQ(pem->keys()[1].type(), KeyType::kRsa);
  auto secret = KeySet::parse_file("0123456789abcdef0123456789abcdef\r\n");
  ASSERT_TRUE(secret) << wrong(secret);
  EXPECT_TRUE(secret->keys()[0].fits(*find_algorithm("HS256")));
  EXPECT_FALSE(secret->keys()[0].fits(*find_algorithm("HS512"))) << "shorter than the digest";
  EXPECT_NE(wrong(KeySet::parse_file("short\n")).find("expected 32 to 4096"), std::string::npos);
  EXPECT_NE(wrong(KeySet::parse_file("two words of a secret that is long enough")).find("without blanks"),
            std::string::npos);
  EXPECT_FALSE(KeySet::parse_file(""));
}

TEST(Jwks, WhatLooksLikeAPublicKeyIsNeverASecret) {
  const auto rsa = SigningKey::rsa();
  std::string pem = pem_of(rsa.get());
  std::string der;
  for (size_t at = pem.find('\n') + 1; pem[at] != '-'; ++at)
    if (pem[at] != '\n') der += pem[at];
  EXPECT_FALSE(KeySet::parse_file(der)) << "DER in base64";
  EXPECT_FALSE(KeySet::parse_file("ssh-ed25519AAAAC3NzaC1lZDI1NTE5AAAAIJ"));
  EXPECT_NE(wrong(KeySet::parse_file(pem_of(rsa.get(), true))).find("private key"), std::string::npos);
  EXPECT_FALSE(KeySet::parse_file("-----BEGIN GARBAGE-----\nAAAA\n-----END GARBAGE-----\n"));
  EXPECT_FALSE(KeySet::parse_file("-----BEGIN PUBLIC KEY-----\n"));
}

}  // namespace
}  // namespace weir::auth
