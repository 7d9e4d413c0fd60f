// ByteCharge: charges the limits of whoever asks for the bodies of a request and its answer, kStep bytes at a time, so
// that a long stream is charged while it goes on, and short ones once, at their end. One per Exchange, kept by its
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
  // Charges all that is not charged yet: at the end, while the Exchange still says who asks.
  void settle(const Exchange& exchange) {
    const Identity* who = exchange.request().identity;
    if (!who || !who->limiter) return;
    who->limiter->charge_bytes(exchange.now(), uncharged(exchange));
    charged_ = exchange.record().bytes_in + exchange.record().bytes_out;
  }
  // For another request.
  void reset() { charged_ = 0; }

 private:
  uint64_t uncharged(const Exchange& exchange) const {
    return exchange.record().bytes_in + exchange.record().bytes_out - charged_;
  }

  uint64_t charged_ = 0;
};

}  // namespace weir::wire
