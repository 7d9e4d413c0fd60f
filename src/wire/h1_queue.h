// H1Queue: the pipelined requests of one HTTP/1 connection, in the order in which they came. The first one that has not
// ended has the turn: it alone writes into the output, the ones behind it hold their answers.
//
//   [ended, on its way] … [has the turn] [waits] … [is being read]
#pragma once

#include <memory>
#include <vector>

#include "wire/h1_connection.h"
#include "wire/h1_exchange.h"

namespace weir::wire {

class H1Reader;

class H1Queue {
 public:
  H1Queue(H1Connection& connection, H1Reader& reader) : connection_(connection), reader_(reader) {}

  H1Connection& connection() { return connection_; }
  H1Reader& reader() { return reader_; }

  H1Exchange& add();
  // For what never became a request: it is answered in its place, and nothing of it is read.
  H1Exchange& add_refused();
  // The length of the head at the front of `bytes`, where the Exchange that add() would give knows it; else 0.
  size_t knows(std::string_view bytes) const { return spare_.empty() ? 0 : spare_.back()->knows(bytes); }
  // The one that had the turn may have ended: the next one writes. The last one ends the connection.
  void pass_turn();
  // The socket has taken a part of the output: exchanges whose answer is gone are over, the others may be told of room.
  void output_taken();
  // No answer is owed any more to those behind the first `n`.
  void close_from(size_t first);
  // The peer reads no more: exchanges that have not ended are closed, responses that are being sent stay.
  void close_unanswered() { close_from(ended_); }

  bool empty() const { return queue_.empty(); }
  bool full() const { return queue_.size() >= connection_.env.limits.pipelined; }
  bool all_ended() const { return ended_ == queue_.size(); }
  H1Exchange& front() { return *queue_.front(); }
  H1Exchange& back() { return *queue_.back(); }
  uint64_t held_for_answers() const;
  void drop_spares() { spare_.clear(); }

 private:
  void close(std::unique_ptr<H1Exchange> x, bool complete);

  H1Connection& connection_;
  H1Reader& reader_;
  std::vector<std::unique_ptr<H1Exchange>> queue_, spare_;
  uint32_t ended_ = 0;   // queue_[0, ended_) have ended; queue_[ended_] has the turn
  bool served_ = false;  // an exchange has been closed
};

}  // namespace weir::wire
