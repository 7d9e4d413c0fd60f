// A protobuf message in proto3 JSON (protobuf.dev, "ProtoJSON Format") into the wire format, in one pass over the text:
// by the message's descriptor, without message objects, numbers by the path that tensors take (json_cursor.h).
//
// Accepts what the format says: names as the .proto file spells them or in lowerCamelCase, 64-bit integers as numbers
// or strings, bytes in either alphabet of base64 with or without padding, enumerators as names or numbers, "NaN",
// "Infinity" and "-Infinity", null for what is not there; and one value for a repeated field that has only that.
// Unknown fields, a oneof that is set twice, null in a list, and a second value for a key of a map are errors, and so
// are more than 65,536 keys. Numbers of repeated fields come out packed. The library takes more, which is refused here:
// a comma behind the last element, names without quotes, "+1", "0x10", null in a list. It reads -0 as 0.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace google::protobuf {
class Descriptor;
}

namespace weir::marshal {

inline constexpr int kMaxMessageDepth = 64;  // brackets

// Nothing where the text has a field of a type that has a JSON form of its own (Any, Timestamp, Struct, …): that is the
// library's to read, unless it has null in a list of a message. Errors: INVALID_ARGUMENT with the place;
// RESOURCE_EXHAUSTED past `max_bytes` of the message. Any thread.
std::optional<base::Result<std::string>> read_message(const google::protobuf::Descriptor& type, std::string_view json,
                                                      size_t max_bytes);

}  // namespace weir::marshal
