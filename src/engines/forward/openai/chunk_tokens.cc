#include "engines/forward/openai/chunk_tokens.h"

#include <algorithm>
#include <utility>

#include "engines/forward/openai/chat_text.h"

namespace weir::forward {
namespace {

// Names that may have to be tokenized, each byte of which takes about as long as to hand on a token.
size_t bytes_of(const NamedLogprob& named) {
  size_t bytes = 0;
  for (const auto& top : named.top) bytes += top.id ? 0 : top.text.size();
  return bytes;
}

std::optional<JsonScanner> scanner_of(const msg::Generation& params) {
  using Form = msg::StructuredOutput::Kind;
  const msg::StructuredOutput* form = params.constraint ? params.constraint->form() : nullptr;
  if (form && form->kind == Form::kJsonObject) return JsonScanner(JsonScanner::Value::kObject);
  if (form && form->kind == Form::kJsonSchema) return JsonScanner(JsonScanner::Value::kAny);
  return std::nullopt;
}

bool has_strict_schema(const msg::Generation& params) {
  using Form = msg::StructuredOutput;
  const Form* form = params.constraint ? params.constraint->form() : nullptr;
  return form && form->kind == Form::Kind::kJsonSchema && form->schema == Form::Schema::kStrict;
}

}  // namespace

using base::Code;
using base::failure;
using base::Status;

ChunkTokens::ChunkTokens(const Asked& asked, Attempt::Receiver& receiver)
    : asked_(asked),
      params_(*asked.call.generation),
      receiver_(receiver),
      chat_(asked.options.api == OpenaiApi::kChat),
      most_(params_.max_tokens - std::min<size_t>(asked.generated.size(), params_.max_tokens)),
      position_(params_.length() + asked.generated.size()),
      text_tokens_(*asked.spec.text->codec),
      json_(scanner_of(params_)),
      to_schema_(chat_ && has_strict_schema(params_)) {}

size_t ChunkTokens::most_ids() const {
  if (has_ids_) return most_;
  return chat_ ? 64 * most_ + (64 << 10) : 4 * most_ + 16;
}

// The ids of an origin that sends none: those that its log-probabilities name, where they are those of the text. They
// are not where the tokens of a character come one by one and its text with the last of them (llama.cpp), or where a
// name is not the token's text. Then the last log-probability is the last id's, for the text ends there.
Status ChunkTokens::take(CompletionChunk& chunk) {
  if (chat_) return take_chat(chunk), Status();
  has_ids_ = has_ids_ || !chunk.ids.empty();
  next_ = at_ = 0;
  text_.clear();
  ids_ = has_ids_ ? std::move(chunk.ids) : named_ids(chunk);
  logprobs_ = std::move(chunk.logprobs);
  if (has_ids_ && !logprobs_.empty() && ids_.size() != logprobs_.size())
    return failure(Code::kInternal, "its log-probabilities are not those of its tokens");
  if (has_ids_ || !ids_.empty()) return {};
  text_ = std::move(chunk.text);
  if (logprobs_.size() > 1) logprobs_.erase(logprobs_.begin(), logprobs_.end() - 1);
  return {};
}

// Tokens are the origin's own here: what it says of each goes in front of the token's bytes, or of all, where those of
// the chunk are not theirs.
void ChunkTokens::take_chat(CompletionChunk& chunk) {
  text_ = std::move(chunk.text), aside_ = chunk.aside;
  logprobs_ = params_.logprobs.empty() ? std::vector<NamedLogprob>() : std::move(chunk.logprobs);
  next_ = at_ = 0;
  size_t bytes = 0;
  for (const auto& named : logprobs_) bytes += named.token.text.size();
  const bool theirs = bytes == text_.size() - aside_;
  due_ = theirs ? aside_ : 0;
  for (auto& named : logprobs_) named.share = theirs ? named.token.text.size() : 0;
}

Status ChunkTokens::emit_chat() {
  for (size_t work = 0; work < kPart && !empty() && !receiver_.holds(); ++work) {
    Status status;
    if (next_ < logprobs_.size() && (at_ >= due_ || at_ == text_.size())) {
      auto& named = logprobs_[next_++];
      due_ += named.share, work += bytes_of(named);
      status = emit_token(kNoText, &named, Form::kAside);
    } else {
      const Form form = at_ < aside_ ? Form::kAside : Form::kHeld;
      status = emit_token(uint8_t(text_[at_]), nullptr, form);
      ++at_;
    }
    if (!status.ok()) return status;
  }
  return {};
}

std::vector<uint32_t> ChunkTokens::named_ids(const CompletionChunk& chunk) const {
  if (chunk.logprobs.empty() || chunk.logprobs.size() > kPart || chunk.text.size() > kPartBytes) return {};
  std::vector<uint32_t> ids;
  size_t bytes = 0;
  for (const auto& named : chunk.logprobs) {
    bytes += named.token.id ? 0 : named.token.text.size();
    const auto id = bytes > 4 * kPartBytes ? std::nullopt : find_id(named.token);
    if (!id) return {};
    ids.push_back(*id);
  }
  return text_tokens_.spell(ids, chunk.text) ? ids : std::vector<uint32_t>();
}

// The next part of the text, which ends between two characters.
void ChunkTokens::tokenize() {
  size_t end = std::min(at_ + kPartBytes, text_.size());
  while (end < text_.size() && (uint8_t(text_[end]) & 0xc0) == 0x80) --end;
  if (end <= at_) end = std::min(at_ + kPartBytes, text_.size());  // not UTF-8
  ids_ = text_tokens_.push(std::string_view(text_).substr(at_, end - at_));
  next_ = 0, at_ = end;
}

Status ChunkTokens::emit() {
  if (chat_) return emit_chat();
  if (next_ == ids_.size() && at_ < text_.size() && !receiver_.holds()) tokenize();
  const size_t named = at_ == text_.size() ? std::min(logprobs_.size(), ids_.size()) : 0;
  for (size_t work = 0; work < kPart && next_ < ids_.size() && !receiver_.holds(); ++next_) {
    const size_t behind = ids_.size() - next_;  // it and those after it
    const auto* const logprob = behind <= named ? &logprobs_[logprobs_.size() - behind] : nullptr;
    if (Status status = emit_token(ids_[next_], logprob, Form::kHeld); !status.ok()) return status;
    work += 1 + (logprob ? bytes_of(*logprob) : 0);
  }
  return {};
}

Status ChunkTokens::emit_token(uint32_t id, const NamedLogprob* named, Form form) {
  if (id >= asked_.spec.text->vocabulary)
    return failure(Code::kInternal, "token id " + std::to_string(id) + " is outside of the model's vocabulary of " +
                                        std::to_string(asked_.spec.text->vocabulary));
  if (++count_ > most_ids())
    return failure(Code::kInternal, "it made more tokens than the " + std::to_string(most_) + " it was asked for");
  if (form == Form::kHeld && !holds_form(id))
    return failure(Code::kInternal, "its text has not the form that it was asked for");
  msg::Token token{.id = last_id_ = id, .position = uint32_t(position_), .prefill = false, .details = nullptr};
  const auto asks = [&](const msg::PositionRange& range) { return range.has(uint32_t(position_)); };
  if (named && std::any_of(params_.logprobs.begin(), params_.logprobs.end(), asks)) token.details = details_of(*named);
  ++position_;
  return receiver_.on_part({std::move(token)});
}

// A server that does not know the parameter passes over it, and answers with any text. One that does writes JSON with
// white space of its own, which the constraint has not, and of a schema that is not strict the properties in any order.
bool ChunkTokens::holds_form(uint32_t id) {
  if (!params_.constraint) return true;
  const auto in = [id](const std::vector<uint32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  if (in(asked_.spec.text->eos_ids) || in(params_.stop_ids)) return true;
  if (!json_) return params_.constraint->accept(id);
  const std::string_view bytes = asked_.spec.text->codec->bytes(id);
  const bool skipped = bytes.size() == 1 && json_->skips(bytes.front());
  return json_->take(bytes) && (!to_schema_ || skipped || params_.constraint->accept(id));
}

std::optional<uint32_t> ChunkTokens::find_id(const NamedToken& token) const {
  if (token.id) return token.id;
  const auto ids = asked_.spec.text->codec->encode(token.text, msg::AddSpecial::kNo);
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

std::shared_ptr<const msg::TokenDetails> ChunkTokens::details_of(const NamedLogprob& named) const {
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true;
  details->logprob = named.token.logprob;
  std::vector<const NamedToken*> tops;
  for (const auto& top : named.top) tops.push_back(&top);
  std::stable_sort(tops.begin(), tops.end(), [](const auto* a, const auto* b) { return a->logprob > b->logprob; });
  if (chat_) details->texts.push_back(named.token.text);
  for (const NamedToken* top : tops) {
    if (details->top.size() == params_.top_logprobs) break;
    const auto id = chat_ ? kNoText : find_id(*top);
    if (id && *id < asked_.spec.text->vocabulary) details->top.push_back({*id, top->logprob});
    if (chat_) details->texts.push_back(top->text);
  }
  return details;
}

}  // namespace weir::forward
