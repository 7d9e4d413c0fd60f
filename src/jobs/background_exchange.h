// BackgroundExchange: a request that was written down, as an Exchange without a connection (wire/inner_exchange.h); the
// answer is gathered.
//
// One request. On its shard; destroyed at any time, also by `done`, after which its ExchangeListener has been closed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/memory_ledger.h"
#include "jobs/journal.h"
#include "wire/inner_exchange.h"

namespace weir::jobs {

// Fields of a head as one text, "name: value\n" each, and back. What is no line of that form is left out.
void append_fields(const std::string& text, wire::Fields& fields);
std::string show_fields(const wire::Fields& fields);

class BackgroundExchange final : public wire::InnerExchange {
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

  size_t backlog() const override { return fresh_; }
  void call_on_drain() override { asked_drain_ = true, turn_later(); }

 private:
  // InnerExchange
  void take_head(const wire::Response& response) override;
  void take_body(base::Bytes piece) override;
  void answer_over(Answered how) override;
  void on_turn() override;
  void charge_usage() override;
  void too_long();

  const uint64_t max_answer_;
  Done done_;
  Outcome outcome_;
  base::MemoryCharge charge_;  // for the answer
  size_t fresh_ = 0;           // bytes of the answer since the last turn
  bool above_ = false, asked_drain_ = false;
};

}  // namespace weir::jobs
