// W3C Trace Context and Baggage: what a request says of the trace that it belongs to. Pure.
//
//   traceparent = version "-" trace-id "-" parent-id "-" flags         version 00; w3.org/TR/trace-context §3.2
//   tracestate  = member *( OWS "," OWS member )   member = key "=" value                              §3.3
//   baggage     = member *( OWS "," OWS member )   member = key OWS "=" OWS value *( ";" property ) w3.org/TR/baggage
//
// All three come from strangers: what does not keep the grammar or the bounds is dropped, each of them alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/exchange.h"

namespace weir::wire {

// As they are sent, the most significant byte first; all zeros is none. TraceId comes from wire/trace.h.
struct TraceContext {
  TraceId trace{};
  SpanId span{};  // of a traceparent: the sender's span
  uint8_t flags = 0;

  static constexpr uint8_t kSampled = 1, kRandom = 2;
  bool sampled() const { return (flags & kSampled) != 0; }
  // Version 00.
  std::string traceparent() const;
};

// Nothing for a field that is malformed. Versions after 00 may be longer; what follows the flags is not read.
std::optional<TraceContext> parse_traceparent(std::string_view text);
// The context that a request brings; nothing where it brings none, a malformed one, or several.
std::optional<TraceContext> context_of(const Fields& fields);

// The request's tracestate as it may be handed on: all its fields as one list, without empty members. "" where a member
// breaks the grammar, a key comes twice, or there are more than 32. Of what is longer than kMostTraceState, members of
// more than 128 characters go first, then those at the end.
inline constexpr size_t kMostTraceState = 1024, kMostTraceStateMembers = 32;
std::string tracestate_of(const Fields& fields);

// The value of a key in the request's baggage, its escapes undone; nothing where the key is not there, or stands beyond
// the first 64 members or 8192 bytes.
inline constexpr size_t kMostBaggage = 8192, kMostBaggageMembers = 64;
std::optional<std::string> baggage_value(const Fields& fields, std::string_view key);

// Consistent probability sampling (opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling): a trace is
// taken where its 56 random bits are not below a threshold, so that every node with the same ratio decides alike. They
// are the end of its id, unless its tracestate has other ones; there the threshold goes as well, so that a collector
// can tell how many traces stand behind one:
//
//   ot=th:fd70a3d7;rv:6e6d1a75832a2f      both are fractions of 2^56 in lower-case hex; th without zeros at its end
//
// Returns the threshold of a ratio of traces, 0 to 1.
uint64_t sampling_threshold(double ratio);
// `state`: the tracestate, or "".
bool sampled_by(uint64_t threshold, const TraceId& trace, std::string_view state);
// The tracestate of a trace that the threshold has taken: `ot` comes first, and what is in it beside th stays.
std::string with_threshold(std::string_view state, uint64_t threshold);

}  // namespace weir::wire
