// H2StreamTable: the Exchanges of one HTTP/2 connection, from the first frame of a request until nothing refers to the
// Exchange any more. It keeps those that are over for the next requests, with the memory of their strings, and charges
// that memory and the heads of requests.
//
// An Exchange ends in two steps. close() notes that it is over; settle() tells the ExchangeListener and the Intake,
// outside of the calls that handle frames, for they may call back.
#pragma once

#include <memory>
#include <vector>

#include "base/stepped_charge.h"
#include "wire/h2_connection.h"
#include "wire/h2_exchange.h"

namespace weir::wire {

class H2StreamTable final : public H2Streams {
 public:
  explicit H2StreamTable(H2Connection& connection);

  // H2Streams
  void touch(H2Exchange& x) override;
  void consume(H2Exchange& x, size_t n) override;
  void expect(H2Exchange& x, size_t n) override;
  void released(H2Exchange& x) override { sweep_.push_back(&x); }
  base::Time now() const override { return connection_.wire.now(); }
  base::MemoryLedger* memory() const override { return connection_.memory; }
  BodyStarts* starts() const override { return connection_.env.starts; }

  // Whether another request is refused. May settle().
  bool full();
  // A request begins on `stream`, which opens.
  H2Exchange& open(int32_t stream);
  // Charges bytes of a request's head. False: there is no room, now or before; the request is to be refused.
  bool charge_head(H2Exchange& x, size_t bytes);

  // The charge for heads of requests, and for what is kept of them for the next ones.
  base::SteppedCharge& heads() { return heads_; }

  // Both ends of its stream are closed.
  void end_stream(H2Exchange& x);
  // Resets its stream, which is open. It counts against the peer, but where the service asked for it.
  void reset(H2Exchange& x, uint32_t code);
  void close(H2Exchange& x, bool complete);
  // Streams that can no longer complete end; a response that is whole in the output may still go out.
  void close_unfinished();
  // The socket is gone: everything ends.
  void close_all();
  // The request or its answer is too slow: its stream is reset.
  void cut_off(H2Exchange& x, std::string_view why);

  // Calls ExchangeListener::on_drain at the next settle().
  void drain_later(H2Exchange& x) { drained_.push_back(&x); }
  // The next settle() looks whether anything still refers to it.
  void sweep_later(H2Exchange& x) { sweep_.push_back(&x); }
  void settle();
  // Gives kept memory back while no request is there.
  void drop_spares();
  // The connection is gone. What Tickets still hold deletes itself.
  void release_all();

  const std::vector<std::unique_ptr<H2Exchange>>& live() const { return live_; }
  size_t serving() const { return serving_; }
  base::Time idle_since() const { return idle_since_; }
  // Exchanges that have something to say, in the order in which they did; the sender empties it.
  std::vector<H2Exchange*>& touched() { return touched_; }
  bool has_touched() const { return !touched_.empty(); }

 private:
  void sweep();
  void keep_spare(std::unique_ptr<H2Exchange> x);

  H2Connection& connection_;
  base::SteppedCharge heads_;  // of requests, and what is kept for the next ones
  std::vector<std::unique_ptr<H2Exchange>> live_, spare_;
  std::vector<std::unique_ptr<H2Exchange>> dropped_;  // in sweep(): there is no room to keep them
  size_t serving_ = 0;                                // live, and not yet closed
  bool served_ = false;                               // an Exchange is over
  std::vector<H2Exchange*> touched_, over_, drained_, sweep_;
  base::Time idle_since_;
};

}  // namespace weir::wire
