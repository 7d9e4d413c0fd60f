// The border between a connection and the services of its requests: what a service throws ends its own Exchange, and no
// other of the connection.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "wire/exchange.h"

namespace weir::wire {

// Ends an Exchange whose service has thrown: 503 for want of memory, else 500; a reset where the answer had begun.
void end_thrown(Exchange& exchange, const base::Status& why);

// Runs a part of a service, also for services themselves where they do not come from the codec (a timer). False: it has
// thrown.
template <class Work>
bool guarded(Exchange& exchange, Work&& work) {
  auto status = base::attempt("a service", std::forward<Work>(work));
  if (!status.ok()) end_thrown(exchange, status);
  return status.ok();
}

// For codecs: the Exchange's ExchangeListener, if there is one, is called, guarded.
void notify_data(Exchange& exchange, std::span<const std::byte> piece);
void notify_end(Exchange& exchange);
void notify_drain(Exchange& exchange);
void notify_close(Exchange& exchange, ExchangeListener* listener, bool complete);

}  // namespace weir::wire
