// The Inbox of a model that takes part in sequences. It stands in front of the model's lanes, gives each Call the
// inputs that clients do not see (controls, and the state that the sequence's last request has left), takes the new
// state out of its outputs, and lets requests of one sequence in one at a time: sched/sequence_batcher.h has the rules.
//
// A request that is cancelled or refused ends its sequence, since those behind it count on it: so does one whose
// deadline passes before it runs, and one for which a queue has no room. A request that the model fails, with whatever
// code, leaves the state as it was, and the sequence goes on. States are charged to the memory ledger (kSessions); a
// request for whose state there is no room is refused.
//
// Only requests of sequences that wait for a slot time out, and with one of them its sequence. Their time counts from
// their arrival, also where an earlier sequence of the same id came first. Once a sequence has its slot, its requests
// wait for as long as it takes.
#pragma once

#include <memory>
#include <vector>

#include "base/client.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/sequence.h"
#include "msg/spec.h"
#include "sched/deadline_timer.h"

namespace weir::sched {

inline constexpr uint32_t kDefaultCandidates = 256;  // sequences of `oldest` at once, where nothing is said
inline constexpr uint32_t kMostCandidates = 65536;   // that can be asked for
inline constexpr size_t kMaxCorrelationId = 128;     // bytes of a string, as Triton has it

// Each of `inner` serves `whole`, whose rules of the queue `sequences` has (sched/sequence_spec.h). There is one, or
// one for each instance of a model that keeps states in its instances (Engine::keeps_states()): all requests of a
// sequence go to the same one then. `stats` and the ledger outlive the Inbox; a null ledger has always room. `share` is
// what one tenant may hold of the slots. `deadline_timer` null: one of its own.
std::unique_ptr<msg::Inbox> with_sequences(std::vector<std::unique_ptr<msg::Inbox>> inner,
                                           std::shared_ptr<const msg::ModelSpec> whole,
                                           std::shared_ptr<const msg::SequenceSpec> sequences, bus::ModelStats& stats,
                                           base::MemoryLedger* ledger, base::ShareRule share = {},
                                           std::shared_ptr<DeadlineTimer> deadline_timer = nullptr);

}  // namespace weir::sched
