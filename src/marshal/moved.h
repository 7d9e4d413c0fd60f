// How a client is told that another server has gone on with its text, because the one that had begun it has died
// (engines/forward): the field `weir-moved`, which holds how often.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/exchange.h"

namespace weir::marshal {

inline constexpr std::string_view kMoved = "weir-moved";

// In the head of a whole answer, before it is sent.
inline void tell_moves(wire::Exchange& exchange, uint32_t moves) {
  if (moves > 0) exchange.extra_fields().add(kMoved, std::to_string(moves));
}
// Behind a streamed one.
inline wire::Fields moved_trailers(uint32_t moves) {
  wire::Fields out;
  if (moves > 0) out.add(kMoved, std::to_string(moves));
  return out;
}

}  // namespace weir::marshal
