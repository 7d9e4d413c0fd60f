#include "dialects/oip/async_infer.h"

#include "base/encoding.h"
#include "jobs/shard_jobs.h"
#include "marshal/json_tensor.h"
#include "wire/text.h"

namespace weir::oip {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using jobs::Batch;
using jobs::Storage;
using wire::Exchange;

constexpr std::string_view kKind = "oip";
constexpr std::string_view kAccepted = "accepted", kOver = "over";
constexpr std::string_view kAcceptedOnly[] = {kAccepted}, kAll[] = {kAccepted, kOver};
constexpr std::string_view kKept[] = {"content-type", "inference-header-content-length"};  // fields, both ways
constexpr int kTooEarly = 425;                                                             // RFC 8470
constexpr size_t kMostAtOnce = 16;

// Whether one element of Prefer is `respond-async`, whatever parameters it has.
bool wants_async(const wire::Request& request) {
  bool wants = false;
  wire::for_each_element(request.fields.find("prefer"), [&](std::string_view element) {
    wants = wants || wire::same_text(wire::trim(element.substr(0, element.find(';'))), "respond-async");
  });
  return wants;
}

Status add_job(Storage& s, const Batch& batch, const jobs::Job& job, const jobs::Limits& limits) {
  const std::string& owner = batch.requester.owner;
  // Those of the other dialect's words count as well.
  constexpr std::string_view kUnfinished[] = {kAccepted, "validating", "in_progress", "finalizing", "cancelling"};
  auto unfinished = s.batches.count(owner, kUnfinished);
  if (!unfinished) return unfinished.error();
  if (*unfinished >= limits.max_batches)
    return failure(Code::kResourceExhausted, "you have as many unfinished jobs as you may (jobs.max_batches)");
  auto use = s.files.use(owner);
  if (!use) return use.error();
  if (use->bytes + job.body.size() > limits.tenant_disk) return jobs::quota_is_used_up();
  return s.atomically([&] {
    Status added = s.batches.add(batch);
    return added.ok() ? s.journal.put(std::span(&job, 1)) : added;
  });
}

void respond_left(Exchange& exchange, const std::string& id) {
  wire::Response response;
  response.status = 202;
  response.fields.add("content-type", "application/json");
  response.fields.add("location", "/v2/jobs/" + id);
  response.fields.add("preference-applied", "respond-async");
  exchange.respond(std::move(response), base::Bytes::adopt(R"({"id":")" + id + R"(","status":"accepted"})"));
}

struct Shown {
  Batch batch;
  std::optional<jobs::FinishedJob> job;
  bool running = false;
};

// The journal; null, and the request is answered, where there is none.
jobs::ShardJobs* journal_of(OipState& state, Exchange& exchange) {
  jobs::ShardJobs* journal = state.options.jobs;
  const Status off = failure(Code::kUnimplemented, "jobs are not kept here");
  const Status& why = journal ? journal->available() : off;
  if (why.ok()) return journal;
  wire::respond_error(exchange, why);
  return nullptr;
}

// Finds the caller's job, and answers with `then`: void(Exchange&, Shown&&).
template <class Then>
void with_job(OipState& state, Exchange& exchange, const wire::PathArgs& args, Then then) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner,
       id = std::string(args["job"])](Storage& s) -> Result<std::optional<Shown>> {
        auto batch = s.batches.find(owner, id);
        if (!batch) return batch.error();
        if (!*batch || (*batch)->kind != kKind) return std::optional<Shown>();
        auto jobs = s.journal.list(id, 0, 1);
        if (!jobs) return jobs.error();
        auto counts = s.journal.count(id);
        if (!counts) return counts.error();
        Shown shown{**std::move(batch), {}, counts->running > 0};
        if (!jobs->empty() && jobs->front().outcome) shown.job = std::move(jobs->front());
        return std::optional<Shown>(std::move(shown));
      },
      [then](Exchange& x, Result<std::optional<Shown>> found) {
        if (!found) return wire::respond_error(x, found.error());
        if (!*found)
          return wire::respond_error(x, failure(Code::kNotFound, "there is no such job, or its time is over"));
        then(x, **std::move(found));
      });
}

int64_t unix_seconds(base::WallTime at) {
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
}

}  // namespace

