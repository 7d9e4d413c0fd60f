#include "engines/forward/oip/rest_kind.h"

#include <atomic>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/answer_body.h"
#include "engines/forward/get.h"
#include "engines/forward/http_attempt.h"
#include "engines/forward/oip/message.h"
#include "engines/forward/oip/rest_message.h"
#include "engines/forward/oip/tensor_questions.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"
#include "sched/fit.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr size_t kMostRefusal = 64 << 10;
constexpr std::string_view kHeaderLength = "inference-header-content-length";

// "/v2/models/a%20b/versions/3"
std::string path_of(const Options& options) {
  std::string out = "/v2/models/" + base::percent_encode(options.model);
  if (!options.version.empty()) out += "/versions/" + base::percent_encode(options.version);
  return out;
}

enum class TensorForm : uint8_t { kJson, kBytes };

class RestAttempt final : public AttemptOver<HttpCall> {
 public:
  RestAttempt(const Asked& asked, Receiver& receiver, TensorForm form)
      : asked_(asked), receiver_(receiver), form_(form), body_(asked.slabs, asked.options.max_answer) {}

  Started start(OriginConn& conn) override;

 private:
  Next on_answer(int status, const wire::Fields& fields) override;
  Next on_piece(std::span<const std::byte> piece) override;
  std::span<std::byte> receive_buffer() override {
    return status_ == 200 ? body_.receive_buffer() : std::span<std::byte>();
  }
  Status on_whole(const wire::Fields& trailers) override;
  void on_over(Status status, From from) override;

  const Asked asked_;
  Receiver& receiver_;
  const TensorForm form_;
  AnswerBody body_;
  int status_ = 200;
  std::string header_, refusal_, retry_after_;
  msg::Outputs answer_;
};

Attempt::Started RestAttempt::start(OriginConn& conn) {
  wire::ClientRequest request;
  request.method = "POST";
  request.target = path_of(asked_.options) + "/infer";
  pass_on(asked_.call, request.fields);
  if (form_ == TensorForm::kJson) {
    auto body = write_rest_json(asked_.call, asked_.slabs.ledger());
    if (!body) return {body.error(), Fault::kCall};
    request.fields.add("content-type", "application/json");
    request.body = std::move(*body);
  } else {
    auto parts = write_rest_request(asked_.call);
    request.fields.add("content-type", "application/octet-stream");
    request.fields.add(kHeaderLength, std::to_string(parts.header));
    request.body = std::move(parts.body.front());
    parts.body.erase(parts.body.begin());
    request.more = std::move(parts.body);
  }
  return {send(conn, std::move(request))};
}

HttpCall::Next RestAttempt::on_answer(int status, const wire::Fields& fields) {
  status_ = status;
  header_ = fields.find(kHeaderLength);
  body_.expect(fields.find("content-length"));
  retry_after_ = fields.find("retry-after");
  return Next::kGoOn;
}

HttpCall::Next RestAttempt::on_piece(std::span<const std::byte> piece) {
  if (status_ != 200) {
    const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
    refusal_ += text.substr(0, kMostRefusal - std::min(refusal_.size(), kMostRefusal));
    return Next::kGoOn;
  }
  switch (body_.append(piece)) {
    case AnswerBody::Fate::kTaken: return Next::kGoOn;
    case AnswerBody::Fate::kLarge: return give_up(failure(Code::kInternal, "its answer is too large"));
    case AnswerBody::Fate::kStarved: break;
  }
  return give_up(no_memory_for_answer(), From::kHere);
}

Status RestAttempt::on_whole(const wire::Fields&) {
  if (status_ != 200) return error_of(status_, refusal_, retry_after_);
  auto answer = read_rest_answer(body_.take(), header_, asked_.slabs);
  if (!answer) return answer.error();
  answer_ = std::move(*answer);
  return check_answer(asked_.spec, answer_.tensors, asked_.call.rows);
}

void RestAttempt::on_over(Status status, From from) {
  if (!status.ok()) {
    if (from == From::kOrigin && is_refusal(status_)) from = From::kBusy;
    return receiver_.on_over({std::move(status), from, {}});
  }
  answer_.final = true;
  receiver_.on_over({{}, from, msg::Event{std::move(answer_)}});
}

class RestQuestions final : public TensorQuestions {
 public:
  RestQuestions(net::Shard& shard, OriginConn& conn, const Options& options, std::atomic<TensorForm>& form)
      : TensorQuestions(conn, options), get_(shard, conn), form_(form) {}

  void ask_ready(base::Duration timeout, OnReady then) override;

 private:
  void ask_metadata() override;
  void ask_config() override;
  void ask_extensions();
  Status take_config(const Get::Answer& answer);

  Get get_;
  std::atomic<TensorForm>& form_;
};

// 400 is what Triton says of a model that is not ready, 404 what others say.
void RestQuestions::ask_ready(base::Duration timeout, OnReady then) {
  get_.ask(path_of(options_) + "/ready", timeout, [this, then = std::move(then)](Result<Get::Answer> answer) {
    if (!answer) return then(named(answer.error()));
    if (answer->status == 200 || (answer->status >= 400 && answer->status < 500) || answer->status == 503)
      return then(answer->status == 200);
    then(named(error_of(answer->status, answer->body, {})));
  });
}

void RestQuestions::ask_metadata() {
  get_.ask(path_of(options_), timeout_, [this](Result<Get::Answer> answer) {
    Status status = named(!answer                 ? answer.error()
                          : answer->status != 200 ? error_of(answer->status, answer->body, {})
                                                  : read_rest_metadata(answer->body, spec_));
    if (!status.ok() || options_.binary_tensors) return heard_metadata(std::move(status));
    ask_extensions();
  });
}

// A server that has no answer has no extensions.
void RestQuestions::ask_extensions() {
  get_.ask("/v2", timeout_, [this](Result<Get::Answer> answer) {
    if (!answer) return heard_metadata(named(answer.error()));
    form_ = answer->status == 200 && lists_binary_tensors(answer->body) ? TensorForm::kBytes : TensorForm::kJson;
    heard_metadata({});
  });
}

void RestQuestions::ask_config() {
  get_.ask(path_of(options_) + "/config", timeout_,
           [this](Result<Get::Answer> answer) { heard_config(named(answer ? take_config(*answer) : answer.error())); });
}

// A server without configurations says all in its metadata: shapes are whole then.
Status RestQuestions::take_config(const Get::Answer& answer) {
  Status status = answer.status == 200 ? read_rest_config(answer.body, spec_) : Status();
  if (status.ok() && spec_.decoupled)
    return failure(Code::kInternal, "the model may answer any number of times, which needs kind oip-grpc");
  return status;
}

class OipRest final : public Kind {
 public:
  explicit OipRest(const Options& options)
      : form_(options.binary_tensors.value_or(true) ? TensorForm::kBytes : TensorForm::kJson) {}
  net::ClientConn::Http http() const override { return net::ClientConn::Http::k1; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return std::make_unique<RestAttempt>(asked, receiver, form_.load(std::memory_order_relaxed));
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return std::make_unique<RestQuestions>(shard, conn, options, form_);
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override { return sched::rows_fit(call, spec); }

 private:
  mutable std::atomic<TensorForm> form_;  // as the origin says that was asked for the signature
};

}  // namespace

std::shared_ptr<const Kind> make_oip_rest(const Options& options) { return std::make_shared<OipRest>(options); }

}  // namespace weir::forward
