// Work: a piece of work on the journal that was posted to its thread (store.h), and what is to be told of it.
#pragma once

#include <functional>

#include "base/status.h"
#include "jobs/journal.h"

namespace weir::jobs {

struct Work {
  enum class Admission : uint8_t { kAsked, kGranted };

  // May be called again, where others have changed meanwhile what it is about: it leaves what it has captured as it is.
  // Not OK: nothing was written, and it is tried again later if it was granted.
  std::function<base::Status(Storage&)> run;
  // Its writes are there for good, or not (OK too where there were none). Null: nobody asks.
  std::function<void(const base::Status&)> then;
  Admission admission = Admission::kAsked;
  unsigned tries = 0;
};

// Something that goes on by itself, on the store's thread.
class Duty {
 public:
  // One slice, of some milliseconds. True: there is more to do at once. Looked at again after every piece of work, and
  // every second.
  virtual base::Result<bool> step(Storage& storage, base::WallTime now) = 0;
  // The last steps have written nothing after all, or another node has gone on since: all that is remembered of them is
  // worth nothing.
  virtual void begin_anew() {}

 protected:
  ~Duty() = default;
};

}  // namespace weir::jobs
