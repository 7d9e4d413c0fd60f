// BackgroundExchange: an Exchange without a connection. A request that was written down is put to the router as if its
// client sent it now, so that the code which reads and answers it is the live one; the answer is gathered.
//
// One request. On its shard; destroyed at any time, also by `done`, after which its ExchangeListener has been closed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/memory_ledger.h"
#include "jobs/journal.h"
#include "wire/exchange.h"

namespace weir::jobs {

// Fields of a head as one text, "name: value\n" each, and back. What is no line of that form is left out.
void append_fields(const std::string& text, wire::Fields& fields);
std::string show_fields(const wire::Fields& fields);

class BackgroundExchange final : public wire::Exchange {
 public:
  // Called once, in a later turn than start(). A status of 0: the answer was broken off.
  using Done = std::function<void(Outcome)>;
  struct Surroundings {
    base::Env& env;
    wire::Intake& intake;
    base::MemoryLedger* memory = nullptr;  // or null
    uint64_t max_answer = 0;               // bytes; longer ones become an error of 500
  };
  // `peer` outlives this. The job's body goes into it.
  BackgroundExchange(Surroundings surroundings, const wire::PeerInfo& peer, Job& job, Done done);
  ~BackgroundExchange() override;

  void start();
  // As when its client leaves: `done` gets a status of 0.
  void abandon();

  // wire::Exchange
  void head(wire::Response response) override;
  void body(base::Bytes piece) override;
  void end(wire::Fields trailers) override;
  void reset(wire::Reset why) override;
  bool responding() const override { return headed_; }
  size_t backlog() const override { return fresh_; }
  void consume(size_t) override {}
  base::Time now() const override { return around_.env.now(); }
  base::MemoryLedger* memory() override { return around_.memory; }
  void call_on_drain() override { asked_drain_ = true, turn_later(); }

 private:
  void turn_later();
  void turn();
  void close();
  void too_long();

  const Surroundings around_;
  Done done_;
  Outcome outcome_;
  base::MemoryCharge charge_;  // for the answer
  size_t fresh_ = 0;           // bytes of the answer since the last turn
  base::TimerId timer_ = base::TimerId::kNone;
  bool begun_ = false, headed_ = false, ended_ = false, broken_ = false, closed_ = false;
  bool above_ = false, asked_drain_ = false;
};

}  // namespace weir::jobs
