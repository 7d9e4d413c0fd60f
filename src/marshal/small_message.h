// Messages of control calls, which name things. protobuf's library reads them, and makes an object of each field, also
// of those that it does not know: many times what they take on the wire, uncharged, and a tenth of a microsecond for
// each. A message that is small stays small.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace weir::marshal {

inline constexpr size_t kSmallMessage = 16 << 10;  // bytes: a millisecond and 512 KiB at worst

// Errors: INVALID_ARGUMENT.
inline base::Status check_small(const base::Bytes& bytes) {
  return bytes.size() <= kSmallMessage ? base::Status() : base::invalid("a request of this call has at most 16 KiB");
}

// Reads a protobuf message of the library's. Errors: INVALID_ARGUMENT.
template <class Message>
base::Status parse_small(const base::Bytes& bytes, Message& message) {
  if (base::Status s = check_small(bytes); !s.ok()) return s;
  if (message.ParseFromArray(bytes.data(), int(bytes.size()))) return {};
  return base::invalid("malformed " + Message::descriptor()->name());
}

}  // namespace weir::marshal
