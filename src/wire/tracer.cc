#include "wire/tracer.h"

#include <cstring>
#include <memory>
#include <optional>

#include "wire/trace_context.h"

namespace weir::wire {
namespace {

// Random bits that are not all zero.
template <size_t N>
void draw(base::Env& env, std::array<uint8_t, N>& id, size_t from = 0) {
  for (size_t at = from; at < N; at += sizeof(uint64_t)) {
    uint64_t bits = env.random();
    if (bits == 0) bits = 1;
    std::memcpy(id.data() + at, &bits, sizeof bits);
  }
}

}  // namespace

Tracer::Tracer(base::Env& env, TraceRules rules, SpanSink& sink)
    : env_(env), rules_(rules), threshold_(sampling_threshold(rules.ratio)), sink_(sink) {}

// Only the random half of a new trace's id is drawn before it is known whether the request is traced.
void Tracer::begin(Exchange& x) {
  using Parent = TraceRules::Parent;
  const auto sender = context_of(x.request().fields);
  const bool joins = sender && rules_.parent != Parent::kIgnore;
  TraceContext own;
  if (joins)
    own = *sender;
  else
    draw(env_, own.trace, sizeof(uint64_t));
  const bool respects = joins && rules_.parent == Parent::kRespect;
  std::string state = joins && !respects ? tracestate_of(x.request().fields) : std::string();
  const bool sampled = respects ? sender->sampled() : sampled_by(threshold_, own.trace, state);
  RequestRecord& record = x.record();
  if (!sampled) {
    if (sender) record.traceparent = sender->traceparent();
  } else {
    if (!joins) {
      TraceId high{};
      draw(env_, high);
      std::memcpy(own.trace.data(), high.data(), sizeof(uint64_t));
      own.flags = TraceContext::kRandom;
    }
    own.flags |= TraceContext::kSampled;
    auto trace = std::make_unique<Trace>();
    trace->id = own.trace;
    if (joins) trace->parent = sender->span;
    trace->state = respects ? tracestate_of(x.request().fields) : with_threshold(state, threshold_);
    if (sender && !joins) trace->linked_trace = sender->trace, trace->linked_span = sender->span;
    draw(env_, own.span);
    trace->span = own.span;
    trace->flags = own.flags;
    trace->sink = &sink_;
    trace->began = record.began;
    trace->to_unix_ns = (env_.wall().time_since_epoch() - env_.now().time_since_epoch()).count();
    record.traceparent = own.traceparent();
    record.trace = std::move(trace);
  }
  if (!record.traceparent.empty()) x.extra_fields().add("traceparent", record.traceparent);
}

}  // namespace weir::wire
