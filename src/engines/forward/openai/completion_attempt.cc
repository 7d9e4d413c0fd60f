#include "engines/forward/openai/completion_attempt.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "engines/forward/http_attempt.h"
#include "engines/forward/openai/api_path.h"
#include "engines/forward/openai/chat_message.h"
#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/chunk_tokens.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/openai/sse_reader.h"
#include "engines/forward/openai/thought_marks.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLargestEvent = 1 << 20, kLargestError = 64 << 10;
constexpr size_t kTurn = 64 << 10;  // bytes of events that are read at once
constexpr std::string_view kDone = "[DONE]";
constexpr auto kEndTime = std::chrono::seconds(1);

class CompletionAttempt final : public AttemptOver<HttpCall> {
 public:
  CompletionAttempt(const Asked& asked, Receiver& receiver)
      : asked_(asked),
        params_(*asked.call.generation),
        receiver_(receiver),
        tokens_(asked_, receiver),
        sse_(size_t(std::min<uint64_t>(asked.options.max_answer, kLargestEvent))),
        chat_(asked.options.api == OpenaiApi::kChat) {}
  ~CompletionAttempt() override {
    if (!env_) return;
    env_->cancel(timer_);
    env_->cancel(end_timer_);
  }

  Started start(OriginConn& conn) override;
  void let_go() override;
  void give_up_late(Status status) override {
    late_ = true;
    AttemptOver::give_up_late(std::move(status));
  }

 private:
  Next on_answer(int status, const wire::Fields& fields) override;
  Next on_piece(std::span<const std::byte> piece) override;
  Status on_whole(const wire::Fields&) override { return {}; }  // finish() has the word
  void on_over(Status status, From from) override;
  bool holds() const override { return waits_ || receiver_.holds(); }

  Status write(wire::ClientRequest& request);
  Status write_chat_body(wire::ClientRequest& request);
  LogprobLimits logprob_limits() const;
  Next read(std::string_view bytes);
  Next read_events(std::string_view bytes);
  Next on_event(std::string_view data);
  Next take(CompletionChunk chunk);
  Status emit();
  void wait();
  void schedule();
  void go_on();
  void end_soon();
  bool text_has_ended() const { return !finish_.empty() && finish_ != "abort" && finish_ != "error"; }
  void settle();
  Status finish();
  Status take_whole();
  Status take_calls();
  msg::Done done() const;

  const Asked asked_;
  const msg::Generation& params_;
  Receiver& receiver_;
  ChunkTokens tokens_;
  SseReader sse_;
  std::optional<uint32_t> completion_tokens_, cached_tokens_, thought_tokens_;
  std::string finish_;
  bool ended_ = false;  // [DONE] has come
  bool late_ = false;
  // In a chat tokens are bytes.
  const bool chat_;
  ToolCalls calls_;
  ThoughtMarks thoughts_;
  base::MemoryCharge images_;  // those of the request, while it may be sent
  size_t unseen_ = 0;          // bytes that are no text: no more of them than the text may have make it look alive
  std::optional<uint32_t> prompt_tokens_;
  bool whole_ = false;  // it answers without a stream
  // An answer that is no stream.
  int status_ = 200;
  std::string error_, retry_after_;

  // More than a turn of the shard may do, or than the client has room for, is left for later ones.
  base::Env* env_ = nullptr;
  base::TimerId timer_ = base::TimerId::kNone, end_timer_ = base::TimerId::kNone;
  bool waits_ = false, reads_ = false;
  std::string behind_;  // bytes that have come meanwhile
  struct Over {
    Status status;
    From from;
  };
  std::optional<Over> over_;  // the last word of the request
  bool whole_taken_ = false, calls_taken_ = false;
};

Attempt::Started CompletionAttempt::start(OriginConn& conn) {
  wire::ClientRequest request;
  request.method = "POST";
  request.target = api_path(conn.origin().url(), chat_ ? "/chat/completions" : "/completions");
  request.fields.add("content-type", "application/json");
  request.fields.add("accept", "text/event-stream");
  pass_on(asked_.call, request.fields);
  if (Status status = write(request); !status.ok()) return {std::move(status), Fault::kCall};
  env_ = &conn.env();
  return {send(conn, std::move(request))};
}

Status CompletionAttempt::write(wire::ClientRequest& request) {
  if (chat_) return write_chat_body(request);
  return request.body = write_completion(asked_.call, asked_.generated, asked_.options.model), Status();
}

