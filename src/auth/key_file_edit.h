// The edits that `weir key` makes in the file of keys (auth/key_file.h): it adds a key or takes one away, and leaves
// everything else as it stands, comments among it. Pure: texts in, texts out.
//
// A key is "weir_", 43 letters and digits with 256 random bits, and 6 that are a checksum (CRC-32 in base 62), by which
// scanners for secrets know it: weir_[0-9A-Za-z]{49}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "base/yaml.h"

namespace weir::auth {

// From the kernel's random bytes. Aborts where it gives none.
std::string make_key();
// Whether it has the form of make_key(), checksum included.
bool is_key(std::string_view text);

struct NewKey {
  std::string name;
  std::string hash;                        // show_digest() of the key's SHA-256
  std::string tenant;                      // empty: the name
  std::vector<std::string> roles, models;  // empty: the file's defaults
  std::optional<base::WallTime> expires;
};

// The file's text with that key behind the others. `root` is `text`, parsed; a text without anything is no document
// yet. Errors: ALREADY_EXISTS (the name), FAILED_PRECONDITION (the keys are not a list in YAML's block style, each on
// lines of its own).
base::Result<std::string> add_key(const std::string& text, const base::Yaml& root, const NewKey& key);

// The file's text without the key of that name. Errors: NOT_FOUND, FAILED_PRECONDITION as above.
base::Result<std::string> remove_key(const std::string& text, const base::Yaml& root, std::string_view name);

// RFC 3339 in UTC, whole seconds.
std::string show_time(base::WallTime at);

}  // namespace weir::auth