bool left_as_job(OipState& state, Exchange& exchange) {
  jobs::ShardJobs* journal = state.options.jobs;
  if (!journal || !journal->available().ok() || !wants_async(exchange.request())) return false;
  const wire::Request& request = exchange.request();
  jobs::Job job;
  Batch batch{journal->new_id("job_"),
              std::string(kKind),
              journal->requester_of(request),
              std::string(kAccepted),
              {},
              journal->wall(),
              journal->wall() + journal->limits().result_ttl};
  job.id = {batch.id, 0};
  job.target = request.path();
  for (std::string_view name : kKept)
    if (request.fields.has(name)) ((job.fields += name) += ": ").append(request.fields.find(name)) += '\n';
  // The body keeps its charge while it waits for the journal's thread, which copies it.
  jobs::ask_for(
      *journal, exchange,
      [batch, job = std::move(job), body = exchange.content(), limits = journal->limits()](Storage& s) -> Result<bool> {
        jobs::Job with_body = job;
        with_body.body = body.view();
        if (Status added = add_job(s, batch, with_body, limits); !added.ok()) return added;
        return true;
      },
      [id = batch.id](Exchange& x, Result<bool> added) {
        if (!added) return wire::respond_error(x, added.error());
        respond_left(x, id);
      });
  return true;
}

void show_job(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_job(state, exchange, args, [](Exchange& x, Shown&& shown) {
    std::string_view status = shown.running ? "running" : "accepted";
    if (shown.job) status = shown.job->outcome->status < 400 ? "succeeded" : "failed";
    std::string out = "{\"id\":";
    marshal::write_string(out, shown.batch.id);
    out += ",\"status\":\"" + std::string(status) + "\"";
    if (shown.job) out += ",\"status_code\":" + std::to_string(shown.job->outcome->status);
    out += ",\"created_at\":" + std::to_string(unix_seconds(shown.batch.created)) +
           ",\"expires_at\":" + std::to_string(unix_seconds(shown.batch.expires)) + "}";
    respond_json(x, std::move(out));
  });
}

void job_result(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_job(state, exchange, args, [](Exchange& x, Shown&& shown) {
    if (!shown.job) {
      x.extra_fields().add("retry-after", "1");
      return wire::respond_error(x, kTooEarly, "the job is not over yet");
    }
    jobs::Outcome& outcome = *shown.job->outcome;
    wire::Fields fields;
    jobs::append_fields(outcome.fields, fields);
    wire::Response response;
    response.status = outcome.status;
    for (std::string_view name : kKept)
      if (fields.has(name)) response.fields.add(name, fields.find(name));
    if (outcome.status >= 400) x.record().code = base::code_from_http(outcome.status);
    auto body = base::adopt(x.memory(), base::MemoryKind::kAnswers, std::move(outcome.body));
    if (!body) return wire::respond_error(x, 503, "there is no memory for the answer; try again later");
    x.respond(std::move(response), *std::move(body));
  });
}

void delete_job(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const std::string id(args["job"]);
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id](Storage& s) -> Result<bool> {
        auto batch = s.batches.find(owner, id);
        if (!batch) return batch.error();
        if (!*batch || (*batch)->kind != kKind) return false;
        Status removed = s.atomically([&] { return s.batches.remove(id); });
        if (!removed.ok()) return removed;
        return true;
      },
      [](Exchange& x, Result<bool> removed) {
        if (!removed) return wire::respond_error(x, removed.error());
        if (!*removed)
          return wire::respond_error(x, failure(Code::kNotFound, "there is no such job, or its time is over"));
        x.respond(wire::Response{204, {}}, {});
      },
      [journal, id](bool removed) {
        if (removed) journal->cancel(id);
      });
}

base::Result<bool> AsyncDuty::step(Storage& storage, base::WallTime now) {
  auto idle = storage.batches.idle(kKind, kAcceptedOnly, kMostAtOnce);
  if (!idle) return idle.error();
  for (Batch& batch : *idle) {
    batch.state = kOver;
    batch.expires = now + limits_.result_ttl;
    if (auto changed = storage.batches.change(batch); !changed) return changed.error();
  }
  auto due = storage.batches.due(kKind, kAll, now, kMostAtOnce);
  if (!due) return due.error();
  for (const Batch& batch : *due) {
    Status removed = storage.atomically([&] { return storage.batches.remove(batch.id); });
    if (!removed.ok()) return removed;
  }
  return idle->size() == kMostAtOnce || due->size() == kMostAtOnce;
}

}  // namespace weir::oip
