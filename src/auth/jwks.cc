#include "auth/jwks.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/base64url.h"
#include "base/encoding.h"
#include "marshal/json_cursor.h"

namespace weir::auth {

using base::invalid;

// The members of one JWK that are read. RFC 7517 §4, RFC 7518 §6. One of a type that its member does not have makes
// this key unsuitable and not the whole set, RFC 7517 §5.
class JwkFields {
 public:
  bool read(marshal::JsonCursor& json) {
    return json.object([&](std::string_view name) {
      if (name == "key_ops") return read_operations(json);
      std::optional<std::string>* place = find(name);
      if (!place) return json.skip();
      if (place->has_value()) return json.fail("a member of a key is there twice");
      if (json.peek() == Kind::kString) return json.string(place->emplace());
      place->emplace();
      return leave_out(json, "its " + std::string(name) + " is no string");
    });
  }

  std::string text(std::string_view name) { return find(name)->value_or(""); }
  // A value in base64url. Nothing where it is missing or is none.
  std::optional<std::string> bytes(std::string_view name) {
    auto* place = find(name);
    return *place ? base::base64url_decode(**place, base::Base64Url::kStrict) : std::nullopt;
  }
  // Why it is unsuitable; empty where it is not known to be.
  const std::string& wrong() const { return wrong_; }
  bool for_verification() {
    std::string use = text("use");
    return (use.empty() || use == "sig") && (!operations_ || verifies_);
  }

 private:
  using Kind = marshal::JsonCursor::Kind;

  bool leave_out(marshal::JsonCursor& json, std::string why) {
    if (wrong_.empty()) wrong_ = std::move(why);
    return json.skip();
  }
  std::optional<std::string>* find(std::string_view name) {
    for (auto& [known, value] : members_)
      if (known == name) return &value;
    return nullptr;
  }
  bool read_operations(marshal::JsonCursor& json) {
    operations_ = true;
    if (json.peek() != Kind::kArray) return leave_out(json, "its key_ops are no array");
    return json.array([&] {
      std::string_view operation;
      if (json.peek() != Kind::kString) return leave_out(json, "one of its key_ops is no string");
      if (!json.string(operation)) return false;
      verifies_ = verifies_ || operation == "verify";
      return true;
    });
  }

