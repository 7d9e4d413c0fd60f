// VerificationKey: a public key, or a shared secret, that signatures of JSON Web Tokens are checked with, by OpenSSL.
//
// A key has one type, and an algorithm takes keys of one type: a public RSA key is never the secret of an HMAC,
// whatever a token says (RFC 8725 §2.1). Keys that are too weak for their algorithm are refused when they are read (RFC
// 7518: RSA below 2048 bits, secrets shorter than the digest), and so are those whose signatures take long to check
// (RSA above 8192 bits, exponents above 32 bits).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

using EVP_PKEY = struct evp_pkey_st;

namespace weir::auth {

enum class KeyType : uint8_t { kRsa, kP256, kP384, kP521, kEd25519, kEd448, kSecret };

// A signature algorithm of RFC 7518 §3.1, RFC 8037 §3.1 (EdDSA, with either curve) or RFC 9864 §2.2 (Ed25519, Ed448).
struct SignatureAlgorithm {
  enum class Scheme : uint8_t { kHmac, kPkcs1, kPss, kEcdsa, kEddsa };
  std::string_view name;   // "RS256"
  KeyType key, other_key;  // the types of keys that it takes; mostly the same one
  Scheme scheme;
  const char* digest;       // OpenSSL's name of it; null for EdDSA
  uint32_t digest_size;     // bytes
  uint32_t signature_size;  // bytes; 0: as the key says
};
// Null for any other name, "none" among them. Names are case-sensitive.
const SignatureAlgorithm* find_algorithm(std::string_view name);

// Immutable; any thread. Copies share the key. Errors of the makers: INVALID_ARGUMENT with what is wrong with the key.
class VerificationKey {
 public:
  // Big-endian numbers, without a sign: modulus and exponent; the coordinates of a point, of the curve's size.
  static base::Result<VerificationKey> rsa(std::string_view modulus, std::string_view exponent);
  static base::Result<VerificationKey> elliptic(KeyType curve, std::string_view x, std::string_view y);
  static base::Result<VerificationKey> edwards(KeyType curve, std::string_view key);
  static base::Result<VerificationKey> secret(std::string_view bytes);
  // A key that OpenSSL has read, which it takes over.
  static base::Result<VerificationKey> adopt(EVP_PKEY* key);

  KeyType type() const { return type_; }
  // The key's name in its JWKS, and the one algorithm that it is for; each empty where the document says none.
  const std::string& id() const { return id_; }
  const std::string& algorithm() const { return algorithm_; }
  void set_id(std::string id) { id_ = std::move(id); }
  void set_algorithm(std::string name) { algorithm_ = std::move(name); }

  // SHA-256 of the key: the same for the same key, whatever its document says of it.
  const std::string& fingerprint() const { return fingerprint_; }

  // Whether signatures of that algorithm can be this key's.
  bool fits(const SignatureAlgorithm& algorithm) const;
  // Whether `signature` is this key's signature of `text`. False for an algorithm that the key does not fit.
  bool verifies(const SignatureAlgorithm& algorithm, std::string_view text, std::string_view signature) const;
  // The time of a core that verifies() takes, in units of 0.1 ms and at least 1, as `openssl speed` measures it on a
  // core of 2020: 0.02 ms with an RSA key of 2048 bits, 0.08 with P-256, 0.14 with Ed25519, 0.75 with P-384.
  uint32_t cost() const;
  static constexpr uint32_t kMostCost = 8;

 private:
  VerificationKey(KeyType type, std::shared_ptr<EVP_PKEY> key, std::string secret);
  bool verifies_hmac(const SignatureAlgorithm& algorithm, std::string_view text, std::string_view signature) const;
  bool verifies_public(const SignatureAlgorithm& algorithm, std::string_view text, std::string_view signature) const;

  KeyType type_;
  std::shared_ptr<EVP_PKEY> key_;  // null for a secret
  std::string secret_;
  std::string fingerprint_, id_, algorithm_;
};

}  // namespace weir::auth
