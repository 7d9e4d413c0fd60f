// The fields by which a weir that has forwarded a request is known to the next one, so that none goes in circles.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "wire/exchange.h"

namespace weir::wire {

// `weir-tenant`: the number of its tenant there, 0 of requests that are nobody's; from every weir. `weir-hops`: how
// many there were before that one; 0 where it is not there.
inline constexpr std::string_view kTenantThere = "weir-tenant", kHops = "weir-hops";
inline constexpr uint32_t kMostHops = 8;  // that a request may have come through

// Through how many it has come; kMostHops: so many, or more.
inline uint32_t hops_of(const Fields& fields) {
  if (!fields.has(kTenantThere)) return 0;
  const std::string_view text = fields.find(kHops);
  uint32_t before = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), before);
  if (read.ec == std::errc::result_out_of_range || before >= kMostHops) return kMostHops;
  return before + 1;
}

}  // namespace weir::wire
