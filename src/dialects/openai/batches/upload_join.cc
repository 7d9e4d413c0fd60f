// Parts become a file: they are copied on the store's thread, 1 MiB at a time. How far that is stands in the upload's
// record, so that it has one copy: a request for the same parts goes on where another has left it, or beside it. One
// for others, or in another order, begins anew, and those before it end with 409. Nobody sees the file before all of it
// is there. Where the client says an md5, the parts are read once before: a wrong one writes nothing.
#include <algorithm>
#include <memory>
#include <utility>

#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "dialects/openai/batches/uploads.h"
#include "jobs/shard_jobs.h"
#include "marshal/md5.h"

namespace weir::openai::batches {
namespace {

using base::Code;
using base::Result;
using base::Status;
using jobs::Storage;
using wire::Exchange;

// A slice has so many at most. Rows have 256 KiB and a bit, and those of short parts less.
constexpr size_t kBytesAtOnce = 1 << 20, kRowsAtOnce = 64;

// The part of it that does not change while the parts are joined.
struct Plan {
  std::string owner, upload;
  std::string file;  // the id of a copy that this request begins
  Completion completion;
  base::Duration ttl{};
  uint64_t tenant_disk = 0;
};

Status part_is_gone() { return base::invalid("a part of the upload is gone"); }

Status other_parts() {
  return base::failure(Code::kAborted, "another request completes the upload with other parts, or in another order");
}

// How far the parts are read for their md5.
struct Checked {
  size_t next = 0;  // place in the order of the part that is read
  uint64_t row = 0;
  marshal::Md5 md5;
  std::optional<UploadRecord> complete;  // by another request, meanwhile
};

Result<Checked> check_some(Storage& s, const Plan& plan, Checked to, base::WallTime now) {
  auto upload = find_to_complete(s, plan.owner, plan.upload, now);
  if (!upload) return upload.error();
  if (upload->file) {
    to.complete = *std::move(upload);
    return to;
  }
  const auto& order = plan.completion.order;
  size_t bytes = 0;
  for (size_t i = 0; i < kRowsAtOnce && bytes < kBytesAtOnce && to.next < order.size(); ++i) {
    auto text = s.files.read(upload->parts.at(order[to.next]).id, to.row);
    if (!text) return text.error();
    if (text->empty() && to.row == 0) return part_is_gone();
    bytes += text->size();
    to.md5.add(*text);
    text->empty() ? (++to.next, to.row = 0) : ++to.row;
  }
  return to;
}

// The parts have been admitted, and go when the file is there: beside them it may have as much again, or an upload of
// more than half of a tenant's disk could not be completed.
Status write_row(Storage& s, const Plan& plan, const UploadRecord& upload, std::string_view text) {
  auto use = s.files.use(plan.owner);
  if (!use) return use.error();
  if (use->bytes + text.size() > plan.tenant_disk + upload.bytes) return jobs::quota_is_used_up();
  return s.files.append(upload.copy->file, upload.copy->rows, text, plan.owner);
}

Status copy_rows(Storage& s, const Plan& plan, UploadRecord& upload) {
  UploadRecord::Copy& copy = *upload.copy;
  const uint64_t most = copy.bytes + kBytesAtOnce;
  for (size_t i = 0; i < kRowsAtOnce && copy.bytes < most && copy.next < copy.order.size(); ++i) {
    auto text = s.files.read(upload.parts.at(copy.order[copy.next]).id, copy.row);
    if (!text) return text.error();
    if (text->empty()) {
      if (copy.row == 0) return part_is_gone();
      ++copy.next, copy.row = 0;
      continue;
    }
    if (Status written = write_row(s, plan, upload, *text); !written.ok()) return written;
    ++copy.row, ++copy.rows;
    copy.bytes += text->size();
  }
  return {};
}

// The file is there and the upload complete, or neither.
Status add_file(Storage& s, const Plan& plan, UploadRecord& upload, base::WallTime now) {
  const UploadRecord::Copy copy = *std::exchange(upload.copy, std::nullopt);
  if (copy.bytes != upload.bytes) return part_is_gone();
  base::Duration ttl = plan.ttl;
  if (upload.ttl > 0) ttl = std::min<base::Duration>(ttl, std::chrono::seconds(upload.ttl));
  upload.file = jobs::File{copy.file, plan.owner, upload.name, upload.purpose, copy.bytes, now, now + ttl};
  upload.batch.state = kJoined;
  return s.files.add(*upload.file);
}

// The copy that there was is removed.
Status begin_copy(Storage& s, const Plan& plan, const std::string& file, UploadRecord& upload) {
  Status removed = upload.copy ? s.files.remove(upload.copy->file) : Status();
  upload.copy = UploadRecord::Copy{file, plan.completion.order};
  return removed;
}

// Goes on with a copy: `mine`, or, where that is empty, the one of these parts that there is, or another, which takes
// its place. It begins anew where a process or a node has died with it, and what it had written is gone.
Status go_on(Storage& s, const Plan& plan, const std::string& mine, UploadRecord& upload) {
  const bool there = upload.copy && (!mine.empty() || upload.copy->order == plan.completion.order);
  if (!there) return begin_copy(s, plan, mine.empty() ? plan.file : mine, upload);
  auto appended = s.files.appended(upload.copy->file);
  if (!appended) return appended.error();
  return *appended == upload.copy->bytes ? Status() : begin_copy(s, plan, std::string(upload.copy->file), upload);
}

// A copy that finds no room leaves none taken.
void drop_copy(Storage& s, const Plan& plan, const std::string& file, base::WallTime now) {
  auto upload = find_pending(s, plan.owner, plan.upload, now);
  if (!upload || !upload->copy || upload->copy->file != file) return;
  upload->copy.reset();
  (void)s.atomically([&] {
    Status removed = s.files.remove(file);
    return removed.ok() ? save(s, *upload) : removed;
  });
}

// The upload with its copy a slice further, or complete. `mine`: the file of the copy that the request goes on with;
// empty: it has none yet.
Result<UploadRecord> copy_some(Storage& s, const Plan& plan, const std::string& mine, base::WallTime now) {
  auto upload = find_to_complete(s, plan.owner, plan.upload, now);
  if (!upload) return upload;
  if (upload->file && (mine.empty() || upload->file->id == mine)) return upload;
  if (upload->file || (!mine.empty() && upload->copy && upload->copy->file != mine)) return other_parts();
  const std::string before = upload->copy ? upload->copy->file : mine;
  Status status = s.atomically([&] {
    Status done = go_on(s, plan, mine, *upload);
    if (done.ok()) done = copy_rows(s, plan, *upload);
    if (done.ok() && upload->copy->next == upload->copy->order.size()) done = add_file(s, plan, *upload, now);
    return done.ok() ? save(s, *upload) : done;
  });
  if (status.code == Code::kResourceExhausted) drop_copy(s, plan, before, now);
  if (!status.ok()) return status;
  return upload;
}

class Joining final : public wire::ExchangeListener {
 public:
  Joining(jobs::ShardJobs& journal, Exchange& exchange, Plan plan)
      : journal_(journal), exchange_(exchange), plan_(std::make_shared<const Plan>(std::move(plan))) {}

