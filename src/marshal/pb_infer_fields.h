// The fields that requests and answers of the Open Inference Protocol have alike, as they are written
// (proto/inference.proto, ModelInferRequest and ModelInferResponse): 4 parameters, 5 tensors without their data. Pure;
// any thread.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "marshal/pb_wire.h"
#include "msg/call.h"
#include "msg/tensor.h"

namespace weir::marshal {

// Tensors up to this size are copied into the message: cheaper than a piece of their own.
inline constexpr size_t kInlineTensor = 4096;

// Writes a message into memory that has room for all of it; the caller has measured. Written byte by byte into a
// string a small answer took 700 instructions more.
class PbWriter {
 public:
  explicit PbWriter(char* to) : to_(to) {}
  char* end() const { return to_; }

  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) *to_++ = char(uint8_t(v) | 0x80);
    *to_++ = char(v);
  }
  // The field is below 16.
  void tag(uint32_t field, PbType type) { *to_++ = char(field << 3 | uint32_t(type)); }
  void raw(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  void bytes(uint32_t field, std::string_view value) {
    tag(field, PbType::kBytes);
    varint(value.size());
    raw(value);
  }
  // proto3 leaves empty strings out.
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) bytes(field, value);
  }

 private:
  char* to_;
};

// Appends an entry of `parameters`, field 4.
void put_parameter(std::string& out, std::string_view name, const msg::ParamValue& value);

// Field 5: the tensor's name, datatype and shape. It takes five tags and varints, the two texts, and ten bytes a
// dimension at most.
void write_tensor_head(PbWriter& out, const msg::Tensor& tensor);

}  // namespace weir::marshal
