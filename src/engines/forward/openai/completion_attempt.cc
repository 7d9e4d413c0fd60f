#include "engines/forward/openai/completion_attempt.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/http_attempt.h"
#include "engines/forward/openai/chat_message.h"
#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/openai/sse_reader.h"
#include "engines/forward/openai/text_tokens.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLargestEvent = 1 << 20, kLargestError = 64 << 10;
constexpr std::string_view kDone = "[DONE]";

class CompletionAttempt final : public AttemptOver<HttpCall> {
 public:
  CompletionAttempt(const Asked& asked, Receiver& receiver)
      : asked_(asked),
        params_(*asked.call.generation),
        receiver_(receiver),
        most_(params_.max_tokens - std::min<size_t>(asked.generated.size(), params_.max_tokens)),
        position_(params_.length() + asked.generated.size()),
        sse_(size_t(std::min<uint64_t>(asked.options.max_answer, kLargestEvent))),
        chat_(asked.options.api == OpenaiApi::kChat) {}

  Started start(OriginConn& conn) override;
  void give_up_late(Status status) override {
    late_ = true;
    AttemptOver::give_up_late(std::move(status));
  }

 private:
  Next on_answer(int status, const wire::Fields& fields) override;
  Next on_piece(std::span<const std::byte> piece) override;
  Status on_whole(const wire::Fields& trailers) override;
  void on_over(Status status, From from) override;
  bool holds() const override { return receiver_.holds(); }

  Status write(wire::ClientRequest& request) const;
  Next on_event(std::string_view data);
  Status take_whole();
  Status take_calls();
  bool text_has_ended() const { return !finish_.empty() && finish_ != "abort" && finish_ != "error"; }
  size_t most_ids() const;
  Next take(CompletionChunk chunk);
  Status take_tokens(CompletionChunk& chunk);
  std::vector<uint32_t> find_ids(CompletionChunk& chunk);
  bool holds_form(uint32_t id) const;
  std::optional<uint32_t> find_id(const NamedToken& token) const;
  std::shared_ptr<const msg::TokenDetails> details_of(const NamedLogprob& named) const;
  msg::Done done() const;

  const Asked asked_;
  const msg::Generation& params_;
  Receiver& receiver_;
  const size_t most_;  // tokens
  size_t position_;    // of the next one
  SseReader sse_;
  std::optional<TextTokens> text_tokens_;  // of an origin that sends no ids
  bool has_ids_ = false;
  size_t count_ = 0;  // tokens so far
  uint32_t last_id_ = 0;
  std::optional<uint32_t> completion_tokens_, cached_tokens_;
  std::string finish_;
  bool ended_ = false;  // [DONE] has come
  bool late_ = false;
  // In a chat tokens are bytes.
  const bool chat_;
  ToolCalls calls_;
  size_t unseen_ = 0;  // bytes that are no text: no more of them than the text may have make it look alive
  std::optional<uint32_t> prompt_tokens_;
  bool whole_ = false;  // it answers without a stream
  // An answer that is no stream.
  int status_ = 200;
  std::string error_, retry_after_;
};

Attempt::Started CompletionAttempt::start(OriginConn& conn) {
  wire::ClientRequest request;
  request.method = "POST";
  request.fields.add("content-type", "application/json");
  request.fields.add("accept", "text/event-stream");
  pass_on(asked_.call, request.fields);
  if (Status status = write(request); !status.ok()) return {std::move(status), Fault::kCall};
  return {send(conn, std::move(request))};
}

Status CompletionAttempt::write(wire::ClientRequest& request) const {
  const std::string& model = asked_.options.model;
  request.target = chat_ ? "/v1/chat/completions" : "/v1/completions";
  if (!chat_) return request.body = write_completion(asked_.call, asked_.generated, model), Status();
  std::vector<uint32_t> ids(params_.history.begin(), params_.history.end());
  ids.insert(ids.end(), params_.append.begin(), params_.append.end());
  auto members = members_of_prompt(asked_.spec.text->codec->decode(ids, msg::SkipSpecial::kNo));
  if (!members) return members.error();
  return request.body = write_chat(asked_.call, *members, model, asked_.spec.text->max_length), Status();
}

HttpCall::Next CompletionAttempt::on_answer(int status, const wire::Fields& fields) {
  status_ = status;
  retry_after_ = fields.find("retry-after");
  const std::string_view type = fields.find("content-type");
  if (status != 200 || type.starts_with("text/event-stream")) return Next::kGoOn;
  whole_ = chat_ && type.starts_with("application/json");
  if (whole_) return Next::kGoOn;
  return give_up(failure(Code::kInternal, "it answered with content type '" + base::presentable(type, 64) +
                                              "', expected text/event-stream"));
}

