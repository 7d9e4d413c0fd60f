// Protobuf messages as the protocol's REST side wants them: field names as in the .proto, every plain field present
// also when it has its default value, enums by name, and 64-bit integers as JSON numbers (proto3's own JSON has them as
// strings, and perf_analyzer does not read those). Absent messages and oneof members are left out.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}

namespace weir::oip {

void write_json(std::string& out, const google::protobuf::Message& message);

}  // namespace weir::oip
