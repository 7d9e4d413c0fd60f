// Where the calling thread runs, and how soon after it was woken.
#pragma once

namespace weir::net {

// Keeps it on the n-th of the cores that this process may use, counted round.
void pin_to_core(unsigned n);

// Lets it run as soon as it is woken, though a thread that computes has its core: of threads that are entitled alike
// the kernel takes the one whose slices are shorter (sched_setattr(2), sched_runtime; Linux 6.12 and later, older ones
// have slices of some milliseconds for all). Policy and niceness stay. The price: it gives way as soon itself.
void ask_for_short_slices();

}  // namespace weir::net
