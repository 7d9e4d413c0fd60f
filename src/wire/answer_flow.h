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
#include "wire/limits.h"
#include "wire/rate_floor.h"

namespace weir::wire {

// Charges the small pieces of an answer together, in steps of 64 KiB, since each is too small to be charged by itself:
// a stream of events that its client does not read. The first step is free.
class SmallPieces {
 public:
  // Counts one more piece of `bytes`. False: there is no memory for it.
  bool add(base::MemoryLedger* memory, size_t bytes) {
    bytes_ += bytes;
    return bytes_ < charge_.bytes() + kStep || follow(memory);
  }
  // Gives back the charge for pieces that have gone: no more than `backlog` bytes can be left of them.
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

// Charges a piece of an answer that has begun. False: there is no memory for it, and it is too large (above 64 KiB) to
// be sent without a charge; the answer cannot go on.
bool charge_piece(base::MemoryLedger* memory, base::Bytes& piece, SmallPieces& small);

// The bytes that the Exchange holds until the peer has its answer.
uint64_t held_for_answer(Exchange& exchange);

// Reserves memory for an answer while it is made outside of slabs, where its size has a known bound. Answers of up to
// 64 KiB need no reservation. The destructor gives it back.
class AnswerReservation {
 public:
  explicit AnswerReservation(Exchange& exchange) : exchange_(exchange) {}
  // Reserves `most` bytes. False: there is no memory, and the answer must not be made.
  bool take(uint64_t most);
  // Replaces the reservation by a charge that `made` carries. False: there is no memory for it.
  bool settle(base::Bytes& made);

 private:
  Exchange& exchange_;
  base::MemoryLedger* memory_ = nullptr;
  base::MemoryCharge charge_;
};
base::Status no_room_for_answer();  // base::overloaded()

// The rate at which a peer must take its answer: Limits::min_drain_rate over each Limits::grace, with kDrainCredit.
// Where memory is scarce: enough for `held` bytes in a minute, checked every two seconds, without credit.
DrainFloor drain_floor(const Limits& limits, uint64_t held, const base::SlabSource& slabs);

// An answer's text that is made while the peer takes it.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // Appends to `out` until that has `target` bytes, or a few more, or the text ends. False: the text has ended.
  virtual bool write(std::string& out, size_t target) = 0;
  virtual uint64_t held() const = 0;  // bytes of the data that the text is made from
};

// Writes a TextSource into an Exchange: a text of up to 1 MiB by one respond(), with a Content-Length, a longer one in
// pieces, each made once the peer has taken the ones before it. So a slow reader holds little more memory than the data
// of the text. The ExchangeListener that owns this calls drained() from its on_drain(). One Exchange, one use.
class PiecewiseAnswer final {
 public:
  explicit PiecewiseAnswer(Exchange& exchange) : exchange_(exchange) {}
  // Answers 200; if the head is out, goes on behind it. `compress` applies to a text that goes out by one respond().
  // Errors: no_room_for_answer(), and nothing has been sent.
  base::Status start(std::string_view content_type, Exchange::Compress compress, std::unique_ptr<TextSource> source);
  void drained() { pump(); }
  uint64_t held() const { return source_ ? source_->held() : 0; }
  // The Exchange has all of the text: the data that it was made from is needed no more.
  bool written() const { return !source_; }

 private:
  void pump();

  Exchange& exchange_;
  std::unique_ptr<TextSource> source_;  // null: all has been written
};

}  // namespace weir::wire