HttpCall::Next CompletionAttempt::on_piece(std::span<const std::byte> piece) {
  std::string_view bytes(reinterpret_cast<const char*>(piece.data()), piece.size());
  if (whole_) {
    error_ += bytes;
    return error_.size() <= kLargestEvent ? Next::kGoOn : give_up(failure(Code::kInternal, "its answer is too large"));
  }
  if (status_ != 200) {
    error_ += bytes.substr(0, kLargestError - std::min(error_.size(), kLargestError));
    return Next::kGoOn;
  }
  for (;;) switch (sse_.next(bytes)) {
      case SseReader::Step::kMore: return Next::kGoOn;
      case SseReader::Step::kLarge: return give_up(failure(Code::kInternal, "an event of its stream is too large"));
      case SseReader::Step::kEvent:
        if (on_event(sse_.data()) == Next::kOver) return Next::kOver;
    }
}

HttpCall::Next CompletionAttempt::on_event(std::string_view data) {
  if (ended_ || data.empty()) return Next::kGoOn;
  if (data == kDone) {
    ended_ = true;
    return Next::kGoOn;
  }
  auto chunk = chat_ ? read_chat_chunk(data, calls_) : read_chunk(data);
  if (!chunk) return give_up(chunk.error());
  return take(std::move(*chunk));
}

// A server that cannot go on says so in its stream; another one may be able to.
HttpCall::Next CompletionAttempt::take(CompletionChunk chunk) {
  if (chunk.error) {
    finish_.clear();
    const bool own = chunk.error->code == Code::kInternal || chunk.error->code == Code::kUnavailable;
    return give_up(std::move(*chunk.error), own ? From::kTransport : From::kOrigin);
  }
  if (chunk.unseen > 0 && (unseen_ += chunk.unseen) <= most_ids()) receiver_.on_progress();
  if (chunk.prompt_tokens) prompt_tokens_ = chunk.prompt_tokens;
  if (chunk.completion_tokens) completion_tokens_ = chunk.completion_tokens;
  if (chunk.cached_tokens) cached_tokens_ = chunk.cached_tokens;
  if (Status status = take_tokens(chunk); !status.ok()) return give_up(std::move(status));
  if (!chunk.finish.empty()) finish_ = std::move(chunk.finish);
  return Next::kGoOn;
}

Status CompletionAttempt::take_tokens(CompletionChunk& chunk) {
  std::vector<uint32_t> ids = std::move(chunk.ids);
  has_ids_ = has_ids_ || !ids.empty();
  if (has_ids_ && ids.size() != chunk.logprobs.size() && !chunk.logprobs.empty())
    return failure(Code::kInternal, "its log-probabilities are not those of its tokens");
  if (!has_ids_) ids = find_ids(chunk);
  const size_t unnamed = ids.size() - std::min(chunk.logprobs.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= asked_.spec.text->vocabulary)
      return failure(Code::kInternal, "token id " + std::to_string(ids[i]) +
                                          " is outside of the model's vocabulary of " +
                                          std::to_string(asked_.spec.text->vocabulary));
    if (++count_ > most_ids())
      return failure(Code::kInternal, "it made more tokens than the " + std::to_string(most_) + " it was asked for");
    if (!holds_form(ids[i])) return failure(Code::kInternal, "its text has not the form that it was asked for");
    msg::Token token{.id = last_id_ = ids[i], .position = uint32_t(position_), .prefill = false, .details = nullptr};
    const auto asks = [&](const msg::PositionRange& range) { return range.has(uint32_t(position_)); };
    if (i >= unnamed && std::any_of(params_.logprobs.begin(), params_.logprobs.end(), asks))
      token.details = details_of(chunk.logprobs[i - unnamed]);
    ++position_;
    receiver_.on_part({std::move(token)});
  }
  return {};
}

// The ids of an origin that sends none: those that its log-probabilities name, where they are those of the text. They
// are not where the tokens of a character come one by one and its text with the last of them (llama.cpp), or where a
// name is not the token's text. Then the last log-probability is the last id's, for the text ends there.
std::vector<uint32_t> CompletionAttempt::find_ids(CompletionChunk& chunk) {
  if (!text_tokens_) text_tokens_.emplace(*asked_.spec.text->codec);
  auto& named = chunk.logprobs;
  std::vector<uint32_t> ids;
  for (auto one = named.begin(); one != named.end() && ids.size() == size_t(one - named.begin()); ++one)
    if (auto id = find_id(one->token)) ids.push_back(*id);
  if (!ids.empty() && ids.size() == named.size() && text_tokens_->spell(ids, chunk.text)) return ids;
  if (named.size() > 1) named.erase(named.begin(), named.end() - 1);
  return text_tokens_->push(chunk.text);
}

