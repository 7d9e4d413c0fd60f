// Values of each generation parameter: at both ends of its range, one past each end, and of a wrong type. Every
// protocol's test walks through them.
#pragma once

#include <string>
#include <vector>

#include "marshal/generation_params.h"

namespace weir::support {

struct GenerationCase {
  std::string name;   // as the protocol has it
  std::string value;  // JSON; or the protobuf field, tag included
  bool good = false;
};

// The cases of a member of a JSON object.
std::vector<GenerationCase> json_cases(marshal::Protocol protocol);
// The cases of a field of a message. One of another wire type is good: it is passed over.
std::vector<GenerationCase> pb_cases(marshal::Protocol protocol);

}  // namespace weir::support
