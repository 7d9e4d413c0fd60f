// Reads the Accept field (RFC 9110 §12.5.1).
#pragma once

#include <string_view>

namespace weir::wire {

// Whether `accept`, the field of that name, names the media type `type` itself with a weight above 0. A wildcard, which
// curl and SDKs send, names nothing.
bool accepts(std::string_view accept, std::string_view type);

}  // namespace weir::wire
