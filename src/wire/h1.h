// The HTTP/1 codec's parts, for h1.cc (reading), h1_response.cc (writing) and h1_connection.cc only.
//
// Requests are read one after the other; up to Limits::pipelined of them wait in `queue_` in the order they came. The
// first one that has not ended has the turn: it alone writes into the output, the ones behind it hold their answers.
//
//   queue_:  [ended, on its way] … [has the turn] [waits] … [is being read: current_]
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stepped_charge.h"
#include "wire/answer_flow.h"
#include "wire/body.h"
#include "wire/codec.h"
#include "wire/h1_gate.h"
#include "wire/h1_output.h"
#include "wire/h1_parser.h"

namespace weir::wire {

class H1;

class H1Exchange final : public Exchange, public AnswerFlow {
 public:
  explicit H1Exchange(H1& h1) : h1_(h1) {}

  void head(Response response) override;
  void body(base::Bytes piece) override;
  void end(Fields trailers) override;
  void reset(Reset why) override;
  bool responding() const override { return headed_; }
  size_t backlog() const override;
  void consume(size_t n) override;
  base::Time now() const override;
  // AnswerFlow
  base::MemoryLedger* memory() override;
  void call_on_drain() override { above_ = true; }

 private:
  friend class H1;
  enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilClose };
  // An answer that waits for its turn.
  struct Held {
    Response response;
    std::vector<base::Bytes> body;
    Fields trailers;
    size_t bytes = 0;
  };

  void start(const Head& head, Fields&& fields, const PeerInfo& peer);
  void clear();
  void take_turn();
  bool open() const { return !gone_ && !ended_; }
  bool bodiless(int status) const;
  bool closes_after() const;
  Held& held();
  void write_head(const Response& response);
  void write_fields(const Fields& fields, int status, std::string& text);
  void write_framing(int status, std::string& text);
  void write_body(base::Bytes piece);
  void write_end(const Fields& trailers);
  void write_continue();
  void wrote();

  H1& h1_;
  Plan plan_;
  bool begun_ = false;  // the Intake knows of it
  bool turn_ = false;   // writes into the output
  bool headed_ = false, ended_ = false;
  bool upgraded_ = false;    // a 101 has been sent: what follows is another protocol, both ways
  bool gone_ = false;        // nothing is written any more
  bool cut_ = false;         // its answer is not whole
  bool close_ = false;       // the connection ends with it
  bool keep_alive_ = true;   // as the client wants
  bool read_whole_ = false;  // the request has been read to its end
  bool await_100_ = false;   // the client waits for a 100 that has not been sent
  bool te_trailers_ = false;
  bool above_ = false;  // the backlog has been above kLowWater
  Framing framing_ = Framing::kNone;
  uint64_t left_ = 0;           // kLength: body bytes to come
  uint64_t from_ = 0, to_ = 0;  // of its answer in the output
  uint64_t unconsumed_ = 0;     // kStream: body bytes that the service has not dealt with
  uint64_t received_ = 0;       // body bytes
  uint64_t charged_ = 0;        // bytes of the head in the connection's heads_
  SmallPieces small_;           // of its answer
  std::unique_ptr<Held> held_;
};

// Has a peer moved `rate` bytes per second in each stretch of `period`? Between restart() and stop().
class RateWatch {
 public:
  void stop() { since_ = base::kNever; }
  void count(uint64_t n) { bytes_ += n; }
  // Starts the watch if it is stopped.
  bool too_slow(base::Time now, uint32_t rate, base::Duration period);

 private:
  base::Time since_ = base::kNever;
  uint64_t bytes_ = 0;
};

