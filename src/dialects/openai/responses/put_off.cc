#include "dialects/openai/responses/put_off.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "dialects/openai/responses/responses.h"
#include "dialects/openai/responses/stored.h"
#include "marshal/tenant_name.h"

namespace weir::openai::responses {
namespace {

using base::Result;
using base::Status;
using jobs::Batch;
using jobs::Storage;
using wire::Exchange;

constexpr std::string_view kLive = "live", kPutOff = "queued", kOver = "over", kCancelled = "cancelled",
                           kExpired = "expired", kDeleted = "deleted";
constexpr std::string_view kUnderWay[] = {kLive, kPutOff}, kEnded[] = {kOver, kCancelled, kExpired, kDeleted};
constexpr size_t kMostAtOnce = 16;
constexpr const char* kFields = "content-type: application/json\n";  // of the job: a token is its process's own

using FoundBatch = std::optional<Batch>;

Result<FoundBatch> find_put_off(Storage& s, const std::string& owner, const std::string& id) {
  auto batch = s.batches.find(owner, id);
  if (batch && *batch && ((*batch)->kind != kPutOffKind || (*batch)->state == kDeleted)) return FoundBatch();
  return batch;
}

JournalResponse shown_as(std::string response, JournalResponse::Progress progress) {
  JournalResponse out;
  out.stored.response = base::Bytes::adopt(std::move(response));
  out.progress = progress;
  return out;
}

// Reads the outcome of a finished job: a record with the turns (shared.h), or the response alone.
JournalResponse made(std::string outcome) {
  const auto body = base::Bytes::adopt(std::move(outcome));
  if (auto stored = read_shared(body)) return {*std::move(stored), JournalResponse::Progress::kOver};
  JournalResponse out;
  out.stored.response = body;
  out.progress = JournalResponse::Progress::kOver;
  return out;
}

// The response as it is now.
Result<JournalResponse> shown(Storage& s, const Batch& batch) {
  using Progress = JournalResponse::Progress;
  const auto with = [&](std::string_view status, std::string_view error, Progress progress) {
    return shown_as(with_status(batch.document, status, error), progress);
  };
  if (batch.state == kCancelled) return with("cancelled", "null", Progress::kOver);
  auto jobs = s.journal.list(batch.id, 0, 1);
  if (!jobs) return jobs.error();
  if (!jobs->empty() && jobs->front().outcome) {
    jobs::Outcome& outcome = *jobs->front().outcome;
    if (outcome.status == 200) return made(std::move(outcome.body));
    return with("failed", error_of(outcome), Progress::kOver);
  }
  if (batch.state != kPutOff && batch.state != kLive)
    return with("failed", R"({"code":"server_error","message":"it has not begun in time"})", Progress::kOver);
  auto counts = s.journal.count(batch.id);
  if (!counts) return counts.error();
  if (counts->running > 0) return with("in_progress", "null", Progress::kUnderWay);
  return shown_as(batch.document, Progress::kUnderWay);
}

Status changed(Storage& s, const Batch& batch) {
  auto done = s.batches.change(batch);
  return done ? Status() : done.error();
}

// Cancels a response that has not finished; one that has stays as it is.
Status cancel_here(Storage& s, Batch& batch, base::WallTime expires) {
  auto counts = s.journal.count(batch.id);
  if (!counts) return counts.error();
  if ((batch.state != kPutOff && batch.state != kLive) || counts->finished() > 0) return {};
  batch.state = kCancelled, batch.expires = expires;
  return s.atomically([&] {
    Status done = changed(s, batch);
    return done.ok() ? s.journal.remove(batch.id) : done;
  });
}

Status remove_here(Storage& s, const std::string& id) {
  return s.atomically([&] { return s.batches.remove(id); });
}

// Deletes a response. If a node is making it now, the batch stays with the state kDeleted, so that this node finds it
// at the end and stores nothing.
Status delete_here(Storage& s, Batch& batch) {
  if (batch.state != kLive) return remove_here(s, batch.id);
  batch.state = kDeleted, batch.document.clear();
  return s.atomically([&] {
    Status done = changed(s, batch);
    return done.ok() ? s.journal.remove(batch.id) : done;
  });
}

Batch batch_of(OpenAiState& state, const std::string& id, const jobs::Requester& requester, std::string_view word,
               std::string document) {
  const base::WallTime now = state.bus.env().wall();
  const base::WallTime expires = now + state.options.stored->ttl();
  return {id, std::string(kPutOffKind), requester, std::string(word), std::move(document), now, expires};
}

// Puts a response into the journal, unless another node has stopped it. A batch that is in the journal already has a
// job there, too: it is released, or replaced if the client's request is missing in it.
Status write_put_off(Storage& s, const Batch& batch, const jobs::Job& job) {
  return s.atomically([&]() -> Status {
    auto there = s.batches.find(batch.requester.owner, batch.id);
    if (!there) return there.error();
    if (*there && (*there)->state != kLive) return {};
    Status written = *there ? changed(s, batch) : s.batches.add(batch);
    if (!written.ok()) return written;
    if (*there && (*there)->document == batch.document) return s.journal.release(job.id, base::WallTime());
    Status gone = *there ? s.journal.remove(batch.id) : Status();
    return gone.ok() ? s.journal.put(std::span(&job, 1)) : gone;
  });
}

// Tells what becomes of the client's response by `work`, Status(Storage&, Batch&). `done`: void(const FoundInJournal&),
// as of ShardJobs::ask().
template <class Work, class Done>
void with_put_off(OpenAiState& state, Exchange& exchange, const std::string& id, Work work, ShownResponse then,
                  Done done) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return then(FoundInJournal());
  jobs::ask_for(
      *journal, exchange,
      [owner = marshal::name_of_tenant(exchange.request()), id, work](Storage& s) -> Result<FoundInJournal> {
        auto batch = find_put_off(s, owner, id);
        if (!batch) return batch.error();
        if (!*batch) return FoundInJournal();
        if (Status status = work(s, **batch); !status.ok()) return status;
        auto now = shown(s, **batch);
        if (!now) return now.error();
        return FoundInJournal(*std::move(now));
      },
      [then = std::move(then)](Exchange&, Result<FoundInJournal> found) { then(std::move(found)); }, std::move(done));
}

base::WallTime end_of_life(OpenAiState& state) { return state.bus.env().wall() + state.options.stored->ttl(); }

// Called when the journal has the response: cancels or deletes it there if its client has asked for that meanwhile.
void put_off_now(BackgroundResponses& all, jobs::ShardJobs& journal, const std::string& owner, const std::string& id,
                 base::WallTime expires) {
  const auto run = all.end(id);
  if (!run || !run->cancelled) return;
  journal.tell([owner, id, expires, forgotten = run->forgotten](Storage& s) {
    auto batch = find_put_off(s, owner, id);
    if (!batch) return batch.error();
    if (!*batch) return Status();
    return forgotten ? delete_here(s, **batch) : cancel_here(s, **batch, expires);
  });
  journal.cancel(id);
}

struct LiveRecord {
  Batch batch;
  jobs::Job job;

