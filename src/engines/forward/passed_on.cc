#include "engines/forward/passed_on.h"

#include <string>

namespace weir::forward {
std::string hex_digits(uint64_t number) {
  std::string out(16, '0');
  for (size_t i = out.size(); i-- > 0; number >>= 4) out[i] = "0123456789abcdef"[number & 15];
  return out;
}

void pass_on(const msg::Call& call, wire::Fields& fields) {
  if (call.trace) {
    fields.add("traceparent", call.trace->traceparent);
    if (!call.trace->tracestate.empty()) fields.add("tracestate", call.trace->tracestate);
  }
  if (call.tenant != 0) fields.add("weir-tenant", hex_digits(call.tenant));
}

}  // namespace weir::forward
