// The two descriptions of a model of sequences: as its clients see it, and as its lanes do, which stand behind the
// Inbox of sched/sequence_inbox.h.
#pragma once

#include "base/status.h"
#include "msg/sequence.h"
#include "msg/spec.h"

namespace weir::sched {

// `whole` as its clients see it: without the inputs and outputs that the server handles. Errors: INVALID_ARGUMENT for a
// control or a state that does not fit the model.
base::Result<msg::ModelSpec> without_sequence_tensors(const msg::ModelSpec& whole, const msg::SequenceSpec& sequences);

// How requests of different sequences share batches: the rules of `sequences` go into `spec`, which the lanes serve.
// With slots of their own (kDirect) a batch runs as soon as the share of minimum_utilization of them has a request, or
// one of them where it is 0.
void share_batches(msg::ModelSpec& spec, const msg::SequenceSpec& sequences);

// Moves the rules of the queue from `spec`, which the lanes serve, to `sequences`: they are about sequences that wait
// for a slot. Behind the slots there is one request of each sequence; no queue is full there, and none times out.
void wait_for_slots(msg::ModelSpec& spec, msg::SequenceSpec& sequences);

}  // namespace weir::sched
