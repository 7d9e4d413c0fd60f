#include "dialects/openai/batches/duty.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/sip_hash.h"
#include "jobs/shard_jobs.h"

namespace weir::openai::batches {
namespace {

using base::Status;

constexpr uint64_t kSlice = 256 << 10;  // bytes that are read or written in one
constexpr size_t kMostAtOnce = 64;      // batches that are looked at in one
constexpr base::Duration kFullWait = std::chrono::seconds(1);

constexpr std::string_view kTooManyLines = "too_many_requests";
constexpr std::string_view kInProgressOnly[] = {kInProgress}, kCancellingOnly[] = {kCancelling};
constexpr std::string_view kBusy[] = {kValidating, kFinalizing};
constexpr std::string_view kOver[] = {kCompleted, kFailed, kExpired, kCancelled};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == text.npos; }

Status flush(jobs::Storage& storage, std::string& text, const std::string& file, uint64_t& part) {
  if (text.empty()) return {};
  Status status = storage.files.append(file, part++, text);
  text.clear();
  return status;
}

}  // namespace

Status BatchDuty::Slice::save(std::string_view state) {
  batch.state = state;
  batch.document = show_document(document);
  auto saved = storage.batches.change(batch);
  return saved ? Status() : saved.error();
}

base::Result<bool> BatchDuty::step(jobs::Storage& storage, base::WallTime now) {
  if (Status s = end_due(storage, now); !s.ok()) return s;
  if (Status s = settle_idle(storage, now); !s.ok()) return s;
  auto busy = storage.batches.in_states(form_.kind, kBusy, kMostAtOnce);
  if (!busy) return busy.error();
  if (now < full_until_) std::erase_if(*busy, [](const jobs::Batch& batch) { return batch.state == kFinalizing; });
  if (busy->empty()) return false;
  Slice slice{storage, now, std::move((*busy)[turn_ % busy->size()]), {}};
  auto document = read_document(slice.batch.document);
  if (document) slice.document = *std::move(document);
  const bool has_results = slice.batch.state == kFinalizing;
  const Writing before = has_results ? writing_ : Writing();
  base::Result<bool> more = false;
  Status status = storage.atomically([&] {
    more = advance(slice);
    return more ? Status() : more.error();
  });
  // Lines that find no room fail their batch. Results are there already, and wait for it where they are; what else goes
  // wrong may be over in a while.
  const bool no_room = status.code == base::Code::kResourceExhausted || status == jobs::disk_is_full();
  if (no_room && has_results) {
    writing_ = before;
    full_until_ = now + kFullWait;
    return status;
  }
  if (status.code == base::Code::kResourceExhausted)
    status = storage.atomically([&] { return fail(slice, "insufficient_storage", status.text); });
  if (!status.ok()) {
    reading_ = {}, writing_ = {};
    ++turn_;
    return status;
  }
  return true;
}

base::Result<bool> BatchDuty::advance(Slice& slice) {
  return slice.batch.state == kValidating ? validate(slice) : finalize(slice);
}

// The lines of one part of the file become jobs.
base::Result<bool> BatchDuty::validate(Slice& slice) {
  if (reading_.batch != slice.batch.id)
    if (Status s = begin_reading(slice); !s.ok()) return s;
  auto file = slice.storage.files.find(slice.batch.requester.owner, slice.document.input_file);
  if (!file) return file.error();
  if (!*file) {
    Status failed = fail(slice, "invalid_input_file", "the input file is gone");
    return failed.ok() ? base::Result<bool>(false) : base::Result<bool>(failed);
  }
  auto text = slice.storage.files.read(slice.document.input_file, reading_.part++);
  if (!text) return text.error();
  reading_.whole = text->empty();
  std::vector<jobs::Job> jobs;
  take_lines(slice, *text, jobs);
  Status status = slice.document.errors.empty() ? check_room(slice, **file, jobs) : Status();
  if (status.ok() && slice.document.errors.empty()) status = slice.storage.journal.put(jobs);
  if (status.ok()) status = reading_.whole ? end_validation(slice) : slice.save(kValidating);
  if (!status.ok()) return status;
  return true;
}

// Batches of one file may have been begun while none of them had its lines. What an input has that goes once it is read
// is granted once more until then: its requests do not count twice.
Status BatchDuty::check_room(Slice& slice, const jobs::File& input, const std::vector<jobs::Job>& jobs) {
  auto use = slice.storage.files.use(slice.batch.requester.owner);
  if (!use) return use.error();
  uint64_t bytes = use->bytes;
  for (const jobs::Job& job : jobs) bytes += job.body.size();
  const uint64_t granted = form_.files == BatchForm::Files::kOwn ? input.bytes : 0;
  return bytes > limits_.tenant_disk + granted ? jobs::quota_is_used_up() : Status();
}

