// The cost of an answer, which is taken of Call::credit: one, and one more for each kCreditBytes of its tensors. So a
// window of Events bounds their bytes, too. While there is any credit the next answer may go, however large it is: the
// credit is below zero then, and the engine waits until the peer has drained enough.
//
// Whoever posts an answer takes its cost, and bus::CallHandle gives the same back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "msg/call.h"

namespace weir::msg {

inline constexpr uint64_t kCreditBytes = 16 << 10;

inline uint64_t bytes_of(const Outputs& outputs) {
  uint64_t bytes = 0;
  for (const auto& tensor : outputs.tensors) bytes += tensor.data.size();
  return bytes;
}
inline uint64_t bytes_of(const Event& event) {
  const auto* outputs = std::get_if<Outputs>(&event.what);
  return outputs ? bytes_of(*outputs) : 0;
}

inline int32_t credit_of(const Event& event) {
  return 1 + int32_t(std::min<uint64_t>(bytes_of(event) / kCreditBytes, 1 << 28));
}

}  // namespace weir::msg
