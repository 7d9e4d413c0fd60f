#include "engines/forward/passed_on.h"

#include <string>
#include <string_view>

#include "wire/hops.h"

namespace weir::forward {

std::array<char, 16> hex_digits(uint64_t number) {
  std::array<char, 16> out;
  for (size_t i = out.size(); i-- > 0; number >>= 4) out[i] = "0123456789abcdef"[number & 15];
  return out;
}

void pass_on(const msg::Call& call, wire::Fields& fields) {
  if (call.trace && !call.trace->traceparent.empty()) {
    fields.add("traceparent", call.trace->traceparent);
    if (!call.trace->tracestate.empty()) fields.add("tracestate", call.trace->tracestate);
  }
  if (call.trace && call.trace->hops > 0) fields.add(wire::kHops, std::to_string(call.trace->hops));
  const auto digits = hex_digits(call.tenant);
  fields.add(wire::kTenantThere, {digits.data(), digits.size()});
}

}  // namespace weir::forward
