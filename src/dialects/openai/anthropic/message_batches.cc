#include "dialects/openai/anthropic/message_batches.h"

#include <algorithm>
#include <utility>

#include "base/utc_time.h"
#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/anthropic/request_lines.h"
#include "marshal/json_tensor.h"

namespace weir::openai::anthropic {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using batches::BatchDocument;
using batches::Shown;
using jobs::Batch;
using jobs::Storage;
using wire::Exchange;

constexpr size_t kMostListed = 100, kUsuallyListed = 20;

std::string id_in(const wire::PathArgs& args) { return std::string(args["batch"]); }

void write_time(std::string& out, std::string_view name, int64_t at) {
  ((out += ",\"") += name) += "\":";
  if (at == 0) {
    out += "null";
    return;
  }
  out += '"';
  base::append_utc(out, base::WallTime(std::chrono::seconds(at)));
  out += '"';
}

int64_t ended_at(const BatchDocument& d) { return std::max({d.completed, d.failed, d.expired, d.cancelled}); }

// Until it has ended all of its requests are being processed.
void write_counts(std::string& out, const Shown& one) {
  const std::string& state = one.batch.state;
  uint64_t total = one.document.counts.total, succeeded = 0, errored = 0, canceled = 0, expired = 0, processing = total;
  if (batches::over(state)) {
    processing = 0;
    succeeded = one.counts.succeeded, errored = one.counts.failed;
    const uint64_t rest = total - std::min(total, one.counts.finished());
    (state == batches::kExpired ? expired : state == batches::kFailed ? errored : canceled) += rest;
  }
  const auto write = [&out](const char* name, uint64_t count) {
    out += out.back() == '{' ? "\"" : ",\"";
    (out += name) += "\":" + std::to_string(count);
  };
  out += ",\"request_counts\":{";
  write("processing", processing), write("succeeded", succeeded), write("errored", errored);
  write("canceled", canceled), write("expired", expired);
  out += '}';
}

void respond_with(Exchange& exchange, const Shown& one) { respond_json(exchange, message_batch_json(one)); }

// One whose requests are still read goes on with that: each has a result in the end.
Result<Shown> cancel(Storage& s, Batch batch, base::WallTime now) {
  auto there = batches::shown(s, batch);
  if (!there) return there;
  const std::string& state = there->batch.state;
  if (batches::over(state)) return base::invalid("the batch has ended: it cannot be canceled");
  if (state == batches::kFinalizing || there->document.cancelling > 0) return there;
  if (state != batches::kValidating) return batches::cancel(s, std::move(batch), now);
  there->document.cancelling = batches::unix_seconds(now);
  if (Status saved = batches::save(s, *there); !saved.ok()) return saved;
  return there;
}

Result<Shown> remove(Storage& s, Batch batch) {
  auto there = batches::shown(s, std::move(batch));
  if (!there) return there;
  if (!batches::over(there->batch.state))
    return base::invalid("a batch can be deleted once it has ended: cancel it before");
  Status removed = s.atomically([&] {
    Status status = s.batches.remove(there->batch.id);
    for (const std::string* file : {&there->document.output_file, &there->document.error_file})
      if (status.ok() && !file->empty()) status = s.files.remove(*file);
    return status;
  });
  if (!removed.ok()) return removed;
  return there;
}

Result<jobs::File> results_of(Storage& s, Batch batch) {
  auto there = batches::shown(s, std::move(batch));
  if (!there) return there.error();
  if (!batches::over(there->batch.state))
    return failure(Code::kNotFound, "the batch has not ended: it has no results yet");
  auto file = s.files.find(there->batch.requester.owner, there->document.output_file);
  if (!file) return file.error();
  if (*file) return **std::move(file);
  const auto& errors = there->document.errors;
  return failure(Code::kNotFound, "the batch has no results" + (errors.empty() ? "" : ": " + errors.front().message));
}

// The page of batches before `before`, the newest first.
Result<std::vector<Shown>> list_before(Storage& s, const std::string& owner, const std::string& before, size_t most) {
  auto out = batches::list_shown(s, owner, kMessagesKind, jobs::ListOrder::kOldestFirst, before, most);
  if (out) std::reverse(out->begin(), out->end());
  return out;
}

std::string page_json(std::vector<Shown> found, size_t limit, bool backward) {
  const bool more = found.size() > limit;
  if (more) found.erase(backward ? found.begin() : found.end() - 1);
  std::string out = "{\"data\":[";
  for (const Shown& one : found) {
    if (out.back() != '[') out += ',';
    out += message_batch_json(one);
  }
  end_page(out, more, found.empty() ? std::string_view() : found.front().batch.id,
           found.empty() ? std::string_view() : found.back().batch.id);
  return out;
}

}  // namespace

