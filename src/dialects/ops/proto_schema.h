// JSON Schemas of protobuf messages, as ProtoJSON writes them: field names as the .proto file spells them, 64-bit
// integers as strings or numbers, bytes as base64.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace google::protobuf {
class Descriptor;
}

namespace weir::ops {

// Adds the schema of a message, by its full name, and of all that it refers to. Those that are there stay.
void add_schema(const google::protobuf::Descriptor& message, nlohmann::ordered_json& schemas);

}  // namespace weir::ops
