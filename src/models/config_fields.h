// The fields of Triton's ModelConfig (proto/model_config.proto), as data: which are honoured, which are accepted and
// shown again in ModelConfig without any effect, and which are refused. A field without a row is refused, so that what
// Triton adds cannot be lost silently. README.md of this room has the same in words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace weir::models {

enum class FieldUse : uint8_t { kServed, kShown, kRefused };

struct ConfigField {
  // Names of fields from ModelConfig down to one that holds values: "input.reshape.shape". A map is one step, whatever
  // its keys are; a message without fields holds a value.
  std::string_view path;
  FieldUse use;
  std::string_view why;  // of kShown: what weir goes by instead; of kRefused: what would be wrong otherwise
};

// Every row, sorted as in the proto.
std::span<const ConfigField> config_fields();
// Null: there is no row.
const ConfigField* config_field(std::string_view path);

// The paths of all fields that `message` has values for, each once, in the order of their numbers. Values that are
// their type's default cannot be told from those that are not there.
std::vector<std::string> fields_of(const google::protobuf::Message& message);

// Goes through the fields that are set: returns those that are shown and have no effect, each once, as "path (why)".
// Errors: UNIMPLEMENTED with the path of the first one that is refused.
base::Result<std::vector<std::string>> check_fields(const google::protobuf::Message& config);

}  // namespace weir::models
