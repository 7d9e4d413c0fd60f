#include "engines/forward/openai/embedding_attempt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engines/forward/http_attempt.h"
#include "engines/forward/openai/api_path.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLargestEmbedding = 2 << 20;

class EmbeddingAttempt final : public AttemptOver<HttpCall> {
 public:
  EmbeddingAttempt(const Asked& asked, Receiver& receiver) : asked_(asked), receiver_(receiver) {}

  Started start(OriginConn& conn) override {
    wire::ClientRequest request;
    request.method = "POST";
    request.target = api_path(conn.origin().url(), "/embeddings");
    request.fields.add("content-type", "application/json");
    pass_on(asked_.call, request.fields);
    request.body = write_embedding_request(asked_.call, asked_.options.model);
    return {send(conn, std::move(request))};
  }

 private:
  Next on_answer(int status, const wire::Fields& fields) override {
    status_ = status;
    retry_after_ = fields.find("retry-after");
    return Next::kGoOn;
  }
  Next on_piece(std::span<const std::byte> piece) override {
    if (body_.size() + piece.size() > std::min<uint64_t>(asked_.options.max_answer, kLargestEmbedding))
      return give_up(failure(Code::kInternal, "its answer is too large"));
    body_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return Next::kGoOn;
  }
  Status on_whole(const wire::Fields&) override {
    if (status_ != 200) return error_of(status_, body_, retry_after_);
    auto outputs = read_embedding(body_, asked_.spec.text->hidden_size);
    if (!outputs) return outputs.error();
    outputs_ = std::move(*outputs);
    return {};
  }
  void on_over(Status status, From from) override {
    if (status.ok()) return receiver_.on_over({{}, from, msg::Event{std::move(outputs_)}});
    if (from == From::kOrigin && is_refusal(status_)) from = From::kBusy;
    receiver_.on_over({std::move(status), from, {}});
  }

  const Asked asked_;
  Receiver& receiver_;
  int status_ = 200;
  std::string body_, retry_after_;
  msg::Outputs outputs_;
};

}  // namespace

std::unique_ptr<Attempt> make_embedding_attempt(const Asked& asked, Attempt::Receiver& receiver) {
  return std::make_unique<EmbeddingAttempt>(asked, receiver);
}

}  // namespace weir::forward
