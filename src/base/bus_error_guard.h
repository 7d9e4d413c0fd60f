// BusErrorGuard: the server survives SIGBUS in a mapping whose object has been cut short, or cannot be read.
//
// A tensor may be a part of a client's shared memory object, and the weights of a model that is being loaded are a
// file; both are mapped. Their owner can shrink them at any time, and a network file system can fail; whichever thread
// touches a page that has gone (a shard, a lane, a thread of an engine's library) gets SIGBUS, and no check beforehand
// can rule that out. The handler finds the mapping in a table without locks and puts zeroed private pages in the place
// of all that lies behind the fault. The instruction runs again, on whichever thread, and the mapping counts as lost
// from then on: who used it asks lost() afterwards and answers with an error.
//
// Shared memory could be copied by pread() and pwrite() instead, which fail and do not fault. Both take 1.8 times as
// long as a copy from or to the mapping (64 MiB on two cores), and a mapped tensor that is not copied at all costs 1 µs
// whatever its size. So regions are mapped, and by pread() comes only what must be a copy anyway (shared_region.h).
//
// The handler is installed with the first guard and stays. Faults elsewhere get the action that was there before.
#pragma once

#include <cstddef>

namespace weir::base {

struct GuardedMapping;

class BusErrorGuard {
 public:
  static constexpr size_t kMost = 4096;  // mappings at once

  // Guards a mapping that begins at a page. It must be unmapped after the guard has gone, and used by nobody then.
  BusErrorGuard(void* begin, size_t bytes);
  ~BusErrorGuard();
  BusErrorGuard(const BusErrorGuard&) = delete;

  // False: kMost mappings are guarded already, and this one is not.
  explicit operator bool() const { return slot_ != nullptr; }
  // A page of it was gone when somebody touched it: what was read since may be zeros, what was written is nobody's. Any
  // thread.
  bool lost() const;

 private:
  GuardedMapping* slot_ = nullptr;
};

}  // namespace weir::base
