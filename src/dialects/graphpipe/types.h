// The datatypes of GraphPipe and ours. Bool travels as Uint8, 0 or 1; bfloat16 has no word and is refused.
#pragma once

#include <array>
#include <string_view>

#include "graphpipe_generated.h"
#include "msg/tensor.h"

namespace weir::graphpipe {

namespace fb = ::graphpipe_fb;

// kInvalid for Null and for numbers that are no type.
inline msg::DType dtype_of(fb::Type type) {
  using msg::DType;
  constexpr std::array kTypes{DType::kInvalid, DType::kUint8, DType::kInt8,   DType::kUint16, DType::kInt16,
                              DType::kUint32,  DType::kInt32, DType::kUint64, DType::kInt64,  DType::kFp16,
                              DType::kFp32,    DType::kFp64,  DType::kBytes};
  return size_t(type) < kTypes.size() ? kTypes[size_t(type)] : DType::kInvalid;
}

// Null where there is no word.
inline fb::Type type_of(msg::DType dtype) {
  if (dtype == msg::DType::kBool) return fb::Type_Uint8;
  for (int t = fb::Type_Uint8; t <= fb::Type_String; ++t)
    if (dtype_of(fb::Type(t)) == dtype) return fb::Type(t);
  return fb::Type_Null;
}

inline std::string_view name(fb::Type type) {
  return size_t(type) <= size_t(fb::Type_MAX) ? fb::EnumNameType(type) : "unknown";
}

}  // namespace weir::graphpipe
