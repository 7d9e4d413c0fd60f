// POST /v1/messages/batches.
#include <utility>

#include "base/overload.h"
#include "base/units.h"
#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/anthropic/request_lines.h"
#include "dialects/openai/batches/kept_body.h"

namespace weir::openai::anthropic {
namespace {

using base::Status;
using batches::BatchDocument;

constexpr base::Duration kWindow = std::chrono::hours(24);

class MessageUpload final : public batches::KeptBody {
 public:
  MessageUpload(OpenAiState& state, wire::Exchange& exchange)
      : KeptBody(state, exchange, "file-", largest(state.options.jobs->limits())),
        lines_({journal().limits().max_line, journal().limits().max_lines}) {
    batch_.id = journal().new_id("msgbatch_");
    batch_.kind = kMessagesKind, batch_.state = batches::kValidating;
    batch_.requester = journal().requester_of(exchange.request());
    batch_.created = file().created, batch_.expires = batch_.created + kWindow;
    batch_.jobs = jobs::Batch::Jobs::kWait;
  }

 private:
  static Bound largest(const jobs::Limits& limits) {
    return {limits.max_file,
            "the requests of a batch may have " + base::show_size(limits.max_file) + " (jobs.max_file)"};
  }
  Status read(std::string_view piece) override {
    std::string made;
    Status status = lines_.read(piece, made);
    if (status.ok() && !charge_held()) status = base::overloaded("there is no memory for the batch; try again later");
    return status.ok() && !made.empty() ? keep(made) : status;
  }
  bool charge_held() {
    const uint64_t held = lines_.held();
    if (held > charged_ && !charge().take(held - charged_)) return false;
    if (held < charged_) charge().give(charged_ - held);
    charged_ = held;
    return true;
  }
  Status finish() override {
    if (Status s = lines_.finish(); !s.ok()) return s;
    if (!lines_.ignored().empty()) exchange().extra_fields().add("weir-ignored", lines_.ignored());
    file().name = "requests.jsonl", file().expires = batch_.expires + kWindow;
    document_.endpoint = kMessagesPath, document_.input_file = file().id, document_.window = "24h";
    document_.deadline = batches::unix_seconds(batch_.expires);
    document_.counts.total = lines_.lines();
    return {};
  }
  Work with_file() override {
    return [batch = batch_, document = document_, limits = journal().limits()](jobs::Storage& s) {
      auto added = batches::add_batch(s, batch, document, limits);
      return added ? Status() : added.error();
    };
  }
  void answer() override { respond_json(exchange(), message_batch_json({batch_, document_, {}})); }

  RequestLines lines_;
  uint64_t charged_ = 0;  // of what it holds
  jobs::Batch batch_;
  BatchDocument document_;
};

}  // namespace

void create_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  if (batches::journal_of(state, exchange)) exchange.attach(std::make_unique<MessageUpload>(state, exchange));
}

}  // namespace weir::openai::anthropic
