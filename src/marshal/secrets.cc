#include "marshal/secrets.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>

#include "wire/text.h"

namespace weir::marshal {
namespace {

// RFC 6750, "b64token", and whatever else is visible.
bool sendable(const std::string& secret) {
  return std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Secrets::Digest Secrets::digest_of(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

Secrets::Secrets(const std::vector<std::string>& secrets) {
  for (const auto& secret : secrets) digests_.push_back(digest_of(secret));
}

std::optional<size_t> Secrets::find(std::string_view shown) const {
  const Digest digest = digest_of(shown);
  size_t found = digests_.size();
  for (size_t i = digests_.size(); i-- > 0;)
    if (CRYPTO_memcmp(digests_[i].data(), digest.data(), digest.size()) == 0) found = i;
  return found < digests_.size() ? std::optional(found) : std::nullopt;
}

base::Result<std::vector<std::string>> read_secrets(const std::string& key, std::vector<std::string> secrets,
                                                    const std::string& path) {
  if (!path.empty()) {
    std::ifstream file(path);
    if (!file) return base::invalid(key + "_file: cannot read '" + path + "'");
    size_t before = secrets.size();
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) secrets.push_back(line);
    }
    if (secrets.size() == before) return base::invalid(key + "_file: '" + path + "' holds none");
  }
  if (!std::all_of(secrets.begin(), secrets.end(), sendable))
    return base::invalid(key + ": a secret must be visible ASCII without blanks");
  return secrets;
}

std::string_view bearer_token(const wire::Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = request.fields.find("authorization");
  if (value.size() < kScheme.size() || !wire::same_text(value.substr(0, kScheme.size()), kScheme)) return {};
  return wire::trim(value.substr(kScheme.size()));
}

}  // namespace weir::marshal
