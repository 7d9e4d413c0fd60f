// CallHandle owns the Call of a request from its making to its last Event.
//
// A Call ends when its last Event arrives, or before that in one of two ways: finish(), the client has what it wanted
// and the engine stops without an error; abandon(), nobody waits for the answer. After either the Sink is not called.
//
// Credit: the engine of a stream may be a window of Events ahead of the peer, and of their bytes (msg/credit.h). The
// Sink owe()s each Event that it has passed on, in their order, and repay()s while the peer has room. On the shard.
#pragma once

#include <cstdint>
#include <vector>

#include "bus/bus.h"

namespace weir::bus {

// Credit windows, in Events, of which a large one counts as several.
inline constexpr int32_t kAnswerWindow = 64;  // answers, and tokens of which each is a message of its own
inline constexpr int32_t kTokenWindow = 256;  // tokens that become text

class CallHandle {
 public:
  explicit CallHandle(Bus& bus) : bus_(bus) {}
  ~CallHandle() { abandon(); }
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;

  // The Call to fill: made by the first call, not to be changed after submit().
  msg::Call& fill();
  // Opens a credit window, before submit(). A Call without one may have any number of Events under way.
  void grant(int32_t window);
  // Lends the Call. Errors: those of Bus::submit(); then the Call can still be read, until abandon().
  base::Status submit(Served& served, msg::Sink& sink, base::Ticket ticket);
  // Sink::on() calls this first, for every Event: keeps Call::progress. Returns whether it was the last: then the Call
  // is the Bus's again.
  bool on_event(const msg::Event& event);
  bool running() const { return state_ == State::kRunning; }

  // One more Event is on its way to the peer.
  void owe();
  // The peer has room: gives the engine credit for what is owed. Nothing happens before a quarter of the window is
  // owed, since credit may wake the engine, nor when no Call runs.
  void repay();

  void finish();
  void abandon();
  // Asks the engine to stop; the Sink still gets the Call's Events up to the last. For a Sink that has lent memory to
  // the Call and must know when the engine has let go of it (Bus::cancel).
  void cancel();

 private:
  enum class State : uint8_t { kNone, kFilling, kRunning };
  void follow(const msg::Event& event);

  Bus& bus_;
  msg::Call* call_ = nullptr;
  State state_ = State::kNone;
  int32_t owed_ = 0;
  int32_t window_ = 0;          // 0: none
  std::vector<int32_t> costs_;  // of answers that have come and are not owed yet, the oldest first
};

// INTERNAL: the model has ended a Call and given no answer to it.
base::Status no_answer();

}  // namespace weir::bus
