// Tracer: decides which requests are traced, and begins their traces. One per shard, on its thread.
#pragma once

#include <cstdint>

#include "base/env.h"
#include "wire/exchange.h"

namespace weir::wire {

struct TraceRules {
  // The meaning of the context that a request brings.
  enum class Parent : uint8_t {
    kRespect,  // its trace goes on, and its `sampled` flag decides
    kSample,   // its trace goes on, and the ratio decides
    kIgnore,   // every request begins a trace of its own, and the ratio decides; the sender's context becomes a link
  };
  double ratio = 1;  // of traces, 0 to 1
  Parent parent = Parent::kRespect;
};

class Tracer {
 public:
  Tracer(base::Env& env, TraceRules rules, SpanSink& sink);

  // At a request's head. A request that is traced gets RequestRecord::trace; its traceparent, here and in the answer,
  // names the span that is made here. One that is not traced keeps the traceparent that it brought.
  void begin(Exchange& exchange);

 private:
  base::Env& env_;
  const TraceRules rules_;
  const uint64_t threshold_;
  SpanSink& sink_;
};

}  // namespace weir::wire