  // Once it is attached.
  void begin() { plan_->completion.md5.empty() ? copy() : check({}); }
  // The copy stays, for the next request. It goes with an upload that nobody completes.
  void on_close(Exchange&, bool) override { question_ = nullptr; }

 private:
  void check(Checked from) {
    ask<Checked>([plan = plan_, from = std::move(from),
                  now = journal_.wall()](Storage& s) { return check_some(s, *plan, from, now); },
                 [this](Checked to) {
                   if (to.complete) return answer(*to.complete);
                   if (to.next < plan_->completion.order.size()) return check(std::move(to));
                   if (plan_->completion.md5 != to.md5.hex())
                     return fail(base::invalid("md5 is not that of the parts"));
                   copy();
                 });
  }
  void copy() {
    ask<UploadRecord>(
        [plan = plan_, file = file_, now = journal_.wall()](Storage& s) { return copy_some(s, *plan, file, now); },
        [this](UploadRecord upload) {
          if (upload.file) return answer(upload);
          file_ = upload.copy->file;
          copy();
        });
  }
  template <class Answer, class Work, class Then>
  void ask(Work work, Then then) {
    auto question = journal_.ask(std::move(work), [this, then](Result<Answer> answer) {
      question_ = nullptr;
      wire::guarded(exchange_, [&] { answer ? then(*std::move(answer)) : fail(answer.error()); });
    });
    if (!question) return fail(question.error());
    question_ = *std::move(question);
  }
  void answer(const UploadRecord& upload) { respond_json(exchange_, upload_json(upload)); }
  void fail(const Status& why) { respond(exchange_, journal_error(why)); }

  jobs::ShardJobs& journal_;
  Exchange& exchange_;
  const std::shared_ptr<const Plan> plan_;
  std::string file_;  // of the copy that it goes on with; empty: none yet
  jobs::ShardJobs::Question question_;
};

}  // namespace

void join_parts(OpenAiState& state, Exchange& exchange, const UploadRecord& upload, Completion&& completion) {
  jobs::ShardJobs& journal = *state.options.jobs;
  const jobs::Limits& limits = journal.limits();
  auto joining = std::make_unique<Joining>(journal, exchange,
                                           Plan{upload.batch.requester.owner, upload.batch.id, journal.new_id("file-"),
                                                std::move(completion), limits.file_ttl, limits.tenant_disk});
  Joining& begun = *joining;
  exchange.attach(std::move(joining));
  begun.begin();
}

}  // namespace weir::openai::batches
