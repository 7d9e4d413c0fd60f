#include "dialects/openai/responses/put_off.h"

#include <optional>
#include <span>
#include <utility>

#include "dialects/openai/responses/responses.h"
#include "dialects/openai/responses/stored.h"

namespace weir::openai::responses {
namespace {

using base::Result;
using base::Status;
using jobs::Batch;
using jobs::Storage;
using wire::Exchange;

constexpr std::string_view kLive = "live", kPutOff = "queued", kOver = "over", kCancelled = "cancelled",
                           kExpired = "expired", kDeleted = "deleted";
constexpr std::string_view kPutOffOnly[] = {kPutOff}, kEnded[] = {kLive, kOver, kCancelled, kExpired, kDeleted};
constexpr size_t kMostAtOnce = 16;

using FoundBatch = std::optional<Batch>;

Result<FoundBatch> find_put_off(Storage& s, const std::string& owner, const std::string& id) {
  auto batch = s.batches.find(owner, id);
  if (batch && *batch && ((*batch)->kind != kPutOffKind || (*batch)->state == kDeleted)) return FoundBatch();
  return batch;
}

// The response as it is now: JSON.
Result<std::string> json_of(Storage& s, const Batch& batch) {
  if (batch.state == kCancelled) return with_status(batch.document, "cancelled", "null");
  if (batch.state == kLive) return with_status(batch.document, "in_progress", "null");
  auto jobs = s.journal.list(batch.id, 0, 1);
  if (!jobs) return jobs.error();
  if (!jobs->empty() && jobs->front().outcome) {
    jobs::Outcome& outcome = *jobs->front().outcome;
    if (outcome.status == 200) return std::move(outcome.body);
    return with_status(batch.document, "failed", error_of(outcome));
  }
  if (batch.state != kPutOff)
    return with_status(batch.document, "failed", R"({"code":"server_error","message":"it has not begun in time"})");
  auto counts = s.journal.count(batch.id);
  if (!counts) return counts.error();
  return counts->running > 0 ? with_status(batch.document, "in_progress", "null") : batch.document;
}

// Whatever of it waits never runs. One that is over stays as it is.
Status cancel_here(Storage& s, Batch& batch, base::WallTime expires) {
  auto counts = s.journal.count(batch.id);
  if (!counts) return counts.error();
  if ((batch.state != kPutOff && batch.state != kLive) || counts->finished() > 0) return {};
  batch.state = kCancelled, batch.expires = expires;
  return s.atomically([&] {
    auto changed = s.batches.change(batch);
    return changed ? s.journal.withdraw(batch.id) : changed.error();
  });
}

Status remove_here(Storage& s, const std::string& id) {
  return s.atomically([&] { return s.batches.remove(id); });
}

// Whoever makes it reads the word, and stores nothing.
Status delete_here(Storage& s, Batch& batch) {
  if (batch.state != kLive) return remove_here(s, batch.id);
  batch.state = kDeleted;
  auto changed = s.batches.change(batch);
  return changed ? Status() : changed.error();
}

Batch batch_of(OpenAiState& state, const std::string& id, const jobs::Requester& requester, std::string_view word) {
  const base::WallTime now = state.bus.env().wall();
  return {id,  std::string(kPutOffKind),         requester, std::string(word), state.options.background->queued(id),
          now, now + state.options.stored->ttl()};
}

// Not where it was stopped at another node.
Status write_put_off(Storage& s, const Batch& batch, const jobs::Job& job) {
  return s.atomically([&]() -> Status {
    auto there = s.batches.find(batch.requester.owner, batch.id);
    if (!there) return there.error();
    if (*there && (*there)->state != kLive) return {};
    if (!*there) {
      if (Status added = s.batches.add(batch); !added.ok()) return added;
    } else if (auto changed = s.batches.change(batch); !changed) {
      return changed.error();
    }
    return s.journal.put(std::span(&job, 1));
  });
}

ApiError no_such_put_off() {
  return {base::failure(base::Code::kNotFound, "there is no such response, or no more"), "response_id",
          "response_not_found"};
}

// The journal; null: there is none.
jobs::ShardJobs* journal_of(OpenAiState& state) {
  jobs::ShardJobs* journal = state.options.jobs;
  return journal && journal->available().ok() ? journal : nullptr;
}

// Answers with what becomes of it by `work`, Status(Storage&, Batch&). `done`: void(const std::optional<std::string>&),
// as of ShardJobs::ask().
template <class Work, class Done>
void with_put_off(OpenAiState& state, Exchange& exchange, const std::string& id, Work work, Done done) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return respond(exchange, no_such_put_off());
  using Shown = std::optional<std::string>;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id, work](Storage& s) -> Result<Shown> {
        auto batch = find_put_off(s, owner, id);
        if (!batch) return batch.error();
        if (!*batch) return Shown();
        if (Status status = work(s, **batch); !status.ok()) return status;
        auto json = json_of(s, **batch);
        if (!json) return json.error();
        return Shown(*std::move(json));
      },
      [](Exchange& x, Result<Shown> shown) {
        if (!shown) return respond(x, refuse(shown.error()));
        if (!*shown) return respond(x, no_such_put_off());
        respond_json(x, **std::move(shown));
      },
      std::move(done));
}

