// CallHandle: a dialect's hold on the Call that it makes for a request. Whatever becomes of the request, the Call is
// given back in the way that it can be: unsent, abandoned, or not at all, when its last Event has been heard. On the
// shard.
#pragma once

#include <cstdint>
#include <memory>

#include "bus/bus.h"

namespace weir::bus {

class CallHandle {
 public:
  explicit CallHandle(Bus& bus) : bus_(bus) {}
  ~CallHandle() { leave(); }
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;

  // The Call to fill: made when it is first asked for, and not to be touched once it is submitted.
  msg::Call& fill();
  // Lends it. Errors: those of Bus::submit(); then it is as it was, for whoever wants to look at it, until leave().
  base::Status submit(Served& served, msg::Sink& sink, base::Ticket ticket);
  // Lends a task instead (Bus::send()); when it has ended there may be a Call.
  base::Status send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, msg::Sink& sink,
                    base::Ticket ticket, uint64_t tenant, Admission admission = Admission::kAsked);
  // To be told of every Event, first thing in Sink::on(): the last one makes the Call the Bus's again. Returns whether
  // it was.
  bool ended(const msg::Event& event);

  // Nothing more is heard.
  void leave();
  // The same, because what has been heard is all that was wanted.
  void enough();
  // The peer has drained these; nothing, when nothing is under way.
  void add_credit(int32_t events);
  bool running() const { return state_ == State::kRunning; }

 private:
  enum class State : uint8_t { kNone, kFilling, kRunning };

  Bus& bus_;
  msg::Call* call_ = nullptr;
  State state_ = State::kNone;
};

}  // namespace weir::bus
