// SessionMemory: the bytes that one session keeps, in its nodes and beside them. They are limited for the session, and
// reserved in the quota that all sessions share.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "session/byte_quota.h"

namespace weir::evergreen {

// The charge for bytes that several may keep: it is given back when the last of them lets go. Dies before the
// SessionMemory.
using Hold = std::shared_ptr<const void>;

class SessionMemory {
 public:
  // `reservation` (null: none) outlives this.
  explicit SessionMemory(uint64_t limit, session::Reservation* reservation = nullptr)
      : limit_(limit), reservation_(reservation) {}

  // Errors: RESOURCE_EXHAUSTED, and nothing changes.
  base::Status take(uint64_t bytes);
  void give(uint64_t bytes);
  // `now` bytes where it was `before`. Errors: as take().
  base::Status resize(uint64_t before, uint64_t now);
  // Bytes that have been taken become the Hold's.
  Hold share(uint64_t bytes);

  uint64_t used() const { return used_; }
  uint64_t limit() const { return limit_; }
  bool has_room_for(uint64_t bytes) const { return bytes <= limit_ && used_ <= limit_ - bytes; }

 private:
  const uint64_t limit_;
  session::Reservation* const reservation_;
  uint64_t used_ = 0;
};

}  // namespace weir::evergreen
