// Values of each generation parameter: at both ends of its range, one past each end, and of a wrong type. Every
// protocol's test walks through them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "marshal/generation_params.h"

namespace weir::support {

struct GenerationCase {
  std::string name;   // as the protocol has it
  std::string value;  // JSON; or the protobuf field, tag included
  bool good = false;
};

// Whether the parameter gives a completion its form, as JSON that has a meaning of its own.
inline bool is_form(std::string_view name) {
  return name.starts_with("guided_") || name == "response_format" || name == "structured_outputs" ||
         name == "json_schema" || name == "grammar";
}

// The cases of a member of a JSON object.
std::vector<GenerationCase> json_cases(marshal::Protocol protocol);
// The cases of a field of a message. One of another wire type is good: it is passed over.
std::vector<GenerationCase> pb_cases(marshal::Protocol protocol);

}  // namespace weir::support
