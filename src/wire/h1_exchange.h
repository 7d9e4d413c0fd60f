// H1Exchange: the Exchange of one HTTP/1 request. It writes its answer into the connection's output while it has the
// turn (wire/h1_queue.h), and holds it before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/recycled.h"
#include "wire/answer_flow.h"
#include "wire/byte_charge.h"
#include "wire/codec.h"
#include "wire/exchange.h"
#include "wire/h1_gate.h"

namespace weir::wire {

class H1Queue;
struct H1Connection;

class H1Exchange final : public Exchange, public base::Recycled<H1Exchange> {
 public:
  explicit H1Exchange(H1Queue& queue);

  void head(Response response) override;
  void body(base::Bytes piece) override;
  void end(Fields trailers) override;
  void reset(Reset why) override;
  bool responding() const override { return headed_; }
  size_t backlog() const override;
  void consume(size_t n) override;
  base::Time now() const override;
  base::MemoryLedger* memory() override;
  void call_on_drain() override { above_ = true; }

 protected:
  bool respond_small(int status, std::string_view content_type, std::string_view body) override;

 private:
  friend class H1Queue;
  friend class H1Reader;
  enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilClose };
  // An answer that waits for its turn.
  struct Held {
    Response response;
    std::vector<base::Bytes> body;
    Fields trailers;
    size_t bytes = 0;
  };

  // Heads of so many bytes are remembered.
  static constexpr size_t kKnownHead = 1024;

  void start(const Head& head, Fields&& fields, const PeerInfo& peer);
  // The request's head, as it came, may come again: what has been read of it is kept by clear(), and then
  // start_again() takes the place of start(). Of heads that a length frames, if anything, and that do not end the
  // connection.
  void remember(std::string_view head) {
    head_.assign(head);
    request_.kept = HeadKept::kKept;
  }
  void start_again(const PeerInfo& peer);
  // The length of the head at the front of `bytes`, if it is the remembered one; else 0.
  size_t knows(std::string_view bytes) const { return !head_.empty() && bytes.starts_with(head_) ? head_.size() : 0; }
  void forget_head();
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

  H1Queue& queue_;
  H1Connection& connection_;
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
  bool te_trailers_ = false, known_te_trailers_ = false;  // the second: of head_
  bool above_ = false;                                    // the backlog has been above kLowWater
  Framing framing_ = Framing::kNone;
  uint64_t left_ = 0;           // kLength: body bytes to come
  uint64_t from_ = 0, to_ = 0;  // of its answer in the output
  uint64_t unconsumed_ = 0;     // kStream: body bytes that the service has not dealt with
  uint64_t received_ = 0;       // body bytes
  uint64_t charged_ = 0;        // bytes of the head in the connection's heads_
  SmallPieces small_;           // of its answer
  ByteCharge usage_;
  std::unique_ptr<Held> held_;
  std::string head_;  // that is remembered; empty: none
};

}  // namespace weir::wire
