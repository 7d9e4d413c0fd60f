#include "auth/verification_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <optional>

namespace weir::auth {
namespace {

using Scheme = SignatureAlgorithm::Scheme;

constexpr int kLeastRsaBits = 2048, kMostRsaBits = 8192, kMostExponentBits = 32;
constexpr size_t kLeastSecret = 32, kMostSecret = 4096;  // bytes

constexpr SignatureAlgorithm kAlgorithms[] = {
    {"HS256", KeyType::kSecret, KeyType::kSecret, Scheme::kHmac, "SHA256", 32, 32},
    {"HS384", KeyType::kSecret, KeyType::kSecret, Scheme::kHmac, "SHA384", 48, 48},
    {"HS512", KeyType::kSecret, KeyType::kSecret, Scheme::kHmac, "SHA512", 64, 64},
    {"RS256", KeyType::kRsa, KeyType::kRsa, Scheme::kPkcs1, "SHA256", 32, 0},
    {"RS384", KeyType::kRsa, KeyType::kRsa, Scheme::kPkcs1, "SHA384", 48, 0},
    {"RS512", KeyType::kRsa, KeyType::kRsa, Scheme::kPkcs1, "SHA512", 64, 0},
    {"PS256", KeyType::kRsa, KeyType::kRsa, Scheme::kPss, "SHA256", 32, 0},
    {"PS384", KeyType::kRsa, KeyType::kRsa, Scheme::kPss, "SHA384", 48, 0},
    {"PS512", KeyType::kRsa, KeyType::kRsa, Scheme::kPss, "SHA512", 64, 0},
    {"ES256", KeyType::kP256, KeyType::kP256, Scheme::kEcdsa, "SHA256", 32, 64},
    {"ES384", KeyType::kP384, KeyType::kP384, Scheme::kEcdsa, "SHA384", 48, 96},
    {"ES512", KeyType::kP521, KeyType::kP521, Scheme::kEcdsa, "SHA512", 64, 132},
    {"EdDSA", KeyType::kEd25519, KeyType::kEd448, Scheme::kEddsa, nullptr, 0, 0},
    {"Ed25519", KeyType::kEd25519, KeyType::kEd25519, Scheme::kEddsa, nullptr, 0, 64},
    {"Ed448", KeyType::kEd448, KeyType::kEd448, Scheme::kEddsa, nullptr, 0, 114},
};

// The curves of ECDSA, with JWK's name and OpenSSL's name of each.
struct Curve {
  KeyType type;
  std::string_view name;
  const char* group;
  size_t coordinate;  // bytes
};
constexpr Curve kCurves[] = {{KeyType::kP256, "P-256", "prime256v1", 32},
                             {KeyType::kP384, "P-384", "secp384r1", 48},
                             {KeyType::kP521, "P-521", "secp521r1", 66}};

template <auto free_it>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    free_it(p);
  }
};
using Number = std::unique_ptr<BIGNUM, Deleter<BN_free>>;
using ParamBuilder = std::unique_ptr<OSSL_PARAM_BLD, Deleter<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Deleter<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using KeyOwner = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using EcdsaPair = std::unique_ptr<ECDSA_SIG, Deleter<ECDSA_SIG_free>>;

const unsigned char* octets(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string sha256(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(octets(text), text.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

Number number_of(std::string_view big_endian) {
  return Number(BN_bin2bn(octets(big_endian), int(big_endian.size()), nullptr));
}

// Null if the parameters are not a key, as with a point that is not on its curve.
KeyOwner key_from(const char* type, OSSL_PARAM_BLD* builder) {
  Params params(OSSL_PARAM_BLD_to_param(builder));
  KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (params && context && EVP_PKEY_fromdata_init(context.get()) == 1)
    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get());
  ERR_clear_error();
  return KeyOwner(key);
}

base::Status check_rsa(const EVP_PKEY* key) {
  int bits = EVP_PKEY_get_bits(key);
  if (bits < kLeastRsaBits || bits > kMostRsaBits)
    return base::invalid("an RSA key of " + std::to_string(bits) + " bits; expected 2048 to 8192");
  BIGNUM* exponent = nullptr;
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &exponent) != 1) return base::invalid("not a whole RSA key");
  Number owner(exponent);
  if (BN_num_bits(exponent) > kMostExponentBits || !BN_is_odd(exponent) || BN_is_one(exponent))
    return base::invalid("an RSA key whose exponent is not an odd number from 3 to 2^32");
  return {};
}

