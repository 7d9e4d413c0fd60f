// The file of keys (the setting auth.keys_file), in YAML:
//
//   keys:
//     - name: ci                       # for logs and errors; unique
//       hash: "sha256:9f86d0…"         # of the key, 64 hexadecimal digits: `weir key new` makes both
//       tenant: build                  # whose it is; the key's own name, unless it is set
//       roles: [infer, metrics]        # infer, admin, metrics; [infer], unless it is set
//       models: ["chat*", "embed"]     # patterns of names (base/model_scope.h); all, unless it is set
//       limits: {requests_per_second: 20, concurrent: 8, tokens_per_minute: 100000, bytes_per_minute: 64MiB}
//       expires: 2027-01-31T00:00:00Z  # RFC 3339; never, unless it is set
//
// A member that is not known is an error, as is every mistake: a file is taken whole or not at all.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "auth/keys.h"
#include "base/env.h"
#include "base/status.h"
#include "base/yaml.h"

namespace weir::auth {

inline constexpr size_t kMostKeys = 100'000;
// The document with all of them: about 600 bytes, and 40 keys and values, for each.
inline constexpr size_t kMostKeyFileBytes = size_t(64) << 20;
inline constexpr size_t kMostKeyFileNodes = 4'000'000;

// `root` is the document. Errors: INVALID_ARGUMENT "file:line:column: …", a line for each mistake.
base::Result<std::vector<Key>> read_keys(const base::Yaml& root, std::string_view file);

// "sha256:" and 64 hexadecimal digits.
std::optional<Digest> parse_digest(std::string_view text);
std::string show_digest(const Digest& digest);
// RFC 3339 §5.6: "2027-01-31T00:00:00Z", with a fraction and an offset, too.
std::optional<base::WallTime> parse_time(std::string_view text);

}  // namespace weir::auth
