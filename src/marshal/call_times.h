// Records the times of a Call for the access log, the metrics and the trace of its request: how long it waited in the
// queue, how long it was computed, and which version of the model ran.
#pragma once

#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::marshal {

struct CallDurations {
  base::Duration queue{0}, compute{0};  // zero where the Timeline has no times for it
};

// `finished`: the last Event's time; the time now for a Call that has had its first Event and that its Inbox still has.
inline CallDurations durations_of(const msg::Timeline& t, base::Time finished) {
  auto between = [](base::Time from, base::Time to) {
    return from == base::kNever || to == base::kNever ? base::Duration{0} : to - from;
  };
  return {between(t.queued, t.started), between(t.started, finished)};
}

// Call this at the Call's last Event. Zeros for a Call that the bus has ended at its deadline (its sink is null): its
// Inbox still has it and writes its times.
inline CallDurations durations_of(const msg::Call& call) {
  return call.sink ? durations_of(call.times, call.times.finished) : CallDurations{};
}

// Adds the spans of a Call to the trace of its request: receive and decode (before the request's first Call), queue,
// stage and compute. Adds none where `finished` is kNever. The Call's Inbox may still have it.
void add_call_spans(wire::Trace& trace, const msg::Call& call, base::Time finished);
// The same at the Call's last Event. For a pipeline: a span `pipeline` instead, and below it the spans of its steps.
void add_ended_call_spans(wire::Trace& trace, const msg::Call& call);

// Adds the spans, if the request is traced. Only for a Call that record_call() is not called for, which does the same.
// `finished`: as in durations_of().
inline void record_spans(wire::RequestRecord& record, const msg::Call& call, base::Time finished) {
  if (record.trace) add_call_spans(*record.trace, call, finished);
}
// The same at the Call's last Event.
inline void record_spans(wire::RequestRecord& record, const msg::Call& call) {
  if (record.trace && call.sink) add_ended_call_spans(*record.trace, call);
}

// Adds the durations to those of the request's earlier Calls, and notes the version and the times. Of Calls that run at
// the same time for one answer, only the last one to end is recorded: the sum would be longer than the request took.
inline void record_call(wire::RequestRecord& record, const msg::Call& call, CallDurations took) {
  record.queue += took.queue;
  record.compute += took.compute;
  record.version = call.version;
  if (took.queue + took.compute <= base::Duration(0)) return;  // its Inbox may still write its times
  const msg::Timeline& t = call.times;
  record.times.queued = t.queued, record.times.started = t.started, record.times.computing = t.computing;
  record.times.computed = t.started == base::kNever ? base::kNever : t.started + took.compute;
}
// The same with the spans, at the Call's last Event.
inline void record_call(wire::RequestRecord& record, const msg::Call& call) {
  record_call(record, call, durations_of(call));
  record_spans(record, call);
}
// The same with the spans, for a Call that has had its first Event and that its Inbox still has.
inline void record_call(wire::RequestRecord& record, const msg::Call& call, base::Time now) {
  record_call(record, call, durations_of(call.times, now));
  record_spans(record, call, now);
}

}  // namespace weir::marshal