std::string message_batch_json(const Shown& one) {
  const BatchDocument& d = one.document;
  const std::string& state = one.batch.state;
  std::string out = "{\"id\":";
  marshal::write_string(out, one.batch.id);
  out += R"(,"type":"message_batch","processing_status":")";
  if (batches::over(state))
    out += "ended";
  else
    out += d.cancelling > 0 ? "canceling" : "in_progress";
  out += '"';
  write_counts(out, one);
  write_time(out, "created_at", batches::unix_seconds(one.batch.created));
  write_time(out, "expires_at", d.deadline);
  write_time(out, "ended_at", ended_at(d));
  write_time(out, "cancel_initiated_at", d.cancelling);
  out += ",\"archived_at\":null,\"results_url\":";
  // Below the client's base URL: what stands before that is not known here.
  if (d.output_file.empty())
    out += "null";
  else
    marshal::write_string(out, std::string(kMessagesPath) + "/batches/" + one.batch.id + "/results");
  return out += '}';
}

std::string result_line(const jobs::FinishedJob& job, batches::Missing missing) {
  std::string out = "{\"custom_id\":";
  marshal::write_string(out, job.label);
  out += ",\"result\":{\"type\":\"";
  if (!job.outcome || job.outcome->status == 0)
    return out += missing == batches::Missing::kExpired ? "expired\"}}\n" : "canceled\"}}\n";
  const auto& [status, fields, body] = *job.outcome;
  if (status >= 200 && status < 300 && !body.empty()) {
    out += "succeeded\",\"message\":";
    batches::write_on_one_line(out, body);
    return out += "}}\n";
  }
  out += "errored\",\"error\":";
  if (body.empty())
    out += anthropic_error_json(500, "there was no room for the answer (jobs.disk, jobs.tenant_disk)");
  else if (body.starts_with("{\"type\":\"error\""))
    batches::write_on_one_line(out, body);
  else
    out += anthropic_error_json(status, "the request was answered with status " + std::to_string(status));
  return out += "}}\n";
}

batches::BatchForm message_batch_form() { return {"/v1", kMessagesKind, result_line, batches::BatchForm::Files::kOwn}; }

void show_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  batches::with_batch(state, exchange, kMessagesKind, id_in(args), batches::shown, respond_with);
}

void cancel_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = state.options.jobs;
  batches::with_batch(
      state, exchange, kMessagesKind, id_in(args),
      [now = state.bus.env().wall()](Storage& s, Batch batch) { return cancel(s, std::move(batch), now); },
      respond_with, [journal](const Shown& one) { journal->cancel(one.batch.id); });
}

void delete_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  batches::with_batch(state, exchange, kMessagesKind, id_in(args), remove, [](Exchange& x, const Shown& one) {
    std::string out = "{\"id\":";
    marshal::write_string(out, one.batch.id);
    respond_json(x, out + R"(,"type":"message_batch_deleted"})");
  });
}

void batch_results(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = state.options.jobs;
  batches::with_batch(
      state, exchange, kMessagesKind, id_in(args), results_of,
      [journal](Exchange& x, const jobs::File& file) { batches::send_file(*journal, x, file, "application/x-jsonl"); });
}

void list_batches(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  jobs::ShardJobs* journal = batches::journal_of(state, exchange);
  if (!journal) return;
  const auto limit = batches::list_limit(exchange, kMostListed, kUsuallyListed);
  if (!limit) return;
  const wire::Request& request = exchange.request();
  const std::string before = request.query_value("before_id");
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(request).owner, after = request.query_value("after_id"), before,
       most = *limit + 1](Storage& s) {
        if (!before.empty()) return list_before(s, owner, before, most);
        return batches::list_shown(s, owner, kMessagesKind, jobs::ListOrder::kNewestFirst, after, most);
      },
      [limit = *limit, backward = !before.empty()](Exchange& x, Result<std::vector<Shown>> found) {
        if (!found) return respond(x, refuse(found.error()));
        respond_json(x, page_json(*std::move(found), limit, backward));
      });
}

}  // namespace weir::openai::anthropic
