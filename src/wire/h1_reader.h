// H1Reader: from the bytes of one HTTP/1 connection to requests: heads through the gate, bodies to where the plan wants
// them. Requests are read one after the other; up to Limits::pipelined of them wait in the H1Queue.
//
// Nothing here recurses: a service that answers inside begin() or whole() only appends output; the next request is
// parsed by the loop in process().
#pragma once

#include <memory>
#include <string_view>

#include "wire/h1_connection.h"
#include "wire/h1_gate.h"
#include "wire/h1_parser.h"
#include "wire/h1_queue.h"
#include "wire/kept_input.h"
#include "wire/rate_floor.h"
#include "wire/request_body.h"

namespace weir::wire {

class H1Reader final : H1Parser::Sink {
 public:
  H1Reader(H1Connection& connection, H1Queue& queue);

  // Takes in all of `fresh`: what cannot be used yet is kept.
  void process(std::string_view fresh);
  // As Codec::receive_buffer().
  std::span<std::byte> receive_buffer();
  // Bytes that are kept.
  size_t waiting() const { return input_.waiting(); }
  void drop_input() { input_.drop(); }
  // A quiet connection keeps no memory for its input.
  void release_input();

  // From tick(): a body that waited may go on, or has waited in vain; and the time limits.
  void retry_body();
  void check(base::Time now);
  // The socket may not be read now: no slab, too much pipelined, too many answers unsent.
  bool held_back() const;
  // Nothing has come of a request.
  bool between_requests() const { return reading_ == Reading::kHead || reading_ == Reading::kNothing; }
  // The body waits for the next turn of the loop.
  bool paused() const { return current_ && body_ && body_->paused(); }
  // Bytes of the request's body that are not read yet; 0 where they are not known, or another request is read by now.
  uint64_t unread(const H1Exchange& x) const { return read_for_ == &x ? parser_.remaining() : 0; }

  // No more is read; the connection ends with the last answer that is due.
  void close_after_queue();
  // No more is read; the connection ends with what is in the output. May be called by a service's answer, so from
  // inside any step of the reading: each looks at `closing` when it has called a service.
  void close_now();
  // A head that has begun to come is still answered.
  void refuse_new_requests() {
    if (reading_ == Reading::kHead && waiting() == 0) close_after_queue();
  }
  // Drops the request of an Exchange that is over or answered: its memory goes back, and the rest of it is discarded.
  void forget(const H1Exchange& x);

 private:
  enum class Reading : uint8_t {
    kHead,
    kBody,
    kSlab,     // the body is in, but waits for a slab
    kRaw,      // another protocol, after a 101: bytes go to the listener as they are
    kNothing,  // no more requests: bytes are discarded
  };

  size_t step(std::string_view input);
  size_t step_head(std::string_view input);
  size_t step_body(std::string_view input);
  size_t step_raw(std::string_view input);
  enum class Known : bool { kNo, kYes };  // by H1Queue::knows()
  void start_request(std::string_view head, Known known);
  void start_body(H1Exchange& x, const Head& head);
  bool collect_body(H1Exchange& x, const Head& head);
  void request_read();
  void body_settled(RequestBody::State state);
  void on_body(std::span<const std::byte> piece) override;
  void charge_input();
  void check_body(base::Time now);
  void fail(H1Exchange& x, const HeadError& error);
  void fail_current(const HeadError& error);

  H1Connection& connection_;
  H1Queue& queue_;
  H1Parser parser_;
  HeadScan scan_;
  std::unique_ptr<HeadText> head_text_;  // of the head that is being looked at; null while the connection is quiet
  KeptInput input_;
  std::unique_ptr<RequestBody> body_;     // null: no body has been gathered since the connection was last quiet
  H1Exchange* current_ = nullptr;         // whose body is being read; null while a body is discarded
  const H1Exchange* read_for_ = nullptr;  // whose body it is, discarded or not; may be gone, and is only compared
  std::unique_ptr<const HeadError> body_error_;  // found while the parser was calling
  uint64_t discarded_ = 0;
  uint32_t blank_lines_ = 0;
  Reading reading_ = Reading::kHead;
  bool served_ = false;  // there has been a request
  base::Time head_since_ = base::kNever;
  RateFloor body_floor_;
};

}  // namespace weir::wire