  std::pair<std::string_view, std::optional<std::string>> members_[10] = {
      {"kty", {}}, {"kid", {}}, {"use", {}}, {"alg", {}}, {"crv", {}},
      {"n", {}},   {"e", {}},   {"x", {}},   {"y", {}},   {"k", {}}};
  bool operations_ = false, verifies_ = false;
  std::string wrong_;
};

namespace {

base::Result<VerificationKey> make_rsa(JwkFields& fields) {
  auto n = fields.bytes("n"), e = fields.bytes("e");
  if (!n || !e) return invalid("an RSA key needs n and e in base64url");
  return VerificationKey::rsa(*n, *e);
}

base::Result<VerificationKey> make_ec(JwkFields& fields) {
  std::string curve = fields.text("crv");
  const KeyType type = curve == "P-256" ? KeyType::kP256 : curve == "P-384" ? KeyType::kP384 : KeyType::kP521;
  if (type == KeyType::kP521 && curve != "P-521")
    return invalid("an EC key on another curve than P-256, P-384 and P-521");
  auto x = fields.bytes("x"), y = fields.bytes("y");
  if (!x || !y) return invalid("an EC key needs x and y in base64url");
  return VerificationKey::elliptic(type, *x, *y);
}

base::Result<VerificationKey> make_okp(JwkFields& fields) {
  const std::string curve = fields.text("crv");
  if (curve != "Ed25519" && curve != "Ed448") return invalid("an OKP key on another curve than Ed25519 and Ed448");
  auto x = fields.bytes("x");
  if (!x) return invalid("an OKP key needs x in base64url");
  return VerificationKey::edwards(curve == "Ed448" ? KeyType::kEd448 : KeyType::kEd25519, *x);
}

base::Result<VerificationKey> make_key(JwkFields& fields, KeySet::Secrets secrets) {
  if (!fields.wrong().empty()) return invalid(fields.wrong());
  if (!fields.for_verification()) return invalid("it is not for verifying signatures");
  std::string type = fields.text("kty");
  if (type == "RSA") return make_rsa(fields);
  if (type == "EC") return make_ec(fields);
  if (type == "OKP") return make_okp(fields);
  if (type != "oct") return invalid("its kty is none of RSA, EC, OKP and oct");
  if (secrets == KeySet::Secrets::kRefused) return invalid("it is a secret, in a document that others can load");
  auto bytes = fields.bytes("k");
  if (!bytes) return invalid("an oct key needs k in base64url");
  return VerificationKey::secret(*bytes);
}

// One block of PEM. A private key is refused: this file is public.
base::Result<VerificationKey> pem_key(std::string_view name, const unsigned char* der, long size) {
  EVP_PKEY* key = nullptr;
  if (name == PEM_STRING_PUBLIC) {
    key = d2i_PUBKEY(nullptr, &der, size);
  } else if (name == PEM_STRING_RSA_PUBLIC) {
    key = d2i_PublicKey(EVP_PKEY_RSA, nullptr, &der, size);
  } else if (name == PEM_STRING_X509) {
    if (X509* certificate = d2i_X509(nullptr, &der, size)) {
      key = X509_get_pubkey(certificate);
      X509_free(certificate);
    }
  } else if (name.find("PRIVATE") != name.npos) {
    return invalid("it holds a private key; expected the public one");
  } else {
    return invalid("it holds a block that is neither a public key nor a certificate");
  }
  ERR_clear_error();
  if (!key) return invalid("it holds a key that cannot be read");
  return VerificationKey::adopt(key);
}

// Public keys of other forms than PEM: of OpenSSH, or DER in base64.
bool looks_public(const std::string& text) {
  if (text.starts_with("ssh-") || text.starts_with("ecdsa-")) return true;
  auto der = base::base64_decode(text);
  if (!der) return false;
  auto* at = reinterpret_cast<const unsigned char*>(der->data());
  EVP_PKEY* key = d2i_PUBKEY(nullptr, &at, long(der->size()));
  ERR_clear_error();
  if (!key) return false;
  EVP_PKEY_free(key);
  return true;
}

}  // namespace

base::Status KeySet::add_jwk(JwkFields& fields, Secrets secrets) {
  if (keys_.size() + left_out_.size() == kMostKeys) return invalid("more than 64 keys");
  auto key = make_key(fields, secrets);
  if (!key) {
    left_out_.push_back("key " + std::to_string(keys_.size() + left_out_.size() + 1) + ": " + key.error().text);
    return {};
  }
  key->set_id(fields.text("kid"));
  key->set_algorithm(fields.text("alg"));
  keys_.push_back(std::move(*key));
  return {};
}

base::Status KeySet::check_found() const {
  if (!keys_.empty()) return {};
  std::string text = "no key that can verify signatures";
  if (!left_out_.empty()) text += "; " + left_out_.front();
  return invalid(text);
}

base::Result<KeySet> KeySet::parse_jwks(std::string_view json, Secrets secrets) {
  if (json.size() > kMostBytes) return invalid("more than 256 KiB");
  KeySet set;
  base::Status refused;
  bool found = false;
  marshal::JsonCursor cursor(json);
  auto one_key = [&] {
    JwkFields fields;
    if (!fields.read(cursor)) return false;
    refused = set.add_jwk(fields, secrets);
    return refused.ok() || cursor.fail("too many keys");
  };
  bool well = cursor.object([&](std::string_view name) {
    if (name != "keys") return cursor.skip();
    if (std::exchange(found, true)) return cursor.fail("'keys' is there twice");
    return cursor.array(one_key);
  });
  if (!refused.ok()) return refused;
  if (!well || !cursor.finish()) return invalid("not a JWKS document: " + cursor.error().text);
  if (!found) return invalid("not a JWKS document: it has no 'keys'");
  if (auto s = set.check_found(); !s.ok()) return s;
  return set;
}

base::Status KeySet::add_pem(std::string_view content) {
  std::unique_ptr<BIO, decltype(&BIO_free)> in(BIO_new_mem_buf(content.data(), int(content.size())), &BIO_free);
  char *name = nullptr, *header = nullptr;
  unsigned char* der = nullptr;
  long size = 0;
  while (in && PEM_read_bio(in.get(), &name, &header, &der, &size) == 1) {
    auto key = pem_key(name, der, size);
    OPENSSL_free(name), OPENSSL_free(header), OPENSSL_clear_free(der, size_t(size));
    if (!key) return key.error();
    if (keys_.size() == kMostKeys) return invalid("more than 64 keys");
    keys_.push_back(std::move(*key));
  }
  ERR_clear_error();
  return check_found();
}

base::Result<KeySet> KeySet::parse_file(std::string_view content) {
  if (content.size() > kMostBytes) return invalid("more than 256 KiB");
  if (content.find("-----BEGIN ") != content.npos) {
    KeySet set;
    if (auto s = set.add_pem(content); !s.ok()) return s;
    return set;
  }
  auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!content.empty() && blank(content.back())) content.remove_suffix(1);
  while (!content.empty() && blank(content.front())) content.remove_prefix(1);
  if (content.starts_with('{')) return parse_jwks(content, Secrets::kTaken);
  std::string text(content);
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }) || looks_public(text))
    return invalid("neither a JWKS document, nor PEM, nor a secret, which is one line of visible ASCII without blanks");
  auto key = VerificationKey::secret(text);
  if (!key) return key.error();
  KeySet set;
  set.keys_.push_back(std::move(*key));
  return set;
}

std::vector<const VerificationKey*> KeySet::candidates(const SignatureAlgorithm& algorithm, std::string_view id) const {
  std::vector<const VerificationKey*> out;
  auto add = [&](auto&& wanted) {
    for (const auto& key : keys_)
      if (out.size() < kMostTried && key.fits(algorithm) && wanted(key)) out.push_back(&key);
  };
  if (id.empty()) {
    add([](const auto&) { return true; });
  } else {
    add([&](const auto& key) { return key.id() == id; });
    add([](const auto& key) { return key.id().empty(); });
  }
  return out;
}

bool KeySet::knows(std::string_view id) const {
  return std::any_of(keys_.begin(), keys_.end(), [&](const auto& key) { return key.id() == id || key.id().empty(); });
}

}  // namespace weir::auth