Status BatchDuty::begin_reading(Slice& slice) {
  reading_ = {};
  reading_.batch = slice.batch.id;
  slice.document.lines = 0;
  slice.document.errors.clear();
  return slice.storage.journal.remove(slice.batch.id);
}

void BatchDuty::take_lines(Slice& slice, std::string_view text, std::vector<jobs::Job>& jobs) {
  reading_.rest += text;
  std::string_view rest = reading_.rest;
  for (;;) {
    const size_t end = rest.find('\n');
    if (end == rest.npos && !(reading_.whole && !rest.empty()) && rest.size() <= limits_.max_line) break;
    take_line(slice, rest.substr(0, end), jobs);
    // A line that is too long is not looked through: nothing behind it is known to be a line.
    if (end == rest.npos) reading_.whole = true;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    const auto& errors = slice.document.errors;
    const bool enough = errors.size() >= kMostErrors || (!errors.empty() && errors.back().code == kTooManyLines);
    if (enough) reading_.whole = true, rest = {};
    if (reading_.whole && rest.empty()) break;
  }
  reading_.rest = std::string(rest);
}

void BatchDuty::take_line(Slice& slice, std::string_view text, std::vector<jobs::Job>& jobs) {
  ++reading_.line;
  if (is_blank(text)) return;
  BatchDocument& d = slice.document;
  Line line;
  LineError error;
  if (text.size() > limits_.max_line)
    error = {"line_too_long", "a line may have " + std::to_string(limits_.max_line) + " bytes (jobs.max_line)", {}};
  else if (d.lines >= limits_.max_lines)
    error = {kTooManyLines, "a batch may have " + std::to_string(limits_.max_lines) + " lines (jobs.max_lines)", {}};
  else
    error = read_line(text, d.endpoint, line);
  if (error.ok() && !reading_.ids.insert(base::hash64(base::process_key(), line.custom_id)).second)
    error = {"duplicate_custom_id", "The custom_id '" + line.custom_id + "' for this request is a duplicate of another",
             "custom_id"};
  if (!error.ok()) {
    d.errors.push_back({std::string(error.code), std::move(error.message), std::string(error.param), reading_.line});
    return;
  }
  jobs::Job job;
  job.id = {slice.batch.id, d.lines++};
  job.label = std::move(line.custom_id), job.model = std::move(line.model);
  job.target = form_.prefix + d.endpoint.substr(std::string_view("/v1").size());
  job.fields = "content-type: application/json\n";
  job.body = line.body;
  jobs.push_back(std::move(job));
}

Status BatchDuty::end_validation(Slice& slice) {
  reading_ = {};
  BatchDocument& d = slice.document;
  if (d.errors.empty() && d.lines == 0) d.errors.push_back({"empty_file", "the input file has no requests", "", 0});
  if (!d.errors.empty()) return fail(slice, {}, {});
  d.in_progress = unix_seconds(slice.now);
  slice.batch.jobs = jobs::Batch::Jobs::kRun;
  if (Status s = drop_input(slice); !s.ok()) return s;
  // It was cancelled meanwhile: each of its lines has a result all the same.
  return slice.save(d.cancelling > 0 ? kCancelling : kInProgress);
}

Status BatchDuty::drop_input(Slice& slice) {
  return form_.files == BatchForm::Files::kOwn ? slice.storage.files.remove(slice.document.input_file) : Status();
}

// Past its window a batch runs no more of its lines. Those that are over go when their time has come.
Status BatchDuty::end_due(jobs::Storage& storage, base::WallTime now) {
  auto late = storage.batches.due(form_.kind, kInProgressOnly, now, kMostAtOnce);
  if (!late) return late.error();
  for (const auto& batch : *late)
    if (Status s = storage.journal.withdraw(batch.id); !s.ok()) return s;
  auto cancelling = storage.batches.in_states(form_.kind, kCancellingOnly, kMostAtOnce);
  if (!cancelling) return cancelling.error();
  for (const auto& batch : *cancelling)
    if (Status s = storage.journal.withdraw(batch.id); !s.ok()) return s;
  auto old = storage.batches.due(form_.kind, kOver, now, 1);
  if (!old) return old.error();
  for (const auto& batch : *old)
    if (Status s = storage.batches.remove(batch.id); !s.ok()) return s;
  auto files = storage.files.expired(now, 1);
  if (!files) return files.error();
  for (const auto& file : *files)
    if (Status s = storage.files.remove(file); !s.ok()) return s;
  return {};
}