// Nothing for a curve that is not in kCurves.
std::optional<KeyType> curve_of(const EVP_PKEY* key) {
  std::array<char, 32> name{};
  size_t size = 0;
  if (EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) != 1) return std::nullopt;
  const std::string_view group(name.data(), size);
  for (const Curve& curve : kCurves)
    if (group == curve.name || group == curve.group) return curve.type;
  return std::nullopt;
}

// Converts a signature from two concatenated numbers (RFC 7518 §3.4) to DER, which OpenSSL takes.
std::string der_of(std::string_view signature) {
  const size_t half = signature.size() / 2;
  EcdsaPair pair(ECDSA_SIG_new());
  Number r = number_of(signature.substr(0, half)), s = number_of(signature.substr(half));
  if (!pair || !r || !s || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return {};
  r.release(), s.release();
  unsigned char* der = nullptr;
  int size = i2d_ECDSA_SIG(pair.get(), &der);
  if (size <= 0) return {};
  std::string out(reinterpret_cast<const char*>(der), size_t(size));
  OPENSSL_free(der);
  return out;
}

// RFC 7518 §3.5: the salt is as long as the digest. MGF1 must use the same digest, which is OpenSSL's default.
bool use_pss(EVP_PKEY_CTX* context) {
  return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
}

}  // namespace

const SignatureAlgorithm* find_algorithm(std::string_view name) {
  auto at = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms), [&](const auto& a) { return a.name == name; });
  return at == std::end(kAlgorithms) ? nullptr : at;
}

VerificationKey::VerificationKey(KeyType type, std::shared_ptr<EVP_PKEY> key, std::string secret)
    : type_(type), key_(std::move(key)), secret_(std::move(secret)) {
  unsigned char* der = nullptr;
  int size = key_ ? i2d_PUBKEY(key_.get(), &der) : 0;
  fingerprint_ = sha256(size > 0 ? std::string_view(reinterpret_cast<char*>(der), size_t(size)) : secret_);
  OPENSSL_free(der);
}

base::Result<VerificationKey> VerificationKey::rsa(std::string_view modulus, std::string_view exponent) {
  if (modulus.size() > kMostRsaBits / 8 + 1 || exponent.size() > kMostExponentBits / 8 + 1)
    return base::invalid("an RSA key of more than 8192 bits, or with an exponent of more than 32");
  Number n = number_of(modulus), e = number_of(exponent);
  ParamBuilder builder(OSSL_PARAM_BLD_new());
  if (!n || !e || !builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1)
    return base::invalid("not an RSA key");
  KeyOwner key = key_from("RSA", builder.get());
  if (!key) return base::invalid("not an RSA key");
  return adopt(key.release());
}

base::Result<VerificationKey> VerificationKey::elliptic(KeyType curve, std::string_view x, std::string_view y) {
  const auto* known =
      std::find_if(std::begin(kCurves), std::end(kCurves), [&](const Curve& each) { return each.type == curve; });
  if (known == std::end(kCurves) || x.size() != known->coordinate || y.size() != known->coordinate)
    return base::invalid("a coordinate that does not have the size of its curve");
  const std::string point = "\x04" + std::string(x) + std::string(y);
  ParamBuilder builder(OSSL_PARAM_BLD_new());
  if (!builder || OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, known->group, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1)
    return base::invalid("not an EC key");
  KeyOwner key = key_from("EC", builder.get());
  if (!key) return base::invalid("a point that is not on its curve");
  return adopt(key.release());
}

base::Result<VerificationKey> VerificationKey::edwards(KeyType curve, std::string_view key) {
  const int type = curve == KeyType::kEd448 ? EVP_PKEY_ED448 : EVP_PKEY_ED25519;
  EVP_PKEY* made = EVP_PKEY_new_raw_public_key(type, nullptr, octets(key), key.size());
  ERR_clear_error();
  if (!made) return base::invalid("an Ed25519 key that does not have 32 bytes, or an Ed448 key that does not have 57");
  return adopt(made);
}

