// RequestSpans: one shard's traced requests as OTLP spans. Children come while a request runs (wire::SpanSink), the
// request's own span when it has ended (wire::Observer). Everything is encoded at once, so that a request that runs for
// hours keeps nothing here, and handed to the exporter at the end of each turn.
//
// Names are OpenTelemetry's (semantic conventions: http.*, url.*, network.*, rpc.*, gen_ai.*, error.type); what has
// none there begins with "weir.". No value is a secret: no query, no field of the request but user-agent and the keys
// of baggage that the configuration names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/env.h"
#include "dialects/ops/span_exporter.h"
#include "wire/router.h"
#include "wire/trace.h"

namespace weir::ops {

class RequestSpans final : public wire::Observer, public wire::SpanSink {
 public:
  // `baggage`: keys whose values become attributes "baggage.<key>". All outlive this.
  RequestSpans(SpanExporter& exporter, base::Env& env, const std::vector<std::string>& baggage)
      : exporter_(exporter), env_(env), baggage_(baggage) {}

  wire::SpanId add(wire::Trace& trace, const wire::Span& span) override;
  void finished(const wire::Exchange& exchange) override;
  void rejected(std::string_view, const wire::PeerInfo&) override {}
  // At the end of each turn.
  void flush();

 private:
  wire::SpanId write_child(wire::Trace& trace, const wire::Span& span);
  void write_request(const wire::Exchange& exchange);
  void add_send(wire::Trace& trace, base::Time end);
  void count();

  SpanExporter& exporter_;
  base::Env& env_;
  const std::vector<std::string>& baggage_;
  std::string spans_;  // of this turn
  uint32_t count_ = 0;
};

}  // namespace weir::ops
