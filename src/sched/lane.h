// The Inboxes that stand in front of engines: lanes with their own threads, and the inline one.
//
// make_lanes() starts one thread per Engine; they share one queue. Arrivals wait in a Batcher (sched/batcher.h), a pure
// class that says which rows run together; Staging copies rows once into a batch-shaped slab (a batch of one call is
// not copied at all); results are slices of the engine's outputs, posted once per home shard and batch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/deadline_timer.h"
#include "sched/engine.h"

namespace weir::sched {

// `spec` and `stats` outlive the Inbox; `slabs` provides staging memory. The Inbox's destructor finishes what is
// queued, then joins; no Call may arrive meanwhile. A Call whose time in the queue is over while all engines work is
// answered by `deadline_timer`'s thread; null: the lanes have a deadline timer of their own. Several of these may
// serve parts of a model's instances; the engines are numbered from `first_instance` on.
std::unique_ptr<msg::Inbox> make_lanes(std::vector<std::unique_ptr<Engine>> engines, const msg::ModelSpec& spec,
                                       bus::ModelStats& stats, base::SlabSource& slabs,
                                       std::shared_ptr<DeadlineTimer> deadline_timer = nullptr,
                                       uint32_t first_instance = 0);

// Steps the engine on the Call's home shard, one Call at a time.
std::unique_ptr<msg::Inbox> make_inline(std::unique_ptr<Engine> engine, const msg::ModelSpec& spec,
                                        bus::ModelStats& stats);

}  // namespace weir::sched
