// A batch with all that its API tells of it, and what is done with one: the same for each API.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "jobs/shard_jobs.h"

namespace weir::openai::batches {

struct Shown {
  jobs::Batch batch;
  BatchDocument document;
  jobs::Counts counts;
};

// All on the store's thread.
base::Result<Shown> shown(jobs::Storage& storage, jobs::Batch batch);
// A page of the owner's batches, in the order of the list; those that cannot be read are left out.
base::Result<std::vector<Shown>> list_shown(jobs::Storage& storage, std::string_view owner, std::string_view kind,
                                            jobs::ListOrder order, std::string_view after, size_t most);
// Adds a batch whose file is there, where there is room for it.
base::Result<Shown> add_batch(jobs::Storage& storage, jobs::Batch batch, BatchDocument document,
                              const jobs::Limits& limits);
// Writes the document and the state.
base::Status save(jobs::Storage& storage, Shown& shown);
// Errors: ABORTED, it is over, or nearly.
base::Result<Shown> cancel(jobs::Storage& storage, jobs::Batch batch, base::WallTime now);

// Finds a batch of the caller's and does `work`, Result<T>(Storage&, Batch), with it. `then`, void(Exchange&, const
// T&), answers; an error is answered here. `done`, void(const T&), on the store's thread: what it has written is there
// for good.
template <class Work, class Then, class Done = jobs::ShardJobs::Nothing>
void with_batch(OpenAiState& state, wire::Exchange& exchange, std::string_view kind, const std::string& id, Work work,
                Then then, Done done = {}) {
  using Answer = std::invoke_result_t<Work&, jobs::Storage&, jobs::Batch>;
  using Value = typename Answer::value_type;
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, kind, id, work](jobs::Storage& s) -> Answer {
        auto found = s.batches.find(owner, id);
        if (!found) return found.error();
        if (!*found || (*found)->kind != kind) return no_such("batch", id).status;
        return work(s, std::move(**found));
      },
      [then](wire::Exchange& x, Answer found) {
        if (!found) return respond(x, journal_error(found.error()));
        then(x, *found);
      },
      [done](const Value& value) { done(value); });
}

}  // namespace weir::openai::batches
