// The protocol's nine tensor types, and the six maps of gmap.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "msg/tensor.h"

namespace weir::grps {

struct Type {
  msg::DType dtype;
  std::string_view name;   // of the enum
  std::string_view field;  // of the elements
};

// By the enum's number, which is also the elements' field number less three. [0] is DT_INVALID.
inline constexpr std::array<Type, 10> kTypes{{
    {msg::DType::kInvalid, "DT_INVALID", ""},
    {msg::DType::kUint8, "DT_UINT8", "flat_uint8"},
    {msg::DType::kInt8, "DT_INT8", "flat_int8"},
    {msg::DType::kInt16, "DT_INT16", "flat_int16"},
    {msg::DType::kInt32, "DT_INT32", "flat_int32"},
    {msg::DType::kInt64, "DT_INT64", "flat_int64"},
    {msg::DType::kFp16, "DT_FLOAT16", "flat_float16"},
    {msg::DType::kFp32, "DT_FLOAT32", "flat_float32"},
    {msg::DType::kFp64, "DT_FLOAT64", "flat_float64"},
    {msg::DType::kBytes, "DT_STRING", "flat_string"},
}};
constexpr uint32_t field_of(size_t type) { return uint32_t(type) + 3; }

// The type's number; 0 when the protocol does not have it.
constexpr size_t type_of(msg::DType dtype) {
  for (size_t i = 1; i < kTypes.size(); ++i)
    if (kTypes[i].dtype == dtype) return i;
  return 0;
}

// The type in which the protocol carries values of `dtype`: itself, or the nearest that holds them.
constexpr msg::DType carrier(msg::DType dtype) {
  using enum msg::DType;
  switch (dtype) {
    case kBool: return kUint8;
    case kUint16: return kInt32;
    case kUint32:
    case kUint64: return kInt64;
    case kBf16: return kFp32;
    default: return dtype;
  }
}

// By the field's number less one. The maps are namespaces of their own: one key may be in several of them.
enum class Map : uint8_t { kText, kBytes, kInt32, kInt64, kFp32, kFp64 };
struct MapType {
  std::string_view name;
  msg::DType dtype;  // of its values
};
inline constexpr std::array<MapType, 6> kMaps{{{"s_s", msg::DType::kBytes},
                                               {"s_b", msg::DType::kBytes},
                                               {"s_i32", msg::DType::kInt32},
                                               {"s_i64", msg::DType::kInt64},
                                               {"s_f", msg::DType::kFp32},
                                               {"s_d", msg::DType::kFp64}}};
constexpr const MapType& type_of(Map map) { return kMaps[size_t(map)]; }
constexpr uint32_t field_of(Map map) { return uint32_t(map) + 1; }

}  // namespace weir::grps