  size_t bytes() const { return batch.document.size() + job.body.size(); }
  Status write(Storage& s) const {
    return s.atomically([&] {
      Status added = s.batches.add(batch);
      return added.ok() ? s.journal.put_claimed(std::span(&job, 1)) : added;
    });
  }
};
// `brief`: the same without what the client has sent, for which there may be no room.
struct LiveRecords {
  LiveRecord full, brief;
  base::MemoryCharge charge;  // for the full one
};

// Adds the records, unless an earlier try has written them. `most`: the bytes that the tenant may have in the journal;
// beyond them the brief record is written.
Status write_live(Storage& s, const LiveRecords& records, uint64_t most) {
  auto there = s.batches.find(records.brief.batch.requester.owner, records.brief.batch.id);
  if (!there) return there.error();
  if (*there) return {};
  auto use = s.files.use(records.full.batch.requester.owner);
  if (!use) return use.error();
  if (use->bytes + records.full.bytes() > most) return records.brief.write(s);
  Status written = records.full.write(s);
  return written.code == base::Code::kResourceExhausted ? records.brief.write(s) : written;
}

// The end of one that was made here. Where this node was taken for gone, another one has the job: of two results the
// one counts that all nodes find. Work that runs again finds the batch as it is then.
Status write_end(Storage& s, const LiveEnd& end) {
  auto batch = s.batches.find(end.owner, end.id);
  if (!batch) return batch.error();
  if (!*batch) return {};
  auto held = s.journal.holds({end.id, 0});
  if (!held) return held.error();
  const bool deleted = (*batch)->state == kDeleted, cancelled = (*batch)->state == kCancelled;
  if (cancelled && end.how != LiveEnd::How::kCancelled) return end.forget(), Status();
  if (!*held && !deleted && !cancelled) return {};
  (*batch)->document.clear();  // of the change its version counts alone
  Status gone = s.atomically([&] {
    Status same = changed(s, **batch);
    return same.ok() ? s.batches.remove(end.id) : same;
  });
  if (gone.ok() && deleted) end.forget();
  return gone;
}

}  // namespace

