// A Call's times for the access log, the metrics and the trace: how long it waited, how long it ran, which version it
// was.
#pragma once

#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::marshal {

struct Spent {
  base::Duration queue{0}, compute{0};  // zero where the Timeline does not say
};

// `finished`: the time now for a Call that its Inbox still has, after the Call's first Event.
inline Spent spent(const msg::Timeline& t, base::Time finished) {
  auto between = [](base::Time from, base::Time to) {
    return from == base::kNever || to == base::kNever ? base::Duration{0} : to - from;
  };
  return {between(t.queued, t.started), between(t.started, finished)};
}

// At a Call's last Event. One whose deadline has passed is answered by the bus, and has no sink any more: its Inbox
// still has it and writes its times, so nothing is said of them.
inline Spent spent(const msg::Call& call) { return call.sink ? spent(call.times, call.times.finished) : Spent{}; }

// The spans of a Call of a request that is traced: the way to its queue (of the request's first Call), queue, stage,
// compute. Nothing where `finished` is kNever. Its Inbox may still have the Call.
void add_call_spans(wire::Trace& trace, const msg::Call& call, base::Time finished);
// The same at the Call's last Event: of a pipeline's, a span `pipeline` instead, and below that the spans of its steps.
void add_ended_call_spans(wire::Trace& trace, const msg::Call& call);
// The same where the request is traced, for a Call that note() is not called for.
inline void trace(wire::RequestRecord& record, const msg::Call& call, base::Time finished) {
  if (record.trace) add_call_spans(*record.trace, call, finished);
}
// At the Call's last Event.
inline void trace(wire::RequestRecord& record, const msg::Call& call) {
  if (record.trace && call.sink) add_ended_call_spans(*record.trace, call);
}

// Adds it to what the Calls before took, since a stream makes one after the other. Of Calls side by side that make one
// answer only the last to end is noted: their times would add up to more than the request took.
inline void note(wire::RequestRecord& record, const msg::Call& call, Spent spent) {
  record.queue += spent.queue;
  record.compute += spent.compute;
  record.version = call.version;
  if (spent.queue + spent.compute <= base::Duration(0)) return;  // its Inbox may write its times still
  const msg::Timeline& t = call.times;
  record.times.queued = t.queued, record.times.started = t.started, record.times.computing = t.computing;
  record.times.computed = t.started == base::kNever ? base::kNever : t.started + spent.compute;
}
// At a Call's last Event.
inline void note(wire::RequestRecord& record, const msg::Call& call) {
  note(record, call, spent(call));
  trace(record, call);
}
// For a Call that its Inbox still has, after its first Event.
inline void note(wire::RequestRecord& record, const msg::Call& call, base::Time now) {
  note(record, call, spent(call.times, now));
  trace(record, call, now);
}

}  // namespace weir::marshal
