// ProtoJson: protobuf messages as proto3 JSON (protobuf.dev, "ProtoJSON Format"), by type name, over the messages that
// are linked into this program. Output has field names as the .proto file spells them or in lowerCamelCase, leaves
// default values out, and has 64-bit integers as strings; input may use either spelling of a name. Unknown fields are
// errors.
//
// Texts of messages without fields of google.protobuf are read directly (marshal/message_reader.h). Those with such a
// field, and all that is written, go through the library, which resolves types anew in every call: right for calls made
// by hand, not for a hot path. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "wire/rpc.h"

namespace weir::marshal {

class ProtoJson final : public wire::JsonForm {
 public:
  // Text or message above `max_bytes` is RESOURCE_EXHAUSTED. Nesting is limited to 64 levels.
  enum class Names : uint8_t { kProto, kCamel };
  explicit ProtoJson(size_t max_bytes = 64 << 20, Names names = Names::kProto);
  ~ProtoJson();

  // Errors: INVALID_ARGUMENT with the place and the library's words; INTERNAL for an unknown type.
  base::Result<std::string> to_binary(std::string_view type, std::string_view json) override;
  // `binary` is our own: a message cut short is not always noticed.
  base::Result<std::string> to_json(std::string_view type, std::string_view binary) override;

 private:
  struct Types;
  std::unique_ptr<Types> types_;
  size_t max_bytes_;
  Names names_;
};

}  // namespace weir::marshal
