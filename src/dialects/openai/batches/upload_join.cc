// Parts become a file: they are copied on the store's thread, 1 MiB at a time. Nobody sees the file before all of it is
// there. Where the client says an md5, the parts are read once before: a wrong one writes nothing.
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

constexpr size_t kRowsAtOnce = 4;  // of 256 KiB

// One pass over the parts, as far as it is.
struct Joined {
  enum class Pass : uint8_t { kCheck, kCopy } pass = Pass::kCopy;
  size_t part = 0;   // that is read
  uint64_t row = 0;  // of it, that is read next
  uint64_t rows = 0, bytes = 0;
  marshal::Md5 md5;  // of kCheck
};

// The part of it that does not change while the parts are joined.
struct Plan {
  jobs::File file;
  std::string upload;
  CompleteRequest request;
  uint64_t tenant_disk = 0;
};

Status part_is_gone() { return base::invalid("a part of the upload is gone"); }

// The parts have been admitted, and go when the file is there: beside them it may have as much again, or an upload of
// more than half of a tenant's disk could not be completed.
Status write_row(Storage& s, const Plan& plan, uint64_t row, std::string_view text) {
  auto use = s.files.use(plan.file.owner);
  if (!use) return use.error();
  if (use->bytes + text.size() > plan.tenant_disk + plan.file.bytes) return jobs::quota_is_used_up();
  return s.files.append(plan.file.id, row, text, plan.file.owner);
}

Result<bool> pass_row(Storage& s, const Plan& plan, Joined& to) {
  auto text = s.files.read(plan.request.parts[to.part], to.row);
  if (!text) return text.error();
  if (text->empty()) {
    if (to.row == 0) return part_is_gone();
    ++to.part, to.row = 0;
    return true;
  }
  if (to.pass == Joined::Pass::kCheck)
    to.md5.add(*text);
  else if (Status written = write_row(s, plan, to.rows, *text); !written.ok())
    return written;
  ++to.row, ++to.rows;
  to.bytes += text->size();
  return true;
}

Result<Joined> pass_some(Storage& s, const Plan& plan, const Joined& from) {
  Joined to;
  auto pass = [&]() -> Status {
    to = from;
    for (size_t i = 0; i < kRowsAtOnce && to.part < plan.request.parts.size(); ++i)
      if (auto passed = pass_row(s, plan, to); !passed) return passed.error();
    return {};
  };
  Status status = from.pass == Joined::Pass::kCheck ? pass() : s.atomically(pass);
  if (!status.ok()) return status;
  return to;
}

// The file is there and the upload complete, or neither.
Result<UploadRecord> end_upload(Storage& s, const Plan& plan, base::WallTime now) {
  auto upload = find_pending(s, plan.file.owner, plan.upload, now);
  if (!upload) return upload;
  auto use = s.files.use(plan.file.owner);
  if (!use) return use.error();
  upload->file = plan.file;
  upload->batch.state = kJoined;
  Status status = s.atomically([&] {
    Status added = s.files.add(plan.file);
    return added.ok() ? save(s, *upload) : added;
  });
  if (status.code == Code::kAborted)
    status = base::try_again(Code::kUnavailable, "a part of the file was lost; try again");
  if (!status.ok()) return status;
  return upload;
}

class Joining final : public wire::ExchangeListener {
 public:
  Joining(jobs::ShardJobs& journal, Exchange& exchange, Plan plan)
      : journal_(journal), exchange_(exchange), plan_(std::make_shared<const Plan>(std::move(plan))) {
    if (!plan_->request.md5.empty()) joined_.pass = Joined::Pass::kCheck;
    go_on();
  }
  // A client that leaves while the upload is ended may have its file all the same.
  void on_close(Exchange&, bool) override {
    question_ = nullptr;
    if (!over_) forget();
  }

 private:
  void go_on() {
    if (joined_.part == plan_->request.parts.size()) return end();
    ask<Joined>([plan = plan_, from = joined_](Storage& s) { return pass_some(s, *plan, from); },
                [this](Joined to) {
                  joined_ = std::move(to);
                  go_on();
                });
  }
  void end() {
    if (joined_.bytes != plan_->file.bytes) return fail(part_is_gone());
    if (joined_.pass == Joined::Pass::kCheck) {
      if (plan_->request.md5 != joined_.md5.hex()) return fail(base::invalid("md5 is not that of the parts"));
      joined_ = {};
      return go_on();
    }
    ask<UploadRecord>([plan = plan_, now = journal_.wall()](Storage& s) { return end_upload(s, *plan, now); },
                      [this](const UploadRecord& upload) {
                        over_ = true;
                        respond_json(exchange_, upload_json(upload));
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
  void fail(const Status& why) {
    over_ = true;
    forget();
    respond(exchange_, refuse(why));
  }
  // Parts that were written of a file that does not become one go.
  void forget() {
    if (joined_.pass == Joined::Pass::kCheck) return;
    journal_.tell([plan = plan_](Storage& s) -> Status {
      auto there = s.files.find(plan->file.owner, plan->file.id);
      if (!there) return there.error();
      return *there ? Status() : s.atomically([&] { return s.files.remove(plan->file.id); });
    });
  }

  jobs::ShardJobs& journal_;
  Exchange& exchange_;
  const std::shared_ptr<const Plan> plan_;
  Joined joined_;
  jobs::ShardJobs::Question question_;
  bool over_ = false;
};

}  // namespace

void join_parts(OpenAiState& state, Exchange& exchange, const UploadRecord& upload, CompleteRequest&& request) {
  jobs::ShardJobs& journal = *state.options.jobs;
  const base::WallTime now = journal.wall();
  base::Duration ttl = journal.limits().file_ttl;
  if (upload.ttl > 0) ttl = std::min<base::Duration>(ttl, std::chrono::seconds(upload.ttl));
  Plan plan;
  plan.file = {
      journal.new_id("file-"), upload.batch.requester.owner, upload.name, upload.purpose, upload.bytes, now, now + ttl};
  plan.upload = upload.batch.id, plan.request = std::move(request);
  plan.tenant_disk = journal.limits().tenant_disk;
  exchange.attach(std::make_unique<Joining>(journal, exchange, std::move(plan)));
}

}  // namespace weir::openai::batches