jobs::ShardJobs* journal_of(const OpenAiState& state) {
  jobs::ShardJobs* journal = state.options.jobs;
  return journal && journal->available().ok() ? journal : nullptr;
}

jobs::ShardJobs::PutOff put_off(OpenAiState& state, const std::string& id, const jobs::Requester& requester) {
  jobs::ShardJobs::PutOff out;
  const base::WallTime expires = end_of_life(state);
  Batch batch = batch_of(state, id, requester, kPutOff, state.options.background->queued(id));
  out.write = [batch = std::move(batch)](Storage& s, const jobs::Job& job) { return write_put_off(s, batch, job); };
  out.fields = kFields;
  out.then = [all = state.options.background, journal = state.options.jobs, owner = requester.owner, id, expires] {
    put_off_now(*all, *journal, owner, id, expires);
  };
  return out;
}

void begin_live(OpenAiState& state, Exchange& exchange, jobs::Job job, std::function<void(const Status&)> then) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return then({});
  BackgroundResponses& all = *state.options.background;
  const std::string id = job.id.batch;
  job.fields = kFields;
  auto records = std::make_shared<LiveRecords>();
  LiveRecord &full = records->full, &brief = records->brief;
  brief.batch = batch_of(state, id, job.requester, kLive, all.brief(id));
  brief.job = {job.id, job.label, job.model, job.target, job.fields, ""};
  full.batch = batch_of(state, id, job.requester, kLive, all.queued(id));
  full.job = std::move(job);
  if (auto* memory = exchange.memory()) records->charge = {*memory, base::MemoryKind::kInput};
  if (!records->charge.grow(full.bytes())) full = brief;
  all.set_record(id, records);
  jobs::ask_for(
      *journal, exchange,
      [id, kept = std::weak_ptr(records), runs = &all,
       most = journal->limits().tenant_disk](Storage& s) -> Result<bool> {
        const auto records = kept.lock();
        if (!records || !runs->goes_on(id)) return true;  // it is over, and its end has looked for a record in vain
        Status written = write_live(s, *records, most);
        if (!written.ok()) return written;
        return true;
      },
      [then = std::move(then)](Exchange&, const Result<bool>& written) {
        const bool settled = written || written.error().code == base::Code::kResourceExhausted;
        then(settled ? Status() : written.error());
      },
      [id, runs = &all](bool) { runs->set_record(id, nullptr); });
}

// Writes the end of a response to the journal without waiting for it: tell() keeps the work while the log is away.
void end_live(OpenAiState& state, LiveEnd end) {
  if (jobs::ShardJobs* journal = journal_of(state))
    journal->tell([end = std::move(end)](Storage& s) { return write_end(s, end); });
}

std::optional<jobs::Outcome> prepare_put_off(jobs::Job& job) {
  if (job.body.empty())
    return jobs::Outcome{
        500, kFields,
        R"({"error":{"message":"the server that made the response has ended, and no other can make it","type":"server_error","param":null,"code":null}})"};
  job.fields += token_field(job.id.batch);
  return std::nullopt;
}

bool is_job_of_response(const OpenAiState& state, const Exchange& exchange) {
  const std::string id = background_id(exchange);
  return !id.empty() && state.options.background && !state.options.background->run(id);
}