base::Result<VerificationKey> VerificationKey::secret(std::string_view bytes) {
  if (bytes.size() < kLeastSecret || bytes.size() > kMostSecret)
    return base::invalid("a secret of " + std::to_string(bytes.size()) + " bytes; expected 32 to 4096");
  return VerificationKey(KeyType::kSecret, nullptr, std::string(bytes));
}

base::Result<VerificationKey> VerificationKey::adopt(EVP_PKEY* key) {
  std::shared_ptr<EVP_PKEY> owner(key, EVP_PKEY_free);
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
      if (auto s = check_rsa(key); !s.ok()) return s;
      return VerificationKey(KeyType::kRsa, std::move(owner), {});
    case EVP_PKEY_EC:
      if (auto curve = curve_of(key)) return VerificationKey(*curve, std::move(owner), {});
      return base::invalid("an EC key on another curve than P-256, P-384 and P-521");
    case EVP_PKEY_ED25519: return VerificationKey(KeyType::kEd25519, std::move(owner), {});
    case EVP_PKEY_ED448: return VerificationKey(KeyType::kEd448, std::move(owner), {});
    default: return base::invalid("a key that is neither RSA, nor EC, nor Ed25519, nor Ed448");
  }
}

bool VerificationKey::fits(const SignatureAlgorithm& algorithm) const {
  if ((type_ != algorithm.key && type_ != algorithm.other_key) || (!algorithm_.empty() && algorithm_ != algorithm.name))
    return false;
  return type_ != KeyType::kSecret || secret_.size() >= algorithm.digest_size;  // RFC 7518 §3.2
}

uint32_t VerificationKey::cost() const {
  constexpr int kCheapRsaBits = 4096;
  switch (type_) {
    case KeyType::kP384: return kMostCost;  // the one curve that OpenSSL has no fast code for
    case KeyType::kP521: return 5;
    case KeyType::kEd448: return 2;
    case KeyType::kRsa: return EVP_PKEY_get_bits(key_.get()) > kCheapRsaBits ? 4 : 1;
    default: return 1;
  }
}

bool VerificationKey::verifies(const SignatureAlgorithm& algorithm, std::string_view text,
                               std::string_view signature) const {
  if (!fits(algorithm)) return false;
  const size_t wanted = algorithm.signature_size > 0 ? algorithm.signature_size : size_t(EVP_PKEY_get_size(key_.get()));
  if (signature.size() != wanted) return false;
  if (type_ == KeyType::kSecret) return verifies_hmac(algorithm, text, signature);
  const bool valid = verifies_public(algorithm, text, signature);
  ERR_clear_error();
  return valid;
}

bool VerificationKey::verifies_hmac(const SignatureAlgorithm& algorithm, std::string_view text,
                                    std::string_view signature) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac;
  unsigned size = 0;
  if (!HMAC(EVP_get_digestbyname(algorithm.digest), secret_.data(), int(secret_.size()), octets(text), text.size(),
            mac.data(), &size))
    return false;
  return size == signature.size() && CRYPTO_memcmp(mac.data(), signature.data(), size) == 0;
}

bool VerificationKey::verifies_public(const SignatureAlgorithm& algorithm, std::string_view text,
                                      std::string_view signature) const {
  std::string der;
  if (algorithm.scheme == Scheme::kEcdsa) signature = der = der_of(signature);
  DigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* key_context = nullptr;  // the digest context's
  const EVP_MD* digest = algorithm.digest ? EVP_get_digestbyname(algorithm.digest) : nullptr;
  if (!context || EVP_DigestVerifyInit(context.get(), &key_context, digest, nullptr, key_.get()) != 1) return false;
  if (algorithm.scheme == Scheme::kPss && !use_pss(key_context)) return false;
  return EVP_DigestVerify(context.get(), octets(signature), signature.size(), octets(text), text.size()) == 1;
}

}  // namespace weir::auth