base::WallTime end_of_life(OpenAiState& state) { return state.bus.env().wall() + state.options.stored->ttl(); }

// Once the journal has it. Whoever has stopped it meanwhile was told so.
void put_off_now(BackgroundResponses& all, jobs::ShardJobs& journal, const std::string& owner, const std::string& id,
                 base::WallTime expires) {
  const auto run = all.end(id);
  if (!run || !run->cancelled) return;
  journal.tell([owner, id, expires, forgotten = run->forgotten](Storage& s) {
    auto batch = find_put_off(s, owner, id);
    if (!batch || !*batch) return;
    (void)(forgotten ? delete_here(s, **batch) : cancel_here(s, **batch, expires));
  });
  journal.cancel(id);
}

}  // namespace

jobs::ShardJobs::PutOff put_off(OpenAiState& state, const std::string& id, const jobs::Requester& requester) {
  jobs::ShardJobs::PutOff out;
  const base::WallTime expires = end_of_life(state);
  out.write = [batch = batch_of(state, id, requester, kPutOff)](Storage& s, const jobs::Job& job) {
    return write_put_off(s, batch, job);
  };
  out.fields = "content-type: application/json\n";  // the token is this process's own
  out.then = [all = state.options.background, journal = state.options.jobs, owner = requester.owner, id, expires] {
    put_off_now(*all, *journal, owner, id, expires);
  };
  return out;
}

void begin_live(OpenAiState& state, const std::string& id, const jobs::Requester& requester) {
  if (!state.options.jobs->is_shared()) return;
  (void)state.options.jobs->ask(
      [batch = batch_of(state, id, requester, kLive), runs = state.options.background](Storage& s) -> Result<bool> {
        if (!runs->goes_on(batch.id)) return true;  // it is over, and its end has looked for a record in vain
        Status added = s.atomically([&] { return s.batches.add(batch); });
        if (!added.ok()) return added;
        return true;
      },
      [](const Result<bool>&) {});
}

// Told, not asked: where the log is away, it waits. Work that runs again finds the word once more.
void end_live(OpenAiState& state, const std::string& id, const std::string& owner, std::function<void()> deleted) {
  if (!state.options.jobs->is_shared()) return;
  state.options.jobs->tell([id, owner, deleted = std::move(deleted)](Storage& s) {
    auto batch = s.batches.find(owner, id);
    if (!batch || !*batch || !remove_here(s, id).ok()) return;
    if ((*batch)->state == kDeleted) deleted();
  });
}

void prepare_put_off(jobs::Job& job) { job.fields += token_field(job.id.batch); }

void show_put_off(OpenAiState& state, Exchange& exchange, const std::string& id) {
  with_put_off(
      state, exchange, id, [](Storage&, Batch&) { return Status(); }, jobs::ShardJobs::Nothing());
}

void cancel_put_off(OpenAiState& state, Exchange& exchange, const std::string& id) {
  with_put_off(
      state, exchange, id,
      [expires = end_of_life(state)](Storage& s, Batch& batch) { return cancel_here(s, batch, expires); },
      [journal = state.options.jobs, id](const std::optional<std::string>& shown) {
        if (shown) journal->cancel(id);
      });
}

void delete_put_off(OpenAiState& state, Exchange& exchange, const std::string& id,
                    std::function<void(Result<bool>)> then) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return then(false);
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id](Storage& s) -> Result<bool> {
        auto batch = find_put_off(s, owner, id);
        if (!batch) return batch.error();
        if (!*batch) return false;
        Status removed = delete_here(s, **batch);
        if (!removed.ok()) return removed;
        return true;
      },
      [then = std::move(then)](Exchange&, Result<bool> removed) { then(std::move(removed)); },
      [journal, id](bool removed) {
        if (removed) journal->cancel(id);
      });
}

base::Result<bool> PutOffDuty::step(Storage& storage, base::WallTime now) {
  auto idle = storage.batches.idle(kPutOffKind, kPutOffOnly, kMostAtOnce);
  if (!idle) return idle.error();
  auto late = storage.batches.due(kPutOffKind, kPutOffOnly, now, kMostAtOnce);
  if (!late) return late.error();
  const auto end = [&](Batch& batch, std::string_view state) {
    batch.state = state;
    batch.expires = now + life_;
    auto changed = storage.batches.change(batch);
    return changed ? Status() : changed.error();
  };
  for (Batch& batch : *idle)
    if (Status s = end(batch, kOver); !s.ok()) return s;
  for (Batch& batch : *late) {
    Status s = storage.atomically([&] {
      Status withdrawn = storage.journal.withdraw(batch.id);
      return withdrawn.ok() ? end(batch, kExpired) : withdrawn;
    });
    if (!s.ok()) return s;
  }
  auto old = storage.batches.due(kPutOffKind, kEnded, now, kMostAtOnce);
  if (!old) return old.error();
  for (const Batch& batch : *old)
    if (Status s = remove_here(storage, batch.id); !s.ok()) return s;
  return idle->size() == kMostAtOnce || late->size() == kMostAtOnce || old->size() == kMostAtOnce;
}

}  // namespace weir::openai::responses
