// SessionMemory: the bytes that one session keeps, in its nodes and beside them. They are limited for the session, and
// reserved in the quota that all sessions share.
#pragma once

#include <cstdint>
#include <functional>
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

  // `elsewhere`: of these bytes, those in memory that is charged already, as that of a slab is; give() and share() name
  // the same. Errors: RESOURCE_EXHAUSTED, and nothing changes, save that no spare bytes are left.
  base::Status take(uint64_t bytes, uint64_t elsewhere = 0);
  void give(uint64_t bytes, uint64_t elsewhere = 0);
  // `now` bytes where it was `before`. Errors: as take().
  base::Status resize(uint64_t before, uint64_t now);
  // Bytes that have been taken become the Hold's.
  Hold share(uint64_t bytes, uint64_t elsewhere = 0);

  // Bytes that the session can do without. They count as room for all others, but not for more of their kind. Errors:
  // as take().
  base::Status take_spare(uint64_t bytes);
  void give_spare(uint64_t bytes);
  uint64_t spare() const { return spare_; }
  // Gives all spare bytes back. Called where take() needs them.
  std::function<void()> on_shortage;

  uint64_t used() const { return used_ - spare_; }  // without spare bytes
  uint64_t limit() const { return limit_; }
  bool has_room_for(uint64_t bytes) const { return bytes <= limit_ && used() <= limit_ - bytes; }

 private:
  base::Status try_take(uint64_t bytes, uint64_t elsewhere);

  const uint64_t limit_;
  session::Reservation* const reservation_;
  uint64_t used_ = 0, spare_ = 0, elsewhere_ = 0;  // the others: of used
};

}  // namespace weir::evergreen
