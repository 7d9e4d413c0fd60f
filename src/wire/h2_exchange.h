// H2Exchange: the Exchange of one HTTP/2 stream. The half that services see only takes notes (what to send, what was
// dealt with); the session turns them into frames when output is gathered, so that all that one turn says goes out
// together. Kept and used again by its connection, with the memory of its strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ticket.h"
#include "wire/answer_flow.h"
#include "wire/exchange.h"
#include "wire/fifo.h"
#include "wire/guard.h"
#include "wire/request_body.h"

namespace weir::wire {

class H2Exchange;

// The services that Exchanges ask of their connection.
class H2Streams {
 public:
  virtual void touch(H2Exchange& exchange) = 0;  // it has something to say: look at `out`
  virtual void consume(H2Exchange& exchange, size_t n) = 0;
  virtual void expect(H2Exchange& exchange, size_t n) = 0;
  virtual void released(H2Exchange& exchange) = 0;  // the last Ticket came back
  virtual base::Time now() const = 0;
  virtual base::MemoryLedger* memory() const = 0;  // or null

 protected:
  ~H2Streams() = default;
};

class H2Exchange final : public Exchange, public AnswerFlow, public base::Ticketed {
 public:
  void head(Response response) override;
  void body(base::Bytes piece) override;
  void end(Fields trailers) override;
  void reset(Reset why) override;
  bool responding() const override { return out.started; }
  size_t backlog() const override { return out.backlog; }
  void consume(size_t n) override;
  void expect(size_t n) override;
  base::Time now() const override { return streams_ ? streams_->now() : record_.began; }
  base::Ticket ticket() override { return base::Ticket(*this); }
  // AnswerFlow
  base::MemoryLedger* memory() override { return streams_ ? streams_->memory() : nullptr; }
  void call_on_drain() override { out.above = true; }

  // The rest is the session's.
  void open(H2Streams& streams, int32_t stream, const PeerInfo& peer);
  // Forgets the request and the response; keeps capacities, but not large ones.
  void recycle();
  // Bytes that it holds without a request: its own, the library's of a stream, and those capacities.
  uint64_t kept() const;
  static const uint64_t kOwnCost;
  // The connection is gone, but Tickets are not back: the last one deletes this.
  void orphan() { streams_ = nullptr; }
  void ticket_back() override;
  using Exchange::name_client;

  int32_t stream() const { return stream_; }
  Request& mutable_request() { return request_; }
  void set_content(base::Bytes content) { content_ = std::move(content); }
  Fields& add_extra_fields() { return extra_fields_; }
  // Tells the ExchangeListener that it is over and destroys it.
  void close_reader();
  // Drops what has not been sent.
  void abandon_output();
  bool is_head() const { return request_.method == "HEAD"; }

  struct In {
    HeaderBudget budget;
    std::string cookie, host;  // crumbs joined; the Host field
    bool grpc = false, coded = false, expects_continue = false;
    bool no_memory = false;  // for the head: it is not all there
    bool ended = false;      // END_STREAM has arrived
    bool discard = false;    // nobody wants the body (any more)
    bool stalled = false;    // the collector waits for a slab
    BodyPlan plan = BodyPlan::kWhole;
    uint64_t limit = 0;
    size_t unconsumed = 0;  // flow control that the peer has not got back
    bool wide = false;      // its window is wider than usual
    RateFloor floor;
    base::Time moved = base::kNever;  // last byte of a body, either way
  } in;
  RequestBody request_body;  // the request's, where the plan is to have it whole

  struct Out {
    Response response;
    Fields trailers;
    std::array<char, 3> status;
    Fifo<base::Bytes> queue;
    size_t front_at = 0;  // bytes of the queue's front that are sent
    size_t queued = 0;    // bytes in the queue
    size_t backlog = 0;   // the same and those that the socket has not taken
    bool started = false, ended = false, bodiless = false;
    bool submitted = false;                 // the head is with the library
    bool finished = false;                  // END_STREAM is in the output
    base::Time finished_at = base::kNever;  // and when it came there, if before the request's end
    bool above = false;                     // the backlog has been above the low-water mark
    SmallPieces small;
    std::optional<Reset> reset;
    RateFloor floor;
  } out;

  bool open_stream = false;  // the library still has the stream
  bool begun = false;        // the Intake has seen it
  bool asked_reset = false;  // a reset that is not the peer's fault
  bool over = false;         // queued to be closed, or closed
  bool closed = false;       // the ExchangeListener and the Intake have heard
  bool complete = false;
  bool touched = false;  // in the session's list
  uint32_t marks = 0;    // places in the output that refer to this
  size_t index = 0;      // in the session's list of live ones
  uint64_t charged = 0;  // bytes of the head, and of what was kept of heads before, in the session's heads_

 private:
  H2Streams* streams_ = nullptr;
  int32_t stream_ = 0;
  size_t fields_kept_ = 0;  // the most bytes of fields that there have been
};

}  // namespace weir::wire
