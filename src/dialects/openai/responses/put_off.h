// Responses in the background that were under way when their process was told to end: a drain puts them into the
// journal, as it does with jobs. They run again when the next process starts, or at another node, and are asked for,
// cancelled and deleted there. Each is a batch of the response's id with one job; its document is the response as it
// was at first. In a cluster the batch is there from the beginning, so that all nodes know of it:
//
//   live -> (gone)                   it is over: the node that has made it has stored it for all
//     '---> queued -> over           the job has its outcome: the response, or why there is none
//     '-------'-----> cancelled
//     |       '-----> expired        openai.response_ttl later it was refused for now, or had not begun
//     '-------------> deleted        by another node than the one that makes it, which ends it then
//
// Without a journal they end with their process.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dialects/openai/responses/background.h"
#include "jobs/shard_jobs.h"
#include "jobs/store.h"

namespace weir::openai::responses {

inline constexpr std::string_view kPutOffKind = "openai.response";

// The response `id`, for ShardJobs::Aside::put_off. On the shard.
jobs::ShardJobs::PutOff put_off(OpenAiState& state, const std::string& id, const jobs::Requester& requester);
// For the other nodes, if there are any: the response is made here; it is over. `deleted`: by another node meanwhile;
// on the journal's thread.
void begin_live(OpenAiState& state, const std::string& id, const jobs::Requester& requester);
void end_live(OpenAiState& state, const std::string& id, const std::string& owner, std::function<void()> deleted);
// Such a job, before it runs: makes the response of the id.
void prepare_put_off(jobs::Job& job);

// They answer the exchange: 404 where there is no such response in the journal.
void show_put_off(OpenAiState& state, wire::Exchange& exchange, const std::string& id);
void cancel_put_off(OpenAiState& state, wire::Exchange& exchange, const std::string& id);
// `then`: whether there was one; not called once the client has left.
void delete_put_off(OpenAiState& state, wire::Exchange& exchange, const std::string& id,
                    std::function<void(base::Result<bool>)> then);

// Those that are over, and those whose time is.
class PutOffDuty final : public jobs::Duty {
 public:
  explicit PutOffDuty(base::Duration life) : life_(life) {}
  base::Result<bool> step(jobs::Storage& storage, base::WallTime now) override;

 private:
  const base::Duration life_;
};

}  // namespace weir::openai::responses