Status CompletionAttempt::write_chat_body(wire::ClientRequest& request) {
  std::vector<uint32_t> ids(params_.history.begin(), params_.history.end());
  ids.insert(ids.end(), params_.append.begin(), params_.append.end());
  const std::string prompt = asked_.spec.text->codec->decode(ids, msg::SkipSpecial::kNo);
  if (is_chat(prompt)) thoughts_.show();
  uint64_t bytes = 0;
  for (const auto& image : params_.images) bytes += image.as_json ? image.data.size() : 3 * image.data.size();
  if (base::MemoryLedger* ledger = asked_.slabs.ledger()) images_ = {*ledger, base::MemoryKind::kInput};
  if (bytes > 0 && !images_.grow(bytes)) return no_memory_for_answer();
  auto members = members_of_prompt(prompt);
  if (!members) return members.error();
  auto whole = put_images(*members, params_.images);
  if (!whole) return whole.error();
  auto pieces = write_chat(asked_.call, *std::move(whole), asked_.options, asked_.spec.text->max_length);
  request.body = std::move(pieces.front());
  request.more.assign(std::move_iterator(pieces.begin() + 1), std::move_iterator(pieces.end()));
  return {};
}

LogprobLimits CompletionAttempt::logprob_limits() const {
  if (params_.logprobs.empty()) return {.tokens = 0, .top = 0};
  return {.tokens = tokens_.most_ids() - tokens_.count() + 1, .top = params_.top_logprobs};
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
  if (!waits_) return read(bytes);
  behind_ += bytes;
  return Next::kGoOn;
}

HttpCall::Next CompletionAttempt::read(std::string_view bytes) {
  reads_ = true;
  if (read_events(bytes) == Next::kOver) return Next::kOver;
  reads_ = false;
  let_go();
  return Next::kGoOn;
}

// As many events as a turn may take, and as the client has room for.
HttpCall::Next CompletionAttempt::read_events(std::string_view bytes) {
  for (size_t done = 0;;) {
    if (Status status = emit(); !status.ok()) return give_up(std::move(status));
    if (done > kTurn && !bytes.empty()) wait();
    if (waits_) break;
    switch (sse_.next(bytes)) {
      case SseReader::Step::kMore: return Next::kGoOn;
      case SseReader::Step::kLarge: return give_up(failure(Code::kInternal, "an event of its stream is too large"));
      case SseReader::Step::kEvent:
        done += sse_.data().size();
        if (on_event(sse_.data()) == Next::kOver) return Next::kOver;
    }
  }
  behind_ = bytes;
  return Next::kGoOn;
}

Status CompletionAttempt::emit() {
  Status status = tokens_.emit();
  if (status.ok() && !tokens_.empty()) wait();
  return status;
}

void CompletionAttempt::wait() {
  waits_ = true;
  if (!receiver_.holds()) schedule();
}

void CompletionAttempt::schedule() {
  if (timer_ != base::TimerId::kNone) return;
  timer_ = env_->at(env_->now(), [this] {
    timer_ = base::TimerId::kNone;
    go_on();
  });
}

void CompletionAttempt::go_on() {
  waits_ = false, reads_ = true;
  if (Status status = emit(); !status.ok()) return void(give_up(std::move(status)));
  reads_ = false;
  if (waits_) return;
  const std::string bytes = std::exchange(behind_, {});
  if (read(bytes) == Next::kGoOn && !waits_ && over_) settle();
}

// The origin goes on once all that is being read has been handed on.
void CompletionAttempt::let_go() {
  if (reads_ || receiver_.holds()) return;
  waits_ ? schedule() : AttemptOver::let_go();
}

HttpCall::Next CompletionAttempt::on_event(std::string_view data) {
  if (ended_ || data.empty()) return Next::kGoOn;
  if (data == kDone) {
    ended_ = true;
    if (text_has_ended()) end_soon();
    return Next::kGoOn;
  }
  auto chunk = chat_ ? read_chat_chunk(data, calls_, logprob_limits())
                     : read_chunk(data, tokens_.most_ids() - tokens_.count() + 1);
  if (!chunk) return give_up(chunk.error());
  return take(std::move(*chunk));
}

// The end of the stream follows at once, and then its connection can carry the next call. Nobody waits long for it.
void CompletionAttempt::end_soon() {
  end_timer_ = env_->at(env_->now() + kEndTime, [this] {
    end_timer_ = base::TimerId::kNone;
    give_up_late(failure(Code::kDeadlineExceeded, "it has not ended its stream"));
  });
}

