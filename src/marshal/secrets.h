// Secrets: those of which a client must show one ("Authorization: Bearer …", RFC 6750 §2.1). Immutable; any thread.
//
// They are kept as SHA-256 digests. What a client shows is hashed and compared with all of them in constant time, so
// that how long it takes says nothing of how near it was.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::marshal {

class Secrets {
 public:
  Secrets() = default;
  explicit Secrets(const std::vector<std::string>& secrets);

  bool empty() const { return digests_.empty(); }
  size_t size() const { return digests_.size(); }
  // The place of the first one that is the same; nothing if none is.
  std::optional<size_t> find(std::string_view shown) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view text);

  std::vector<Digest> digests_;
};

// `secrets`, those of the setting `key`, and the lines of the file `path`, which the setting `key`_file names ("" =
// none). Errors: INVALID_ARGUMENT for a file that cannot be read or holds none, and for a secret that cannot be sent in
// a header field. At start-up alone: it reads a file.
base::Result<std::vector<std::string>> read_secrets(const std::string& key, std::vector<std::string> secrets,
                                                    const std::string& path);

// The token of `Authorization: Bearer <token>`, the scheme in any case; empty without one.
std::string_view bearer_token(const wire::Request& request);

}  // namespace weir::marshal
