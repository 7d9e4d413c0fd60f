#include "engines/forward/openai/rows_attempt.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/memory_ledger.h"
#include "engines/forward/answer_body.h"
#include "engines/forward/http_attempt.h"
#include "engines/forward/openai/api_path.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"
#include "marshal/encoder.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kMostRefusal = 64 << 10;
// Bytes of JSON: of a number, of a row beside its numbers, and of a byte of its text.
constexpr size_t kMostOfNumber = 32, kMostOfRow = 4096, kMostOfByte = 6;

class RowsAttempt final : public AttemptOver<HttpCall> {
 public:
  RowsAttempt(const Asked& asked, Receiver& receiver, RowsFor what, RowsForm form)
      : asked_(asked), receiver_(receiver), what_(what), form_(form) {}

  Started start(OriginConn& conn) override;

 private:
  uint64_t most_of(const TextRows& rows) const;
  Next on_answer(int status, const wire::Fields& fields) override;
  Next on_piece(std::span<const std::byte> piece) override;
  Status on_whole(const wire::Fields& trailers) override;
  void on_over(Status status, From from) override;
  Status take(RowsAnswer answer);

  const Asked asked_;
  Receiver& receiver_;
  const RowsFor what_;
  const RowsForm form_;
  std::optional<AnswerBody> body_;
  size_t rows_ = 0;
  int status_ = 200;
  bool starved_ = false;
  std::string refusal_, retry_after_;
  msg::Outputs outputs_;
};

// Read within a turn of the loop. Rankings of vLLM repeat the texts.
uint64_t RowsAttempt::most_of(const TextRows& rows) const {
  const uint64_t width = std::max<uint32_t>(asked_.spec.encoder->hidden_size, 1);
  uint64_t most = kMostRefusal + rows.count() * (width * kMostOfNumber + kMostOfRow);
  for (size_t i = 0; what_ == RowsFor::kRanking && i < rows.count(); ++i) most += rows.weight(i) * kMostOfByte;
  return std::min<uint64_t>(asked_.options.max_answer, most);
}

Attempt::Started RowsAttempt::start(OriginConn& conn) {
  auto rows = read_text_rows(asked_.call, what_, asked_.spec.encoder->vocabulary);
  if (!rows) return {rows.error(), Fault::kCall};
  rows_ = rows->count();
  body_.emplace(asked_.slabs, most_of(*rows));
  auto body = base::adopt(asked_.slabs.ledger(), base::MemoryKind::kInput,
                          write_rows_request(*rows, form_.body, asked_.options.model));
  if (!body)
    return {base::try_again(Code::kResourceExhausted, "there is no memory for the request; try again later"),
            Fault::kCall};
  wire::ClientRequest request;
  request.method = "POST";
  request.target = target_at(conn.origin().url(), form_.target);
  request.fields.add("content-type", "application/json");
  request.fields.add("accept", "application/json");
  pass_on(asked_.call, request.fields);
  request.body = std::move(*body);
  return {send(conn, std::move(request))};
}

HttpCall::Next RowsAttempt::on_answer(int status, const wire::Fields& fields) {
  status_ = status;
  retry_after_ = fields.find("retry-after");
  body_->expect(fields.find("content-length"));
  return Next::kGoOn;
}

HttpCall::Next RowsAttempt::on_piece(std::span<const std::byte> piece) {
  if (status_ != 200) {
    const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
    refusal_ += text.substr(0, kMostRefusal - std::min(refusal_.size(), kMostRefusal));
    return Next::kGoOn;
  }
  switch (body_->append(piece)) {
    case AnswerBody::Fate::kTaken: return Next::kGoOn;
    case AnswerBody::Fate::kLarge: return give_up(failure(Code::kInternal, "its answer is too large"));
    case AnswerBody::Fate::kStarved: break;
  }
  return give_up(no_memory_for_answer(), From::kHere);
}

Status RowsAttempt::on_whole(const wire::Fields&) {
  if (status_ != 200) return failed_answer(error_of(status_, refusal_, retry_after_));
  const base::Bytes body = body_->take();
  auto answer = what_ == RowsFor::kEmbeddings ? read_embeddings(body.view(), rows_, asked_.spec.encoder->hidden_size)
                                              : read_ranking(body.view(), rows_);
  return answer ? take(*std::move(answer)) : answer.error();
}

Status RowsAttempt::take(RowsAnswer answer) {
  const size_t bytes = answer.values.size() * sizeof(float);
  base::Block block(asked_.slabs.take(bytes));
  if (!block) return starved_ = true, no_memory_for_answer();
  block.append(answer.values.data(), bytes);
  const int64_t width = int64_t(answer.values.size() / rows_);
  outputs_.tensors.push_back(
      {asked_.spec.outputs.front().name, msg::DType::kFp32, {int64_t(rows_), width}, block.freeze()});
  if (answer.tokens) outputs_.parameters.emplace_back(marshal::kPromptTokens, int64_t(*answer.tokens));
  return {};
}

void RowsAttempt::on_over(Status status, From from) {
  if (status.ok()) return receiver_.on_over({{}, from, msg::Event{std::move(outputs_)}});
  if (starved_) from = From::kHere;
  if (from == From::kOrigin && is_refusal(status_)) from = From::kBusy;
  receiver_.on_over({std::move(status), from, {}});
}

}  // namespace

std::unique_ptr<Attempt> make_rows_attempt(const Asked& asked, Attempt::Receiver& receiver, RowsFor what,
                                           RowsForm form) {
  return std::make_unique<RowsAttempt>(asked, receiver, what, form);
}

}  // namespace weir::forward
