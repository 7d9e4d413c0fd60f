// ByteCharge: charges the bytes of a request's and its response's body to the limits of the caller, in steps of kStep,
// so that a long stream is charged while it runs, and a short one once, at its end. One per Exchange, kept by its
// codec.
#pragma once

#include <cstdint>

#include "wire/exchange.h"

namespace weir::wire {

class ByteCharge {
 public:
  static constexpr uint64_t kStep = 64 << 10;

  // The record of the Exchange has more bytes than before.
  void note(const Exchange& exchange) {
    if (exchange.request().identity && uncharged(exchange) >= kStep) settle(exchange);
  }
  // Charges all that is not charged yet. Call it at the end, while the Exchange still has its identity.
  void settle(const Exchange& exchange) {
    const Identity* who = exchange.request().identity;
    if (!who || !who->limiter) return;
    who->limiter->charge_bytes(exchange.now(), uncharged(exchange));
    charged_ = exchange.record().bytes_in + exchange.record().bytes_out;
  }
  // Begins anew, for another request.
  void reset() { charged_ = 0; }

 private:
  uint64_t uncharged(const Exchange& exchange) const {
    return exchange.record().bytes_in + exchange.record().bytes_out - charged_;
  }

  uint64_t charged_ = 0;
};

}  // namespace weir::wire
