// parse_yaml(): a YAML 1.2 document as a base::Yaml. Anchors and aliases are errors, since a short document could be a
// huge or an endless one by them; tags are ignored; a repeated key is an error. Time and memory are linear in the
// document, which is bounded.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/yaml.h"

namespace weir::models {

using base::Complaints;
using base::Yaml;

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr size_t kMaxYamlNodes = 100'000;  // keys and values
inline constexpr size_t kMaxYamlDepth = 64;       // lists and maps inside each other

// A document may be longer where whoever reads it says so.
struct YamlBounds {
  size_t bytes = kMaxYamlBytes;
  size_t nodes = kMaxYamlNodes;
};

// `file` is how complaints name the document. Errors: INVALID_ARGUMENT "file:line:column: …".
base::Result<Yaml> parse_yaml(std::string_view text, std::string_view file, YamlBounds bounds = {});

}  // namespace weir::models
