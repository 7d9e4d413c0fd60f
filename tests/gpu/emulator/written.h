// Which buffers kernels have written, so that a thread that begins early and reads one of them before it has waited for
// its inputs is found: there the kernel before may still be at work.
//
// By protecting pages: a buffer can be written in a launch once the first attempt was noticed, and cannot be touched at
// all while it is hidden. Not with AddressSanitizer, which wants the faults for itself.
#pragma once

#include "support/sanitizers.h"

namespace emulator {

#if defined(WEIR_ASAN)
constexpr bool kFindsFaults = false;  // and what follows does nothing
#else
constexpr bool kFindsFaults = true;
#endif

// Before the blocks of a launch, by the thread that runs it; until end_watch() its faults are that launch's.
void begin_watch();
void end_watch();
// Buffers that some kernel has written, this one or an earlier one.
void hide_written();
void show_written();

// In the handler of a fault. kElsewhere: no buffer of a device is there. kGoesOn: it can be touched now.
enum class Touch : unsigned char { kElsewhere, kGoesOn, kHidden };
Touch on_fault(const void* address);

}  // namespace emulator
