// StepResults: what a step's results mean for its sequences: events for their Calls, and the ends of sequences. Pure:
// time is an argument.
//
// A sequence that was preempted and computes its tokens once more emits none of them twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "bus/stats.h"
#include "generation/engine.h"
#include "generation/kv_memory.h"
#include "generation/sequence.h"
#include "generation/step_rows.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

class StepResults {
 public:
  // `limit`: positions at which a sequence is full. All outlive this; stats.tokens is there.
  StepResults(const msg::ModelSpec& spec, bus::ModelStats& stats, KvMemory& memory, uint32_t limit)
      : spec_(spec), stats_(stats), tokens_(*stats.tokens), memory_(memory), limit_(limit) {}

  // The step has been run. A failure fails its sequences. Those that end have Place::kGone, and may be freed.
  void process(StepRows& rows, const base::Status& outcome, base::Time now);

  // Everything that the Call asked for is there.
  bool complete(const Sequence& s) const;
  // These give the sequence's blocks back, or to its session, before the last Event is emitted: memory is free when the
  // client receives it.
  void finish_sequence(Sequence& s, base::Time now);
  void fail(Sequence& s, base::Status status, base::Time now);
  void finish_release(msg::Call* call, base::Time now);  // of Aim::kRelease, which has no sequence

  // Events to be posted, in order; the caller takes them out. A Call whose last Event is here is not touched any more.
  std::vector<msg::Mail>& mail() { return mail_; }

 private:
  // How far the requests of a step have been read, in the order of its rows.
  struct Cursor {
    TokenStep& step;
    size_t request = 0, readout = 0, pool = 0;
  };
  using LogitsRequest = TokenStep::LogitsRequest;
  void process_row(const TokenRun& run, const TokenStep::Row& row, Cursor& at, base::Time now);
  static void skip_row(const TokenStep::Row& row, Cursor& at);
  LogitsRequest* process_positions(const TokenRun& run, const TokenStep::Row& row, Cursor& at);
  void process_draft(const TokenRun& run, const TokenStep::Row& row, Cursor& at, base::Time now);
  void process_sample(Sequence& s, LogitsRequest& request, base::Time now);
  static base::Status no_token(const Sequence& s, uint32_t position);
  static base::Status advance_constraint(Sequence& s, uint32_t id);
  void time_token(Sequence& s, base::Time now);
  msg::Finish reason_to_end(const Sequence& s, uint32_t id) const;
  void emit_prompt_token(Sequence& s, uint32_t position, std::vector<float>* readout);
  void emit_token(Sequence& s, msg::Token token);
  void leave(Sequence& s);

  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  bus::TokenStats& tokens_;
  KvMemory& memory_;
  const uint32_t limit_;
  std::vector<msg::Mail> mail_;
};

}  // namespace weir::generation
