// Trace: what is kept of a request that is traced, and how parts of the server tell of the time that they spent on it.
// Plain data; a request that is not traced has none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/env.h"
#include "base/status.h"

namespace weir::wire {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

using SpanValue = std::variant<std::string_view, int64_t, double, bool>;

struct SpanAttribute {
  std::string_view key;
  SpanValue value;
};

// A part of a request's time. The views are read during the call that hands it over.
struct Span {
  enum class Kind : uint8_t { kInternal, kClient };

  std::string_view name;  // "queue", "compute", …; what the configuration has named
  base::Time start = base::kNever, end = base::kNever;
  Kind kind = Kind::kInternal;
  std::span<const SpanAttribute> attributes;
  base::Code code = base::Code::kOk;  // anything else is an error
  SpanId parent{};                    // of the same request; zeros: the request's own
};

struct Trace;

// Takes spans of traced requests. ops::RequestSpans is the one in production. The shard's thread.
class SpanSink {
 public:
  // A child of the request's span, or of one that was added before: the id is what add() has returned for that. One
  // that cannot be kept is dropped and counted; its id is all zeros, so that its children are the request's own.
  virtual SpanId add(Trace& trace, const Span& span) = 0;

 protected:
  ~SpanSink() = default;
};

struct Trace {
  TraceId id{};
  SpanId span{};    // the request's own, made here
  SpanId parent{};  // zeros: none
  uint8_t flags = 0;
  std::string state;  // tracestate, to be handed on
  // The sender's context where it was not believed (TraceRules::Parent::kIgnore).
  TraceId linked_trace{};
  SpanId linked_span{};

  SpanSink* sink = nullptr;
  base::Time began{};  // the request's head was complete
  // Added to a Time it gives nanoseconds of Unix time. Taken when the request begins, so that its spans nest also where
  // the wall clock is set meanwhile.
  int64_t to_unix_ns = 0;
  base::Time last_end = base::kNever;  // of the spans so far; kNever: none
  base::Time whole = base::kNever;     // the request's body was complete
  uint32_t calls = 0;                  // inferences that have told of their times
  uint32_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  base::Duration first_token{-1};  // from the request's begin; negative: there was none
  std::string finish;              // why the last sequence has ended: "stop", "length"
  std::string error;               // why the request has failed, in words

  SpanId add(const Span& child) { return sink->add(*this, child); }
};

}  // namespace weir::wire
