#include "engines/forward/native/sequence_attempt.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engines/forward/http_attempt.h"
#include "engines/forward/native/message.h"
#include "engines/forward/oip/grpc_call.h"
#include "engines/forward/passed_on.h"
#include "wire/relay.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr std::string_view kGenerate = "/weir.forward.v1.Forward/Generate",
                           kGenerateFromImages = "/weir.forward.v1.Forward/GenerateFromImages";
constexpr uint64_t kLargestEvent = 8 << 20;

class SequenceAttempt final : public AttemptOver<GrpcCall> {
 public:
  SequenceAttempt(const Asked& asked, Receiver& receiver)
      : AttemptOver(asked.slabs, std::min(asked.options.max_answer, kLargestEvent)),
        asked_(asked),
        params_(*asked.call.generation),
        receiver_(receiver),
        length_(params_.length() + asked.generated.size()),
        most_(params_.max_tokens - std::min<size_t>(asked.generated.size(), params_.max_tokens)) {}

  Started start(OriginConn& conn) override;
  void give_up_late(Status status) override {
    late_ = true;
    AttemptOver::give_up_late(std::move(status));
  }

 private:
  Next on_message(base::Bytes message) override;
  void on_over(Status status, From from) override;
  bool holds() const override { return receiver_.holds(); }

  Status take(msg::Event event);
  Status check(const msg::Token& token);

  const Asked asked_;
  const msg::Generation& params_;
  Receiver& receiver_;
  const size_t length_;          // of the prompt
  const size_t most_;            // tokens
  size_t count_ = 0, told_ = 0;  // tokens made; positions of the prompt up to which tokens have come
  std::optional<msg::Event> last_;
  bool late_ = false;
};

Attempt::Started SequenceAttempt::start(OriginConn& conn) {
  wire::Fields fields;
  add_deadline(asked_.call, asked_.now, fields);
  pass_on(asked_.call, fields);
  if (asked_.options.beside_local) fields.add(wire::kRelayed, "1");
  auto body = write_sequence(asked_.call, asked_.generated, asked_.options.model, asked_.options.version);
  const auto method = has_images(asked_.call) ? kGenerateFromImages : kGenerate;
  return {GrpcCall::start(conn, method, std::move(body), std::move(fields))};
}

HttpCall::Next SequenceAttempt::on_message(base::Bytes message) {
  receiver_.on_progress();
  auto event = read_event(message.view(), *asked_.spec.text);
  Status status = event ? take(*std::move(event)) : event.error();
  return status.ok() ? Next::kGoOn : give_up(std::move(status));
}

Status SequenceAttempt::take(msg::Event event) {
  if (last_) return failure(Code::kInternal, "it went on behind the end of the answer");
  if (auto* token = std::get_if<msg::Token>(&event.what)) {
    if (Status status = check(*token); !status.ok()) return status;
    return receiver_.on_part(std::move(event));
  }
  const bool embeds = std::holds_alternative<msg::Outputs>(event.what);
  if (embeds != (params_.aim == msg::Aim::kEmbed))
    return failure(Code::kInternal, "it answered in another way than it was asked");
  last_ = std::move(event);
  return {};
}

Status SequenceAttempt::check(const msg::Token& token) {
  if (params_.aim == msg::Aim::kEmbed) return failure(Code::kInternal, "it answered in another way than it was asked");
  if (!token.prefill) {
    if (++count_ <= most_) return {};
    return failure(Code::kInternal, "it made more tokens than the " + std::to_string(most_) + " it was asked for");
  }
  if (count_ > 0 || token.position < told_ || token.position >= length_)
    return failure(Code::kInternal, "it told of position " + std::to_string(token.position) + " out of order");
  told_ = token.position + 1;
  return {};
}

// Another origin may finish the text that this one's engine could not finish, or refused before the first token. A
// connection that fails behind the end of a text takes nothing from it.
void SequenceAttempt::on_over(Status status, From from) {
  if (status.code == Code::kUnimplemented && has_images(asked_.call)) {
    status.text = "it is an older weir, which takes no images of another server: " + status.text;
    from = From::kBusy;  // while a cluster is upgraded another one may be newer
  }
  const bool lost = from == From::kTransport || from == From::kStale || late_;
  if (!status.ok() && lost && last_) status = {}, from = From::kOrigin;
  if (status.ok() && !last_) status = failure(Code::kUnavailable, "it ended the call before the text had ended");
  if (status.ok()) {
    if (auto* done = std::get_if<msg::Done>(&last_->what)) {
      done->cached_tokens = std::min<uint32_t>(done->cached_tokens, uint32_t(params_.length()));
      done->completion_tokens = uint32_t(count_);
    }
    return receiver_.on_over({{}, from, std::move(last_)});
  }
  if (from == From::kOrigin && status.code == Code::kUnavailable) from = count_ > 0 ? From::kTransport : From::kBusy;
  if (from == From::kOrigin && status.code == Code::kResourceExhausted && count_ == 0) from = From::kBusy;
  receiver_.on_over({std::move(status), from, {}});
}

}  // namespace

std::unique_ptr<Attempt> make_sequence_attempt(const Asked& asked, Attempt::Receiver& receiver) {
  return std::make_unique<SequenceAttempt>(asked, receiver);
}

}  // namespace weir::forward
