// Responses in the background as the journal has them, if there is one: so they outlive their process. Each is a batch
// of the response's id with one job; its document is the response as it was at first. It is there from the beginning,
// its job as if the process that makes it had claimed it: where that dies, the job is claimed by the next process, or
// by another node. A drain gives it back. Where it is asked for, cancelled and deleted does not matter.
//
//   live ----> (gone)               it is over: whoever has made it has stored it
//     |------> queued -> over       the job has its outcome: the response (write_shared()), or why there is none
//     |-----------'-------^
//     '-----------'-----> cancelled
//     |           '-----> expired   openai.response_ttl later it was refused for now, or had not begun
//     '-----------------> deleted   whoever makes it reads that, and ends it
//
// A response that was stopped while it was stored is forgotten once more by whoever has stored it. Without a journal
// they end with their process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/stored.h"
#include "jobs/shard_jobs.h"
#include "jobs/store.h"

namespace weir::openai::responses {

inline constexpr std::string_view kPutOffKind = "openai.response";

// Null: there is none.
jobs::ShardJobs* journal_of(const OpenAiState& state);
// The response `id`, for ShardJobs::Aside::put_off. On the shard.
jobs::ShardJobs::PutOff put_off(OpenAiState& state, const std::string& id, const jobs::Requester& requester);
// The response of the job's batch is made here from now on. Without a body nobody else can make it: then it fails where
// this process dies. So does one that the journal, its tenant (jobs.tenant_disk) or the memory has no room for.
// `then` is called once, now or later, unless the exchange ends before: it is written for good, or there is no room for
// it. Errors: it is not, for the disk stands, or the cluster's log is away; one that has not begun is waited for. Later
// the exchange has another ExchangeListener; the record's memory is charged until it is written or the response is
// over.
void begin_live(OpenAiState& state, wire::Exchange& exchange, jobs::Job job,
                std::function<void(const base::Status&)> then);
// It is over.
struct LiveEnd {
  std::string id, owner;
  // kProcessEnds: it stays in the journal, for whoever looks after what this process leaves.
  enum class How : uint8_t { kCancelled, kProcessEnds, kOther } how = How::kOther;
  // It was stopped meanwhile: nobody may find it. On the journal's thread, perhaps several times.
  std::function<void()> forget;
};
void end_live(OpenAiState& state, LiveEnd end);
// Such a job, before it runs: makes the response of the id. An outcome: nothing can make it.
std::optional<jobs::Outcome> prepare_put_off(jobs::Job& job);
// Whether the exchange is a job's that makes a response.
bool is_job_of_response(const OpenAiState& state, const wire::Exchange& exchange);
// The response as such a job ends with it: with its turns, unless that is longer than jobs.max_result.
base::Bytes outcome_of(const OpenAiState& state, const StoredResponse& stored);
// That without its turns: its tenant has no room for them (jobs.tenant_disk).
void leave_out_turns(jobs::Outcome& outcome);
// A job has stored its response. `forget`, on the journal's thread: it was stopped meanwhile.
void check_put_off(OpenAiState& state, const std::string& id, std::function<void()> forget);

// The client's response as the journal has it. `then` is called once, now or later, unless the exchange ends before.
struct JournalResponse {
  StoredResponse stored;  // without turns, where it is not over
  enum class Progress : uint8_t { kUnderWay, kOver } progress = Progress::kUnderWay;
};
using FoundInJournal = std::optional<JournalResponse>;
using ShownResponse = std::function<void(base::Result<FoundInJournal>)>;
void find_in_journal(OpenAiState& state, wire::Exchange& exchange, const std::string& id, ShownResponse then);
void cancel_put_off(OpenAiState& state, wire::Exchange& exchange, const std::string& id, ShownResponse then);
// `then`: whether there was one.
void delete_put_off(OpenAiState& state, wire::Exchange& exchange, const std::string& id,
                    std::function<void(base::Result<bool>)> then);

// Those that are over, and those whose time is. All that are under way are looked through for those that are over, so
// that is done once a second, however often there is a step.
class PutOffDuty final : public jobs::Duty {
 public:
  explicit PutOffDuty(base::Duration life) : life_(life) {}
  base::Result<bool> step(jobs::Storage& storage, base::WallTime now) override;
  void begin_anew() override { looked_ = {}; }

 private:
  // True: there may be more.
  base::Result<bool> end_idle(jobs::Storage& storage, base::WallTime now);
  base::Status end_late(jobs::Storage& storage, jobs::Batch& batch, base::WallTime now) const;

  const base::Duration life_;
  base::WallTime looked_{};
};

}  // namespace weir::openai::responses
