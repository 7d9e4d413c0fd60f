// Any bytes as the document or the file with an issuer's keys: bounded, and what is left out is said.
#include <cstdint>
#include <string_view>

#include "auth/jwks.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

void check(const base::Result<auth::KeySet>& set) {
  if (!set) return require(!set.error().text.empty(), "a refusal says why");
  require(!set->keys().empty(), "a set has a key");
  require(set->keys().size() + set->left_out().size() <= auth::KeySet::kMostKeys, "a set is bounded");
  for (const char* name : {"RS256", "ES256", "HS512", "EdDSA"})
    for (const auto* key : set->candidates(*auth::find_algorithm(name), ""))
      require(!key->verifies(*auth::find_algorithm(name), "text", "signature"), "no key has signed this");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(auth::KeySet::parse_jwks(bytes, auth::KeySet::Secrets::kTaken));
  auto refused = auth::KeySet::parse_jwks(bytes, auth::KeySet::Secrets::kRefused);
  check(refused);
  if (refused)
    for (const auto& key : refused->keys())
      require(key.type() != auth::KeyType::kSecret, "no secret from where others can read");
  check(auth::KeySet::parse_file(bytes));
  return 0;
}