// Texts may have more ids than the model has drawn; bytes have many for each.
size_t CompletionAttempt::most_ids() const {
  if (has_ids_) return most_;
  return chat_ ? 64 * most_ + (64 << 10) : 4 * most_ + 16;
}

// A server that does not know the parameter passes over it, and answers with any text.
bool CompletionAttempt::holds_form(uint32_t id) const {
  if (!params_.constraint) return true;
  const auto in = [id](const std::vector<uint32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  return in(asked_.spec.text->eos_ids) || in(params_.stop_ids) || params_.constraint->accept(id);
}

std::optional<uint32_t> CompletionAttempt::find_id(const NamedToken& token) const {
  if (token.id) return token.id;
  const auto ids = asked_.spec.text->codec->encode(token.text, msg::AddSpecial::kNo);
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

std::shared_ptr<const msg::TokenDetails> CompletionAttempt::details_of(const NamedLogprob& named) const {
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true;
  details->logprob = named.token.logprob;
  for (const auto& top : named.top) {
    const auto id = find_id(top);
    if (id && *id < asked_.spec.text->vocabulary) details->top.push_back({*id, top.logprob});
  }
  std::stable_sort(details->top.begin(), details->top.end(),
                   [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
  if (details->top.size() > params_.top_logprobs) details->top.resize(params_.top_logprobs);
  return details;
}

Status CompletionAttempt::on_whole(const wire::Fields&) {
  if (status_ != 200) return error_of(status_, error_, retry_after_);
  if (whole_)
    if (Status status = take_whole(); !status.ok()) return status;
  if (Status status = take_calls(); !status.ok()) return status;
  if (finish_.empty()) return failure(Code::kUnavailable, "it ended its stream before the text had ended");
  if (finish_ == "abort" || finish_ == "error")
    return failure(Code::kUnavailable, "it ended the text with '" + finish_ + "'");
  return {};
}

// An answer that is no stream is one event.
Status CompletionAttempt::take_whole() {
  auto chunk = read_chat_chunk(error_, calls_);
  if (!chunk) return chunk.error();
  if (chunk->error) return std::move(*chunk->error);
  prompt_tokens_ = chunk->prompt_tokens, completion_tokens_ = chunk->completion_tokens;
  finish_ = chunk->finish, ended_ = true;
  return take_tokens(*chunk);
}

// They are known once all of them have come.
Status CompletionAttempt::take_calls() {
  if (calls_.empty()) return {};
  auto text = calls_.text(finish_ == "length" ? ToolCalls::Ending::kCut : ToolCalls::Ending::kWhole);
  if (!text) return text.error();
  if (text->empty()) return {};
  CompletionChunk chunk;
  chunk.text = (count_ > 0 ? "\n" : "") + *text;
  return take_tokens(chunk);
}

msg::Done CompletionAttempt::done() const {
  msg::Done out;
  if (chat_) out.prompt_tokens = prompt_tokens_.value_or(0);
  out.cached_tokens = std::min<uint32_t>(cached_tokens_.value_or(0), uint32_t(params_.length()));
  out.completion_tokens =
      has_ids_ ? uint32_t(count_) : std::min<uint32_t>(completion_tokens_.value_or(uint32_t(count_)), uint32_t(most_));
  const auto& ends = asked_.spec.text->eos_ids;
  const auto& stops = params_.stop_ids;
  const bool known = count_ > 0 && std::find(ends.begin(), ends.end(), last_id_) != ends.end();
  const bool asked = count_ > 0 && std::find(stops.begin(), stops.end(), last_id_) != stops.end();
  out.finish = finish_ == "length" ? msg::Finish::kLength : asked && !known ? msg::Finish::kStopId : msg::Finish::kEos;
  out.stop_id = known || asked ? last_id_ : ends.empty() ? 0 : ends.front();
  return out;
}

// A connection that fails behind the end of a text takes nothing from it.
void CompletionAttempt::on_over(Status status, From from) {
  const bool lost = from == From::kTransport || from == From::kStale || late_;
  if (!status.ok() && lost && text_has_ended()) status = take_calls(), from = From::kOrigin;
  if (status.ok()) return receiver_.on_over({{}, from, msg::Event{done()}});
  // A refusal before anything was done, or a stream that was cut: another origin may take it.
  if (from == From::kOrigin && is_refusal(status_)) from = From::kBusy;
  if (from == From::kOrigin && status_ == 200 && !ended_ && status.code == Code::kUnavailable) from = From::kTransport;
  receiver_.on_over({std::move(status), from, {}});
}

}  // namespace

std::unique_ptr<Attempt> make_completion_attempt(const Asked& asked, Attempt::Receiver& receiver) {
  return std::make_unique<CompletionAttempt>(asked, receiver);
}

}  // namespace weir::forward