// Batches whose last job is over.
Status BatchDuty::settle_idle(jobs::Storage& storage, base::WallTime now) {
  constexpr std::string_view kRunning[] = {kInProgress, kCancelling};
  auto idle = storage.batches.idle(form_.kind, kRunning, 1);
  if (!idle) return idle.error();
  for (auto& batch : *idle) {
    Slice slice{storage, now, std::move(batch), {}};
    if (auto document = read_document(slice.batch.document)) slice.document = *std::move(document);
    auto counts = storage.journal.count(slice.batch.id);
    if (!counts) return counts.error();
    const bool all = counts->finished() == counts->total;
    std::string_view end = kCompleted;
    if (slice.batch.state == kCancelling)
      end = kCancelled;
    else if (!all)
      end = kExpired;
    slice.document.ends_as = end;
    slice.document.finalizing = unix_seconds(now);
    if (Status s = slice.save(kFinalizing); !s.ok()) return s;
  }
  return {};
}

// A slice of the results goes into the files.
base::Result<bool> BatchDuty::finalize(Slice& slice) {
  if (writing_.batch != slice.batch.id)
    if (Status s = begin_writing(slice); !s.ok()) return s;
  auto jobs = slice.storage.journal.list(slice.batch.id, writing_.next, kSlice);
  if (!jobs) return jobs.error();
  const bool expired = slice.document.ends_as == kExpired;
  for (const auto& job : *jobs) {
    writing_.next = job.id.index + 1;
    const bool good = job.outcome && job.outcome->status >= 200 && job.outcome->status < 400;
    const bool answered = job.outcome && job.outcome->status != 0;
    ++writing_.counts.total;
    if (answered) ++(good && !job.outcome->body.empty() ? writing_.counts.succeeded : writing_.counts.failed);
    Output& to = good || form_.files == BatchForm::Files::kOwn ? writing_.output : writing_.errors;
    const std::string line = form_.line(job, expired ? Missing::kExpired : Missing::kCancelled);
    to.text += line;
    to.bytes += line.size();
  }
  for (Output* to : {&writing_.output, &writing_.errors})
    if (jobs->empty() || to->text.size() >= kSlice)
      if (Status s = flush(slice.storage, to->text, to->file, to->part); !s.ok()) return s;
  if (!jobs->empty()) return true;
  Status status = finish(slice);
  if (!status.ok()) return status;
  return false;
}

Status BatchDuty::begin_writing(Slice& slice) {
  writing_ = {};
  writing_.batch = slice.batch.id;
  const std::string digits = slice.batch.id.substr(slice.batch.id.find('_') + 1);
  writing_.output.file = "file-" + digits + "-output";
  writing_.errors.file = "file-" + digits + "-errors";
  Status status = slice.storage.files.remove(writing_.output.file);
  if (status.ok()) status = slice.storage.files.remove(writing_.errors.file);
  return status;
}

Status BatchDuty::finish(Slice& slice) {
  BatchDocument& d = slice.document;
  base::Duration ttl = limits_.file_ttl;
  if (d.output_ttl > 0) ttl = std::min<base::Duration>(ttl, std::chrono::seconds(d.output_ttl));
  const std::string purpose = form_.files == BatchForm::Files::kOwn ? "" : "batch_output";
  auto add = [&](Output& output, std::string_view what, std::string& id) -> Status {
    if (output.bytes == 0) return {};
    id = output.file;
    return slice.storage.files.add({output.file, slice.batch.requester.owner,
                                    slice.batch.id + "_" + std::string(what) + ".jsonl", purpose, output.bytes,
                                    slice.now, slice.now + ttl});
  };
  if (Status s = add(writing_.output, "output", d.output_file); !s.ok()) return s;
  if (Status s = add(writing_.errors, "error", d.error_file); !s.ok()) return s;
  auto counts = slice.storage.journal.count(slice.batch.id);
  if (!counts) return counts.error();
  // One that was ended while it ran has failed to OpenAI's clients; to others it is canceled, or has expired.
  d.counts = form_.files == BatchForm::Files::kOwn ? writing_.counts : *counts;
  const int64_t now = unix_seconds(slice.now);
  if (d.ends_as == kCompleted) d.completed = now;
  if (d.ends_as == kExpired) d.expired = now;
  if (d.ends_as == kCancelled) d.cancelled = now;
  slice.batch.expires = slice.now + limits_.file_ttl;
  if (Status s = slice.storage.journal.remove(slice.batch.id); !s.ok()) return s;
  writing_ = {};
  return slice.save(d.ends_as);
}

Status BatchDuty::fail(Slice& slice, std::string_view code, std::string message) {
  if (!code.empty()) slice.document.errors.push_back({std::string(code), std::move(message), "", 0});
  slice.document.failed = unix_seconds(slice.now);
  slice.batch.expires = slice.now + limits_.file_ttl;
  if (Status s = drop_input(slice); !s.ok()) return s;
  for (const std::string* file : {&writing_.output.file, &writing_.errors.file})
    if (writing_.batch == slice.batch.id)
      if (Status s = slice.storage.files.remove(*file); !s.ok()) return s;
  reading_ = {}, writing_ = {};
  if (Status s = slice.storage.journal.remove(slice.batch.id); !s.ok()) return s;
  return slice.save(kFailed);
}

}  // namespace weir::openai::batches
