// KeySet: the keys of an issuer of tokens, read from a JWKS document (RFC 7517 §5), from PEM, or from a file with a
// shared secret.
//
//   {"keys": [{"kty": "RSA", "kid": "2024", "use": "sig", "alg": "RS256", "n": "…", "e": "AQAB"},
//             {"kty": "EC", "crv": "P-256", "x": "…", "y": "…"},
//             {"kty": "OKP", "crv": "Ed25519", "x": "…"},             RFC 8037
//             {"kty": "oct", "k": "…"}]}
//
// A document is untrusted text: it has at most kMostBytes and kMostKeys keys. A key of it that cannot be used (another
// type or curve, for encryption, too weak) is left out, and said; a document without one key that can is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "auth/verification_key.h"
#include "base/status.h"

namespace weir::auth {

class JwkFields;

// Immutable once it is made; any thread.
class KeySet {
 public:
  static constexpr size_t kMostBytes = size_t(256) << 10;
  static constexpr size_t kMostKeys = 64;
  // Keys that one token is tried with, where names do not tell which one is meant.
  static constexpr size_t kMostTried = 4;

  // Whether the document may hold secrets: one that others can load may not.
  enum class Secrets : uint8_t { kRefused, kTaken };

  // Errors: INVALID_ARGUMENT, with what is wrong; no text of the document goes into it.
  static base::Result<KeySet> parse_jwks(std::string_view json, Secrets secrets);
  // Reads a file: a JWKS document, PEM (public keys or certificates), else a secret, which is one line of visible
  // ASCII. What looks like a public key in another form is refused, not taken for a secret: anybody could sign
  // with it. Errors: as above.
  static base::Result<KeySet> parse_file(std::string_view content);

  const std::vector<VerificationKey>& keys() const { return keys_; }
  // Why keys were left out, a sentence for each.
  const std::vector<std::string>& left_out() const { return left_out_; }

  // The keys that a token with this algorithm and key id (empty: it names none) may be signed with: those of that name,
  // then those without a name. kMostTried at most.
  std::vector<const VerificationKey*> candidates(const SignatureAlgorithm& algorithm, std::string_view id) const;
  // Whether a token that names this key may be signed with one of the set.
  bool knows(std::string_view id) const;

 private:
  base::Status add_jwk(JwkFields& fields, Secrets secrets);
  base::Status add_pem(std::string_view content);
  base::Status check_found() const;

  std::vector<VerificationKey> keys_;
  std::vector<std::string> left_out_;
};

}  // namespace weir::auth
