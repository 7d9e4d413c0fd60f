// Tokens and keys that tests make for themselves, with OpenSSL.
#pragma once

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/encoding.h"

namespace weir::auth::test {

inline std::string base64url(std::string_view bytes) {
  std::string text = base::base64_encode(bytes, base::Padding::kNone);
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

// A private key and what a JWKS says of it.
class SigningKey {
 public:
  static SigningKey rsa(unsigned bits = 2048) { return SigningKey(EVP_RSA_gen(bits)); }
  static SigningKey ec(const char* curve) { return SigningKey(EVP_EC_gen(curve)); }
  static SigningKey ed25519() { return SigningKey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")); }
  static SigningKey ed448() { return SigningKey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED448")); }

  EVP_PKEY* get() const { return key_.get(); }

  std::string number(const char* name, int size = 0) const {
    BIGNUM* n = nullptr;
    EXPECT_EQ(EVP_PKEY_get_bn_param(get(), name, &n), 1);
    std::string out(size_t(size > 0 ? size : BN_num_bytes(n)), '\0');
    BN_bn2binpad(n, reinterpret_cast<unsigned char*>(out.data()), int(out.size()));
    BN_free(n);
    return out;
  }
  // The JWK's members but kid.
  std::string jwk() const {
    switch (EVP_PKEY_get_base_id(get())) {
      case EVP_PKEY_RSA:
        return R"("kty":"RSA","n":")" + base64url(number(OSSL_PKEY_PARAM_RSA_N)) + R"(","e":")" +
               base64url(number(OSSL_PKEY_PARAM_RSA_E)) + '"';
      case EVP_PKEY_EC: {
        int size = (EVP_PKEY_get_bits(get()) + 7) / 8;
        return R"("kty":"EC","crv":"P-)" + std::to_string(EVP_PKEY_get_bits(get())) + R"(","x":")" +
               base64url(number(OSSL_PKEY_PARAM_EC_PUB_X, size)) + R"(","y":")" +
               base64url(number(OSSL_PKEY_PARAM_EC_PUB_Y, size)) + '"';
      }
      default: {
        std::string raw(57, '\0');
        size_t size = raw.size();
        EVP_PKEY_get_raw_public_key(get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
        raw.resize(size);
        return R"("kty":"OKP","crv":")" + std::string(size == 32 ? "Ed25519" : "Ed448") + R"(","x":")" +
               base64url(raw) + '"';
      }
    }
  }

  std::string sign(std::string_view algorithm, std::string_view text) const {
    const EVP_MD* digest = algorithm.starts_with("Ed")  ? nullptr
                           : algorithm.ends_with("256") ? EVP_sha256()
                           : algorithm.ends_with("384") ? EVP_sha384()
                                                        : EVP_sha512();
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    EVP_PKEY_CTX* parameters = nullptr;
    EXPECT_EQ(EVP_DigestSignInit(context.get(), &parameters, digest, nullptr, get()), 1);
    if (algorithm.starts_with("PS")) {
      EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING);
      EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, RSA_PSS_SALTLEN_DIGEST);
    }
    std::string out(2048, '\0');
    size_t size = out.size();
    auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    EXPECT_EQ(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size, bytes, text.size()),
              1);
    out.resize(size);
    return algorithm.starts_with("ES") ? raw_of(out) : out;
  }

 private:
  explicit SigningKey(EVP_PKEY* key) : key_(key, EVP_PKEY_free) {}

  std::string raw_of(const std::string& der) const {
    auto* at = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &at, long(der.size()));
    int half = (EVP_PKEY_get_bits(get()) + 7) / 8;
    std::string out(size_t(half) * 2, '\0');
    auto* into = reinterpret_cast<unsigned char*>(out.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), into, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), into + half, half);
    ECDSA_SIG_free(pair);
    return out;
  }

  std::shared_ptr<EVP_PKEY> key_;
};

inline std::string hmac(std::string_view algorithm, std::string_view secret, std::string_view text) {
  const EVP_MD* digest = algorithm == "HS256" ? EVP_sha256() : algorithm == "HS384" ? EVP_sha384() : EVP_sha512();
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  HMAC(digest, secret.data(), int(secret.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(out.data()), &size);
  out.resize(size);
  return out;
}

// A token whose header and claims are these texts.
inline std::string signed_token(const SigningKey& key, std::string_view algorithm, std::string_view header,
                                std::string_view claims) {
  std::string text = base64url(header) + '.' + base64url(claims);
  return text + '.' + base64url(key.sign(algorithm, text));
}
inline std::string token_of(const SigningKey& key, const std::string& algorithm, std::string_view claims,
                            const std::string& more_header = "") {
  return signed_token(key, algorithm, R"({"alg":")" + algorithm + '"' + more_header + '}', claims);
}
inline std::string hmac_token(std::string_view secret, const std::string& algorithm, std::string_view claims) {
  std::string text = base64url(R"({"alg":")" + algorithm + R"("})") + '.' + base64url(claims);
  return text + '.' + base64url(hmac(algorithm, secret, text));
}

}  // namespace weir::auth::test
