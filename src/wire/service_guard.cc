#include "wire/service_guard.h"

#include "wire/limits.h"
#include "wire/router.h"

namespace weir::wire {

// An answer that says so takes little; where there is no memory for that either, the end alone has to do.
void end_thrown(Exchange& exchange, const base::Status& why) {
  const bool memory = why.code == base::Code::kResourceExhausted;
  exchange.record().code = why.code;
  if (memory) exchange.record().reject = reason::kOverload;
  const int status = memory ? 503 : 500;
  auto answer = [&] {
    exchange.match ? exchange.match->router->word_error(exchange, status, why.text)
                   : respond_error(exchange, status, why.text);
  };
  if (exchange.responding() || !base::attempt("an answer", answer).ok()) exchange.reset(Reset::kInternal);
}

void notify_data(Exchange& exchange, std::span<const std::byte> piece) {
  if (ExchangeListener* listener = exchange.listener()) guarded(exchange, [&] { listener->on_data(exchange, piece); });
}

void notify_end(Exchange& exchange) {
  if (ExchangeListener* listener = exchange.listener()) guarded(exchange, [&] { listener->on_end(exchange); });
}

void notify_drain(Exchange& exchange) {
  if (ExchangeListener* listener = exchange.listener()) guarded(exchange, [&] { listener->on_drain(exchange); });
}

// It is over already.
void notify_close(Exchange& exchange, ExchangeListener* listener, bool complete) {
  if (listener) (void)base::attempt("a service", [&] { listener->on_close(exchange, complete); });
}

}  // namespace weir::wire
