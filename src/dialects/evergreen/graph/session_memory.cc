#include "dialects/evergreen/graph/session_memory.h"

#include <string>

namespace weir::evergreen {

base::Status SessionMemory::try_take(uint64_t bytes, uint64_t elsewhere) {
  if (bytes > limit_ || used_ > limit_ - bytes)
    return base::failure(base::Code::kResourceExhausted,
                         "the session's content passes " + std::to_string(limit_) + " bytes");
  if (reservation_)
    if (base::Status s = reservation_->hold({used_ + bytes, used_ + bytes - elsewhere_ - elsewhere}); !s.ok()) return s;
  used_ += bytes, elsewhere_ += elsewhere;
  return {};
}

base::Status SessionMemory::take(uint64_t bytes, uint64_t elsewhere) {
  base::Status s = try_take(bytes, elsewhere);
  if (s.ok() || spare_ == 0 || !on_shortage) return s;
  on_shortage();
  return try_take(bytes, elsewhere);
}

base::Status SessionMemory::take_spare(uint64_t bytes) {
  base::Status s = try_take(bytes, 0);
  if (s.ok()) spare_ += bytes;
  return s;
}

void SessionMemory::give_spare(uint64_t bytes) {
  spare_ -= bytes;
  give(bytes);
}

void SessionMemory::give(uint64_t bytes, uint64_t elsewhere) {
  used_ -= bytes, elsewhere_ -= elsewhere;
  if (reservation_) (void)reservation_->hold({used_, used_ - elsewhere_});
}

base::Status SessionMemory::resize(uint64_t before, uint64_t now) {
  if (now > before) return take(now - before);
  give(before - now);
  return {};
}

Hold SessionMemory::share(uint64_t bytes, uint64_t elsewhere) {
  struct Shared {
    Shared(SessionMemory& from, uint64_t size, uint64_t charged) : memory(from), bytes(size), elsewhere(charged) {}
    ~Shared() { memory.give(bytes, elsewhere); }
    Shared(const Shared&) = delete;

    SessionMemory& memory;
    const uint64_t bytes, elsewhere;
  };
  return std::make_shared<const Shared>(*this, bytes, elsewhere);
}

}  // namespace weir::evergreen
