// POST /v1/messages/batches.
#include <memory>
#include <utility>

#include "base/attempt.h"
#include "base/overload.h"
#include "base/units.h"
#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/anthropic/request_lines.h"
#include "dialects/openai/batches/kept_body.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::openai::anthropic {
namespace {

using base::Status;
using batches::BatchDocument;

constexpr base::Duration kWindow = std::chrono::hours(24);

Status no_memory() { return base::overloaded("there is no memory for the batch; try again later"); }

// A piece of the body by which a long request may be complete.
class ReadLines final : public base::OffloadTask {
 public:
  ReadLines(std::unique_ptr<RequestLines> of, std::string piece) : lines(std::move(of)), piece_(std::move(piece)) {}
  void run() override {
    auto thrown = base::attempt("reading requests", [this] { status = lines->read(piece_, made); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  std::unique_ptr<RequestLines> lines;
  Status status;  // after run(), as the next
  std::string made;

 private:
  const std::string piece_;
};

class MessageUpload final : public batches::KeptBody {
 public:
  MessageUpload(OpenAiState& state, wire::Exchange& exchange)
      : KeptBody(state, exchange, "file-", largest(state.options.jobs->limits())),
        lines_(std::make_unique<RequestLines>(
            RequestLines::Bounds{journal().limits().max_line, journal().limits().max_lines})) {
    batch_.id = journal().new_id("msgbatch_");
    batch_.kind = kMessagesKind, batch_.state = batches::kValidating;
    batch_.requester = journal().requester_of(exchange.request());
    batch_.created = file().created, batch_.expires = batch_.created + kWindow;
    batch_.jobs = jobs::Batch::Jobs::kWait;
  }
  void on_close(wire::Exchange& exchange, bool clean) override {
    sent_ = nullptr;
    KeptBody::on_close(exchange, clean);
  }

 private:
  static Bound largest(const jobs::Limits& limits) {
    return {limits.max_file,
            "the requests of a batch may have " + base::show_size(limits.max_file) + " (jobs.max_file)"};
  }
  // Pieces of a long request are read by a worker, one at a time, and what comes meanwhile is the next.
  Status read(std::string_view piece) override {
    if (!sent_ && (!state().options.offload || lines_->begun() + piece.size() <= wire::kLongBody)) {
      std::string made;
      Status status = lines_->read(piece, made);
      return take(std::move(status), made);
    }
    if (!charge().take(piece.size())) return no_memory();
    next_ += piece;
    return sent_ ? Status() : send();
  }
  bool waits() const override { return sent_ != nullptr; }
  Status send() {
    const size_t piece = next_.size(), bytes = lines_->begun() + piece;
    auto task = std::make_unique<ReadLines>(std::move(lines_), std::exchange(next_, {}));
    auto done = [this, piece](const Status& status, std::unique_ptr<base::OffloadTask> read) {
      wire::guarded(exchange(), [&] { has_read(status, std::move(read), piece); });
    };
    // Once it has begun no limit breaks it off.
    using Part = wire::Offload::Part;
    const Part part = std::exchange(admitted_, true) ? Part::kAnswer : Part::kRequest;
    auto sent = state().options.offload->send(std::move(task), bytes, part, exchange(), std::move(done));
    if (!sent) return sent.error();
    sent_ = *std::move(sent);
    return {};
  }
  void has_read(Status status, std::unique_ptr<base::OffloadTask> task, size_t piece) {
    sent_ = nullptr;
    charge().give(piece);
    if (status.ok()) {
      auto& read = static_cast<ReadLines&>(*task);
      lines_ = std::move(read.lines);
      status = take(std::move(read.status), read.made);
    }
    if (status.ok() && !next_.empty()) status = send();
    resume(status);
  }
  Status take(Status status, std::string_view made) {
    if (status.ok() && !charge_held()) status = no_memory();
    return status.ok() && !made.empty() ? keep(made) : status;
  }
  bool charge_held() {
    const uint64_t held = lines_->held();
    if (held > charged_ && !charge().take(held - charged_)) return false;
    if (held < charged_) charge().give(charged_ - held);
    charged_ = held;
    return true;
  }
  Status finish() override {
    if (Status s = lines_->finish(); !s.ok()) return s;
    if (!lines_->ignored().empty()) exchange().extra_fields().add("weir-ignored", lines_->ignored());
    file().name = "requests.jsonl", file().expires = batch_.expires + kWindow;
    document_.endpoint = kMessagesPath, document_.input_file = file().id, document_.window = "24h";
    document_.deadline = batches::unix_seconds(batch_.expires);
    document_.counts.total = lines_->lines();
    return {};
  }
  Work with_file() override {
    return [batch = batch_, document = document_, limits = journal().limits()](jobs::Storage& s) {
      auto added = batches::add_batch(s, batch, document, limits);
      return added ? Status() : added.error();
    };
  }
  void answer() override { respond_json(exchange(), message_batch_json({batch_, document_, {}})); }

  std::unique_ptr<RequestLines> lines_;  // null: a worker has it
  std::unique_ptr<wire::SentTask> sent_;
  std::string next_;       // of the body, behind what the worker has
  bool admitted_ = false;  // by the workers
  uint64_t charged_ = 0;   // of what it holds
  jobs::Batch batch_;
  BatchDocument document_;
};

}  // namespace

void create_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  if (batches::journal_of(state, exchange)) exchange.attach(std::make_unique<MessageUpload>(state, exchange));
}

}  // namespace weir::openai::anthropic
