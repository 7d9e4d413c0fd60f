// CPU affinity and scheduling of the calling thread.
#pragma once

namespace weir::net {

// Pins the calling thread to the n-th of the cores that this process may use, modulo their number.
void pin_to_core(unsigned n);

// Asks the kernel for short time slices (sched_setattr(2), sched_runtime; Linux 6.12 and later), so that the calling
// thread preempts a thread that computes on its core as soon as it is woken; in turn it is preempted as soon.
// Scheduling policy and niceness stay as they are. On older kernels it does nothing.
void ask_for_short_slices();

}  // namespace weir::net