base::Bytes outcome_of(const OpenAiState& state, const StoredResponse& stored) {
  std::string record = write_shared(stored);
  const bool fits = state.options.jobs && record.size() <= state.options.jobs->limits().max_result;
  return fits ? base::Bytes::adopt(std::move(record)) : stored.response;
}

void leave_out_turns(jobs::Outcome& outcome) {
  if (outcome.status != 200) return;
  if (auto stored = read_shared(base::Bytes::copy_of(outcome.body))) outcome.body = stored->response.view();
}

// A batch that was cancelled or deleted has no job.
void check_put_off(OpenAiState& state, const std::string& id, std::function<void()> forget) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return;
  journal->tell([id, forget = std::move(forget)](Storage& s) {
    auto counts = s.journal.count(id);
    if (!counts) return counts.error();
    if (counts->total == 0) forget();
    return Status();
  });
}

void find_in_journal(OpenAiState& state, Exchange& exchange, const std::string& id, ShownResponse then) {
  with_put_off(
      state, exchange, id, [](Storage&, Batch&) { return Status(); }, std::move(then), jobs::ShardJobs::Nothing());
}

void cancel_put_off(OpenAiState& state, Exchange& exchange, const std::string& id, ShownResponse then) {
  const auto stopped = std::make_shared<bool>();  // of the journal's thread
  with_put_off(
      state, exchange, id,
      [expires = end_of_life(state), stopped](Storage& s, Batch& batch) {
        const bool was_so = batch.state == kCancelled;
        Status done = cancel_here(s, batch, expires);
        *stopped = !was_so && batch.state == kCancelled;
        return done;
      },
      std::move(then),
      [journal = state.options.jobs, id, stopped](const FoundInJournal&) {
        if (*stopped) journal->cancel(id);
      });
}

void delete_put_off(OpenAiState& state, Exchange& exchange, const std::string& id,
                    std::function<void(Result<bool>)> then) {
  jobs::ShardJobs* journal = journal_of(state);
  if (!journal) return then(false);
  jobs::ask_for(
      *journal, exchange,
      [owner = marshal::name_of_tenant(exchange.request()), id](Storage& s) -> Result<bool> {
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

// Called when a batch has expired. One whose job is running gets the same time once more.
Status PutOffDuty::end_late(Storage& storage, Batch& batch, base::WallTime now) const {
  auto counts = storage.journal.count(batch.id);
  if (!counts) return counts.error();
  batch.expires = now + life_;
  if (counts->running > 0) return changed(storage, batch);
  batch.state = kExpired;
  return storage.atomically([&] {
    Status withdrawn = storage.journal.withdraw(batch.id);
    return withdrawn.ok() ? changed(storage, batch) : withdrawn;
  });
}

base::Result<bool> PutOffDuty::end_idle(Storage& storage, base::WallTime now) {
  constexpr auto kLookEvery = std::chrono::seconds(1);
  if (now >= looked_ && now - looked_ < kLookEvery) return false;
  auto idle = storage.batches.idle(kPutOffKind, kUnderWay, kMostAtOnce);
  if (!idle) return idle.error();
  for (Batch& batch : *idle) {
    batch.state = kOver;
    batch.expires = now + life_;
    if (Status s = changed(storage, batch); !s.ok()) return s;
  }
  const bool more = idle->size() == kMostAtOnce;
  if (!more) looked_ = now;
  return more;
}

base::Result<bool> PutOffDuty::step(Storage& storage, base::WallTime now) {
  auto more = end_idle(storage, now);
  if (!more) return more.error();
  auto late = storage.batches.due(kPutOffKind, kUnderWay, now, kMostAtOnce);
  if (!late) return late.error();
  for (Batch& batch : *late)
    if (Status s = end_late(storage, batch, now); !s.ok()) return s;
  auto old = storage.batches.due(kPutOffKind, kEnded, now, kMostAtOnce);
  if (!old) return old.error();
  for (const Batch& batch : *old)
    if (Status s = remove_here(storage, batch.id); !s.ok()) return s;
  return *more || late->size() == kMostAtOnce || old->size() == kMostAtOnce;
}

}  // namespace weir::openai::responses
