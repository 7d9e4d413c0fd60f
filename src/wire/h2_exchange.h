// H2Exchange: the Exchange of one HTTP/2 stream. The functions that services call only record what is to be sent and
// what was consumed. The session makes frames of it when it gathers output, so that the answers of one turn go out in
// one write. A connection keeps its H2Exchanges, with the memory of their strings, for later streams.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/recycled.h"
#include "base/ticket.h"
#include "wire/answer_flow.h"
#include "wire/byte_charge.h"
#include "wire/exchange.h"
#include "wire/fifo.h"
#include "wire/guard.h"
#include "wire/h2_block_cache.h"
#include "wire/h2_head_cache.h"
#include "wire/h2_receive_window.h"
#include "wire/request_body.h"

namespace weir::wire {

class BodyStarts;
class H2Exchange;

// The functions of the connection that its Exchanges call.
class H2Streams {
 public:
  virtual void touch(H2Exchange& exchange) = 0;  // `out` has something to send
  virtual void consume(H2Exchange& exchange, size_t n) = 0;
  virtual void expect(H2Exchange& exchange, size_t n) = 0;
  virtual void released(H2Exchange& exchange) = 0;  // the last Ticket came back
  virtual base::Time now() const = 0;
  virtual base::MemoryLedger* memory() const = 0;  // or null
  virtual BodyStarts* starts() const = 0;          // or null

 protected:
  ~H2Streams() = default;
};

class H2Exchange final : public Exchange, public PlainGrpc, public base::Ticketed, public base::Recycled<H2Exchange> {
 public:
  H2Exchange() { plain_grpc = this; }
  void head(Response response) override;
  void body(base::Bytes piece) override;
  void end(Fields trailers) override;
  void head_of_grpc() override;
  void end_of_grpc() override;
  void reset(Reset why) override;
  bool responding() const override { return out.started; }
  size_t backlog() const override { return out.backlog; }
  void consume(size_t n) override;
  void expect(size_t n) override;
  base::Time now() const override { return streams_ ? streams_->now() : record_.began; }
  base::Ticket ticket() override { return base::Ticket(*this); }
  base::MemoryLedger* memory() override { return streams_ ? streams_->memory() : nullptr; }
  void call_on_drain() override { out.above = true; }

  // The session calls all that follows.
  void open(H2Streams& streams, int32_t stream, const PeerInfo& peer);
  // The request's head is one that its connection knows. True: it is the last one of this Exchange, which is still
  // there.
  bool repeat(const H2HeadCache::Head& head);
  // The request has a head of its own: nothing is left of one that was kept.
  void forget_head();
  // Forgets the request and the response, but for a head that the connection knows; keeps capacities, but not large
  // ones.
  void recycle();
  // Bytes that it holds between two requests: its own size, its place among the streams, and the capacities kept.
  uint64_t kept() const;
  static const uint64_t kOwnCost;
  // The connection is gone while Tickets are out: the last one to come back deletes this.
  void orphan() { streams_ = nullptr, pace = nullptr; }
  void ticket_back() override;
  using Exchange::name_client;

  int32_t stream() const { return stream_; }
  Request& mutable_request() { return request_; }
  void set_content(base::Bytes content) { content_ = std::move(content); }
  Fields& add_extra_fields() { return extra_fields_; }
  // Tells the ExchangeListener that the exchange is over, and destroys it.
  void close_reader();
  // Drops what has not been sent.
  void abandon_output();
  bool is_head() const { return request_.method == "HEAD"; }

  // The state of the stream: RFC 9113 §5, RFC 9218.
  struct Flow {
    int64_t window = 0;  // bytes that the peer takes of the answer
    H2ReceiveWindow receive;
    uint32_t urgency = 3;
    uint64_t turned = 0;  // of its last turn, for H2Turns
    bool incremental = false;
    bool queued = false;  // it waits for its turn to send
    bool whole = false;   // the peer has closed its end
  } flow;

  struct In {
    HeaderBudget budget;
    bool grpc = false, coded = false, expects_continue = false;
    bool no_memory = false;  // the head is not complete: there was no memory for it
    bool ended = false;      // END_STREAM has arrived
    bool discard = false;    // nobody reads the body (any more): it is dropped
    bool stalled = false;    // request_body waits for a slab
    Plan plan;
    size_t unconsumed = 0;  // received bytes for which the peer has had no WINDOW_UPDATE
    bool wide = false;      // its window is wider than usual
    RateFloor floor;
    base::Time moved = base::kNever;  // when the last byte of a body came or went
  } in;
  std::string cookie, host;  // of the head that is arriving: crumbs joined; the Host field
  RequestBody request_body;  // the request's, where the plan is to have it whole

  struct OutState {
    bool grpc_head = false, grpc_end = false;  // head and trailers are those of head_of_grpc() and end_of_grpc()
    bool started = false, ended = false, bodiless = false;
    bool submitted = false;  // the head is in the output
    bool finished = false;   // END_STREAM is in the output
    bool above = false;      // the backlog has been above the low-water mark
    std::array<char, 3> status{};
    size_t tail_room = 0;  // bytes free behind the queue's last piece, in a slab that only this writes to
    size_t front_at = 0;   // bytes of the queue's front that are sent
    size_t queued = 0;     // bytes in the queue
    size_t backlog = 0;    // the same and those that the socket has not taken
    base::Time finished_at = base::kNever;  // since when, if the request has not ended
    uint64_t behind = 0;                    // bytes of the request that came behind it
    std::optional<Reset> reset;
    RateFloor floor;
  };
  struct Out : OutState {
    Response response;
    Fields trailers;
    Fifo<base::Bytes> queue;
    SmallPieces small;

    bool has_trailers() const { return grpc_end || trailers.size() > 0; }
    // Capacities of the queue are kept.
    void clear() {
      if (!grpc_head && started) response = {};
      if (trailers.size() > 0) trailers = {};
      queue.clear();
      small = {};
      static_cast<OutState&>(*this) = {};
    }
  } out;
  ByteCharge usage;

  bool open_stream = false;  // an end of the stream is open
  bool begun = false;        // the Intake has seen it
  bool asked_reset = false;  // the service asked for the reset: it does not count against the peer
  bool over = false;         // queued to be closed, or closed
  bool closed = false;       // the ExchangeListener and the Intake have been told
  bool complete = false;
  bool touched = false;  // in the session's list
  uint32_t marks = 0;    // positions in the connection's output that refer to this
  size_t index = 0;      // in the session's list of live ones
  uint64_t charged = 0;  // to the session's heads_: bytes of this head, and capacities kept of earlier ones

 private:
  void start();

  H2Streams* streams_ = nullptr;
  int32_t stream_ = 0;
  uint64_t head_ = 0;       // of the connection's heads, while it is kept
  size_t fields_kept_ = 0;  // the most bytes that the fields of any of its requests had
};

// Bytes of the request's body that were announced and have not come; negative: more came. 0 where none were announced.
inline int64_t missing(const H2Exchange& x) {
  const int64_t announced = x.request().content_length;
  return announced < 0 ? 0 : announced - int64_t(x.record().bytes_in);
}

}  // namespace weir::wire