class H1 final : public Codec, H1Parser::Sink, BodyMemory::Body {
 public:
  H1(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
  ~H1() override;

  void feed(std::span<const std::byte> bytes) override;
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override { return output_.gather(out); }
  void consumed(size_t n) override;
  bool wants_read() const override;
  bool finished() const override { return closing_ && output_.empty(); }
  bool idle() const override;
  void tick(base::Time now) override;
  void drain(Drain step) override;
  std::string_view protocol() const override { return "h1"; }

 private:
  friend class H1Exchange;
  enum class Reading : uint8_t {
    kHead,
    kBody,
    kSlab,     // the body is in, but waits for a slab
    kRaw,      // another protocol, after a 101: bytes go to the listener as they are
    kNothing,  // no more requests: bytes are discarded
  };

  // Reading, h1.cc.
  void process(std::span<const std::byte> fresh);
  size_t waiting() const { return input_.size() - input_at_; }
  void drop_input();
  void charge_input();
  size_t step(std::string_view input);
  size_t step_head(std::string_view input);
  size_t step_body(std::string_view input);
  size_t step_raw(std::string_view input);
  void start_request(std::string_view head);
  void start_body(H1Exchange& x, const Head& head);
  void request_read();
  void body_settled(BodyCollector::State state);
  void refuse(const HeadError& refusal);
  void fail(H1Exchange& x, const HeadError& refusal);
  void fail_current(const HeadError& refusal);
  void on_body(std::span<const std::byte> piece) override;
  void follow_body(BodyCollector::State state);
  void drop_body();
  void settle_lost();

  // BodyMemory::Body
  void memory_came() override { wire_.tick_soon(); }
  void memory_lost(BodyMemory::Loss why) override {
    lost_ = why;
    wire_.tick_soon();
  }
  uint64_t memory_held() const override { return collector_.reserved(); }

  // The queue and the connection, h1_connection.cc.
  H1Exchange& enqueue();
  void pass_turn();
  void close(std::unique_ptr<H1Exchange> x, bool complete);
  void close_from(size_t first);
  void stop_reading() { last_ = true; }
  void close_after_queue();
  void close_now();
  void note_output(uint64_t before);
  void go_on_if_paused();
  bool held_back() const;
  bool overloaded(base::Overload step) const { return memory_ && memory_->at_least(step); }
  uint64_t held_for_answers() const;
  void check_output(base::Time now);
  void check_input(base::Time now);
  // There is output, or the end, and nobody may be looking.
  void announce();

  CodecEnv env_;
  base::MemoryLedger* const memory_;  // of env_.slabs, or null
  Wire& wire_;
  const PeerInfo& peer_;
  H1Parser parser_;
  HeadScan scan_;
  HeadText head_text_;  // of the head that is being looked at
  BodyCollector collector_;
  H1Output output_;
  base::SteppedCharge heads_;   // of requests, and input_
  uint64_t input_charged_ = 0;  // of input_, in heads_
  std::string input_;           // bytes that could not be used yet
  size_t input_at_ = 0;         // of which these have been used since
  std::string scratch_;         // heads are put together here
  std::vector<std::unique_ptr<H1Exchange>> queue_, spare_;
  size_t ended_ = 0;               // queue_[0, ended_) have ended; queue_[ended_] has the turn
  H1Exchange* current_ = nullptr;  // whose body is being read; null while a body is discarded
  Reading reading_ = Reading::kHead;
  HeadError body_refusal_;                // found while the parser was calling
  std::optional<BodyMemory::Loss> lost_;  // of the body's memory, since the last tick()
  uint64_t discarded_ = 0;
  uint32_t blank_lines_ = 0;
  bool draining_ = false;
  bool last_ = false;     // no request is taken after the one that is being read
  bool closing_ = false;  // nothing is read any more, nor written behind what is in the output: close_now()
  bool busy_ = false;     // inside feed(), consumed() or tick(): the caller looks at the output afterwards
  bool served_ = false;   // there has been a request
  base::Time head_since_ = base::kNever;
  base::Time idle_since_;
  base::Time moved_ = base::kNever;  // when a piece of body last came or an answer last went
  RateWatch body_watch_, output_watch_;
};

}  // namespace weir::wire
