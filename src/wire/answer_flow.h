// How an Exchange and its ExchangeListener account for the memory of an answer.
//
// An answer's memory is its backlog (what the socket has not taken), the request body that the Exchange keeps, and what
// its ExchangeListener still makes it from. Pieces that lie outside of slabs are charged to the ledger of the codec's
// SlabSource; where memory is scarce, the rate at which a peer must take its answer follows from the sum
// (drain_floor()).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/memory_ledger.h"
#include "wire/exchange.h"
#include "wire/guard.h"
#include "wire/limits.h"

namespace weir::wire {

// Charges the pieces of an answer that are too small to be charged one by one, in steps of 64 KiB: a
// stream of events that nobody reads. The first step is free.
class SmallPieces {
 public:
  // One more piece of an answer. False: there is no room.
  bool add(base::MemoryLedger* memory, size_t bytes) {
    bytes_ += bytes;
    return bytes_ < charge_.bytes() + kStep || follow(memory);
  }
  // No more than `backlog` can be left of them.
  void fit(size_t backlog) {
    if (backlog >= bytes_) return;
    bytes_ = backlog;
    if (charge_.bytes() > 0) (void)follow(nullptr);
  }

 private:
  static constexpr uint64_t kStep = 64 << 10;
  bool follow(base::MemoryLedger* memory);

  uint64_t bytes_ = 0;
  base::MemoryCharge charge_;
};

// Charges a piece of an answer that has begun. False: there is no room, and it is too large (64 KiB) to go out all the
// same; the answer cannot go on.
bool charge_piece(base::MemoryLedger* memory, base::Bytes& piece, SmallPieces& small);

// Bytes that are held until the peer has its answer.
uint64_t held_for_answer(Exchange& exchange);

// Room for an answer outside of slabs while it is made, where its size can be told beforehand; less than 64 KiB is not
// asked for. It ends with this.
class AnswerReservation {
 public:
  explicit AnswerReservation(Exchange& exchange) : exchange_(exchange) {}
  // For `most` bytes at most. False: there is none, and the answer must not be made.
  bool take(uint64_t most);
  // The room becomes the charge for what has been made. False: that has no room.
  bool settle(base::Bytes& made);

 private:
  Exchange& exchange_;
  base::MemoryLedger* memory_ = nullptr;
  base::MemoryCharge charge_;
};
base::Status no_room_for_answer();  // base::overloaded()

// Limits::min_drain_rate per Limits::grace, with kDrainCredit; where memory is scarce, `held` bytes in a minute, looked
// at every two seconds, without credit.
DrainFloor drain_floor(const Limits& limits, uint64_t held, const base::SlabSource& slabs);

// An answer's text that is made while the peer takes it.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // Appends to `out` until that has `target` bytes or more (not many more), or nothing is left. False: nothing is.
  virtual bool write(std::string& out, size_t target) = 0;
  virtual uint64_t held() const = 0;  // bytes of what the text is made from
};

// Writes a TextSource into an Exchange: what fits 1 MiB as one respond(), with a Content-Length; more in pieces, each
// made when the peer has taken those before it. A slow reader holds little more than what the text is made from. The
// ExchangeListener that owns it calls drained() from its on_drain(). One Exchange, one use.
class PiecewiseAnswer final {
 public:
  explicit PiecewiseAnswer(Exchange& exchange) : exchange_(exchange) {}
  // 200. Errors: no_room_for_answer(), and nothing has been sent. `compress`: of what fits one respond().
  base::Status start(std::string_view content_type, Exchange::Compress compress, std::unique_ptr<TextSource> source);
  void drained() { pump(); }
  uint64_t held() const { return source_ ? source_->held() : 0; }

 private:
  void pump();

  Exchange& exchange_;
  std::unique_ptr<TextSource> source_;  // null: all has been written
};

}  // namespace weir::wire
