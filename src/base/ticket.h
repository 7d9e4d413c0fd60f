// Ticket: "work for this goes on". Whoever hands out Tickets counts what is being done on its behalf, also after it has
// been told that nobody wants the result any more; an HTTP/2 connection takes no new request while its peer's cancelled
// ones still keep engines busy (RFC 9113 counts open streams only, which a peer can reset faster than work stops).
//
// One thread: the holder gives the Ticket back (destroys it) on the thread that took it out.
#pragma once

#include <cstdint>
#include <utility>

namespace weir::base {

class Ticketed {
 public:
  uint32_t tickets() const { return tickets_; }

 protected:
  ~Ticketed() = default;
  virtual void ticket_back() = 0;  // the last Ticket has come back; may delete this

 private:
  friend class Ticket;
  uint32_t tickets_ = 0;
};

class Ticket {
 public:
  Ticket() = default;
  explicit Ticket(Ticketed& owner) : owner_(&owner) { ++owner.tickets_; }
  Ticket(Ticket&& o) noexcept : owner_(std::exchange(o.owner_, nullptr)) {}
  Ticket& operator=(Ticket&& o) noexcept {
    Ticket old(std::move(*this));
    owner_ = std::exchange(o.owner_, nullptr);
    return *this;
  }
  ~Ticket() {
    if (owner_ && --owner_->tickets_ == 0) owner_->ticket_back();
  }

 private:
  Ticketed* owner_ = nullptr;
};

}  // namespace weir::base