// A server that cannot go on says so in its stream; another one may be able to.
HttpCall::Next CompletionAttempt::take(CompletionChunk chunk) {
  if (chunk.error) {
    finish_.clear();
    const bool own = chunk.error->code == Code::kInternal || chunk.error->code == Code::kUnavailable;
    return give_up(std::move(*chunk.error), own ? From::kTransport : From::kOrigin);
  }
  if (chat_) thoughts_.join(chunk);
  if (chunk.unseen > 0 && (unseen_ += chunk.unseen) <= tokens_.most_ids()) receiver_.on_progress();
  if (chunk.prompt_tokens) prompt_tokens_ = chunk.prompt_tokens;
  if (chunk.completion_tokens) completion_tokens_ = chunk.completion_tokens;
  if (chunk.cached_tokens) cached_tokens_ = chunk.cached_tokens;
  if (chunk.thought_tokens) thought_tokens_ = chunk.thought_tokens;
  if (Status status = tokens_.take(chunk); !status.ok()) return give_up(std::move(status));
  if (!chunk.finish.empty()) finish_ = std::move(chunk.finish);
  return Next::kGoOn;
}

// The answer has come: what it brings as a whole, and whether it has an end. While it waits there is more to hand on.
Status CompletionAttempt::finish() {
  if (status_ != 200) return error_of(status_, error_, retry_after_);
  if (whole_ && !std::exchange(whole_taken_, true))
    if (Status status = take_whole(); !status.ok()) return status;
  if (Status status = emit(); !status.ok() || waits_) return status;
  if (!std::exchange(calls_taken_, true))
    if (Status status = take_calls(); !status.ok()) return status;
  if (Status status = emit(); !status.ok() || waits_) return status;
  if (finish_.empty()) return failure(Code::kUnavailable, "it ended its stream before the text had ended");
  if (!text_has_ended()) return failure(Code::kUnavailable, "it ended the text with '" + finish_ + "'");
  return {};
}

// An answer that is no stream is one event.
Status CompletionAttempt::take_whole() {
  auto chunk = read_chat_chunk(error_, calls_, logprob_limits());
  if (!chunk) return chunk.error();
  if (chunk->error) return std::move(*chunk->error);
  thoughts_.join(*chunk);
  prompt_tokens_ = chunk->prompt_tokens, completion_tokens_ = chunk->completion_tokens;
  cached_tokens_ = chunk->cached_tokens, thought_tokens_ = chunk->thought_tokens;
  finish_ = chunk->finish, ended_ = true;
  return tokens_.take(*chunk);
}

// They are known once all of them have come.
Status CompletionAttempt::take_calls() {
  if (calls_.empty()) return {};
  auto text = calls_.text(finish_ == "length" ? ToolCalls::Ending::kCut : ToolCalls::Ending::kWhole);
  if (!text) return text.error();
  if (text->empty()) return {};
  CompletionChunk chunk;
  chunk.text = std::string(thoughts_.end()) + (tokens_.count() > 0 ? "\n" : "") + *text;
  chunk.aside = chunk.text.size();
  return tokens_.take(chunk);
}

msg::Done CompletionAttempt::done() const {
  msg::Done out;
  const auto count = uint32_t(tokens_.count());
  if (chat_) out.prompt_tokens = prompt_tokens_.value_or(0);
  out.cached_tokens =
      std::min<uint32_t>(cached_tokens_.value_or(0), chat_ ? out.prompt_tokens : uint32_t(params_.length()));
  out.completion_tokens =
      tokens_.has_ids() ? count : std::min<uint32_t>(completion_tokens_.value_or(count), uint32_t(tokens_.most()));
  if (chat_) out.thought_tokens = std::min(thought_tokens_.value_or(0), out.completion_tokens);
  const auto& ends = asked_.spec.text->eos_ids;
  const auto& stops = params_.stop_ids;
  const uint32_t last = tokens_.last_id();
  const bool known = count > 0 && std::find(ends.begin(), ends.end(), last) != ends.end();
  const bool asked = count > 0 && std::find(stops.begin(), stops.end(), last) != stops.end();
  out.finish = finish_ == "length"           ? msg::Finish::kLength
               : finish_ == "content_filter" ? msg::Finish::kFiltered
               : asked && !known             ? msg::Finish::kStopId
                                             : msg::Finish::kEos;
  out.stop_id = known || asked ? last : ends.empty() ? 0 : ends.front();
  return out;
}

void CompletionAttempt::on_over(Status status, From from) {
  env_->cancel(std::exchange(end_timer_, base::TimerId::kNone));
  over_ = {std::move(status), from};
  if (!waits_ || late_) settle();
}

// The request is over, and all that it brought has been handed on. A connection that fails behind the end of a text
// takes nothing from it.
void CompletionAttempt::settle() {
  auto& [status, from] = *over_;
  const bool lost = from == From::kTransport || from == From::kStale || late_;
  if (!status.ok() && lost && text_has_ended()) status = {}, from = From::kOrigin;
  if (status.ok()) status = finish();
  if (status.ok() && waits_) return;
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
