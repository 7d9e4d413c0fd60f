#include "engines/llm/text_tensor_inbox.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/extra_work.h"
#include "base/take_out.h"
#include "base/workers.h"
#include "engines/llm/text_request.h"
#include "msg/credit.h"
#include "msg/token_charge.h"
#include "sched/proxy_inbox.h"
#include "sched/worker_pool.h"
#include "text/completion.h"

namespace weir::llm {
namespace {

constexpr size_t kWaitingMost = size_t(64) << 20;  // bytes of long prompts that wait to be tokenized

base::Bytes string_tensor(std::string_view text) {
  std::string data;
  msg::append_string(data, text);
  return base::Bytes::adopt(std::move(data));
}

text::Completion::Options options_of(TextRequest& request) {
  text::Completion::Options options;
  options.skip = request.skip_special ? msg::SkipSpecial::kYes : msg::SkipSpecial::kNo;
  options.stop = std::move(request.stops);
  options.keep = request.include_stop ? text::StopStrings::Keep::kYes : text::StopStrings::Keep::kNo;
  return options;
}

class TextTensorInbox final : public sched::ProxyInbox {
 public:
  TextTensorInbox(std::unique_ptr<msg::Inbox> lane, const msg::ModelSpec& spec, bus::ModelStats& stats)
      : ProxyInbox(Receives::kAtOnce), spec_(spec), stats_(stats), lane_(std::move(lane)) {}
  ~TextTensorInbox() override {
    tokenizer_worker_.reset(), compiler_worker_.reset();
    lane_.reset();  // fails what is running, which comes back here
    base::check(open_.empty(), "a TextTensorInbox outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  // One Call on its way. `parent` is null once it has been answered.
  struct TextCall : msg::Call {
    msg::Call* parent = nullptr;  // under mutex_
    size_t index = 0;             // in open_; under mutex_
    text::Completion completion;
    bool stream = false;
    std::string prompt;  // until it is tokens
    std::optional<msg::StructuredOutput> structured;
    std::shared_ptr<const msg::TokenGrammar> grammar;  // of `structured`, once it is compiled
    std::vector<uint32_t> end_ids;
    std::string ready, text;  // ready: a piece that has not been sent
    uint32_t prompt_tokens = 0, completion_tokens = 0;
    msg::TokenCharge charge;

    TextCall(const msg::TextCodec& codec, TextRequest& request)
        : completion(codec, options_of(request)), stream(request.stream) {}
  };
  using Bursts = bus::MailBursts;

  base::Result<std::unique_ptr<TextCall>> open(msg::Call& call);
  base::Status tokenize(TextCall& text_call) const;
  void begin(TextCall& text_call);
  void receive(msg::Mail&& mail, Bursts& out) override;
  void process_token(TextCall& text_call, const msg::Token& token, Bursts& out);
  void end(TextCall& text_call, const msg::Done& done, Bursts& out);
  void answer(TextCall& text_call, std::string_view reason, Bursts& out);
  void send(TextCall& text_call, msg::Event&& event, Bursts& out);
  void land(TextCall& text_call);
  void refuse(msg::Call* call, base::Status status);

  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TextCall>> open_;  // under mutex_
  sched::WaitingBytes waiting_{kWaitingMost};    // of prompts for the tokenizer worker; under mutex_
  std::unique_ptr<msg::Inbox> lane_;
  // Tokenizes what is long, so that shards need not; and what has a form that is not compiled yet, which may take
  // seconds, on another thread, so that texts do not wait for it.
  std::unique_ptr<base::Workers> tokenizer_worker_ = std::make_unique<base::Workers>(1);
  std::unique_ptr<base::Workers> compiler_worker_ = std::make_unique<base::Workers>(1);
};

void TextTensorInbox::put(msg::Call* call) {
  if (call->generation) return lane_->put(call);
  auto text_call = open(*call);
  if (!text_call) return refuse(call, text_call.error());
  TextCall* lent = text_call->get();
  size_t bytes = lent->prompt.size();
  if (lent->structured) lent->grammar = spec_.text->codec->find_compiled(*lent->structured);
  // A form that is not compiled yet is for the worker, too.
  bool is_long = bytes > bus::kShortText || (lent->structured && !lent->grammar);
  if (lent->structured && !lent->grammar) bytes += lent->structured->text.size();
  if (auto bad = is_long ? base::Status() : tokenize(*lent); !bad.ok()) return refuse(call, std::move(bad));
  bool full;
  {
    std::lock_guard lock(mutex_);
    full = is_long && !waiting_.add(lent->tenant, bytes);
  }
  if (full)
    return refuse(call, base::try_again(base::Code::kResourceExhausted,
                                        "too many long texts are waiting to be tokenized; try again later"));
  {
    std::lock_guard lock(mutex_);
    lent->parent = call;
    lent->cancelled.store(call->cancelled.load(std::memory_order_acquire), std::memory_order_release);
    if (lent->stream) lent->credit.store(call->credit.load(std::memory_order_acquire), std::memory_order_release);
    lent->index = open_.size();
    open_.push_back(std::move(*text_call));
  }
  if (!is_long) return lane_->put(lent);
  const uint64_t extra = lent->structured && !lent->grammar ? base::kCompileWork : 0;
  base::Workers& worker = extra > 0 ? *compiler_worker_ : *tokenizer_worker_;
  worker.post(
      [this, lent, tenant = lent->tenant, bytes] {
        begin(*lent);
        std::lock_guard lock(mutex_);
        waiting_.remove(tenant, bytes);
      },
      {lent->tenant, bytes + extra});
}

// A Call that was cancelled meanwhile is the lane's to drop: it counts those.
void TextTensorInbox::begin(TextCall& text_call) {
  base::Status bad;
  if (text_call.cancelled.load(std::memory_order_acquire))
    text_call.generation->append = {0};
  else
    bad = tokenize(text_call);
  if (text_call.cancelled.load(std::memory_order_acquire)) bad = {}, text_call.generation->append = {0};
  if (bad.ok()) return lane_->put(&text_call);
  stats_.add_failure(bad.code, 0);
  post_here({&text_call, {msg::Failed{std::move(bad)}}});
}

base::Status TextTensorInbox::tokenize(TextCall& text_call) const {
  const msg::TextSpec& text = *spec_.text;
  try {
    auto ids = text::encode_prompt(*text.codec, text_call.prompt, msg::AddSpecial::kYes, text.max_length,
                                   {.cancelled = &text_call.cancelled});
    if (!ids) return ids.error();
    text_call.generation->append = *std::move(ids);
    if (text_call.structured && !text_call.grammar) {
      auto form = text.codec->compile(*text_call.structured, &text_call.cancelled);
      if (!form) return form.error();
      text_call.grammar = *std::move(form);
    }
    if (text_call.grammar) text_call.generation->constraint = text_call.grammar->start(text_call.end_ids);
  } catch (const std::bad_alloc&) {
    return base::try_again(base::Code::kResourceExhausted, "out of memory; try again later");
  }
  text_call.prompt = {};
  if (text_call.generation->append.empty()) return base::invalid("text_input is empty");
  msg::TokenCharge::prompt(text_call, base::steady_now());
  return {};
}

base::Result<std::unique_ptr<TextTensorInbox::TextCall>> TextTensorInbox::open(msg::Call& call) {
  auto request = read_text_request(call, *spec_.text);
  if (!request) return request.error();
  if (auto s = text::check_prompt(request->prompt, spec_.text->max_length); !s.ok()) return s;
  auto text_call = std::make_unique<TextCall>(*spec_.text->codec, *request);
  text_call->generation = std::make_unique<msg::Generation>(std::move(request->generation));
  if (request->with_prompt) text_call->text = request->prompt;
  text_call->prompt = std::move(request->prompt);
  text_call->structured = std::move(request->structured), text_call->end_ids = std::move(request->end_ids);
  text_call->model = call.model, text_call->version = call.version, text_call->id = call.id;
  text_call->adapter = call.adapter;
  text_call->limiter = call.limiter;  // its home is here, so the bus sees none of its tokens
  text_call->tenant = call.tenant, text_call->cache_scope = call.cache_scope, text_call->priority = call.priority,
  text_call->deadline = call.deadline, text_call->queue_timeout = call.queue_timeout;
  text_call->trace = call.trace;
  text_call->home = this;
  text_call->times = call.times;
  return text_call;
}

// Cancelled Calls and new credit are passed on. The lane is told in any case: the Call may be one that passed through.
void TextTensorInbox::poke() {
  {
    std::lock_guard lock(mutex_);
    for (auto& text_call : open_) {
      if (!text_call->parent) continue;
      if (text_call->parent->cancelled.load(std::memory_order_acquire))
        text_call->cancelled.store(true, std::memory_order_release);
      if (text_call->stream)
        text_call->credit.store(text_call->parent->credit.load(std::memory_order_acquire), std::memory_order_release);
    }
  }
  lane_->poke();
}

void TextTensorInbox::receive(msg::Mail&& mail, Bursts& out) {
  auto& text_call = static_cast<TextCall&>(*mail.call);
  if (text_call.limiter) text_call.charge.answer(text_call, mail.event, base::steady_now());
  bool last = mail.event.last();
  if (text_call.parent) {
    if (auto* token = std::get_if<msg::Token>(&mail.event.what))
      process_token(text_call, *token, out);
    else if (auto* done = std::get_if<msg::Done>(&mail.event.what))
      end(text_call, *done, out);
    else
      send(text_call, std::move(mail.event), out);
  }
  if (last) land(text_call);
}

void TextTensorInbox::process_token(TextCall& text_call, const msg::Token& token, Bursts& out) {
  if (token.prefill) return;
  text_call.prompt_tokens = uint32_t(text_call.generation->length());
  std::string& to = text_call.stream ? text_call.ready : text_call.text;
  auto state = text_call.completion.push(token.id, to);
  text_call.completion_tokens = text_call.completion.tokens();
  if (state == text::Completion::State::kStopped) {
    text_call.satisfied.store(true, std::memory_order_relaxed);
    text_call.cancelled.store(true, std::memory_order_release);  // the lane looks before its next step
    return answer(text_call, "stop", out);
  }
  if (text_call.stream && !to.empty()) {
    msg::Outputs outputs;
    outputs.final = false;
    outputs.tensors.push_back({"text_output", msg::DType::kBytes, {1}, string_tensor(std::exchange(to, {}))});
    send(text_call, {std::move(outputs)}, out);
  } else if (text_call.stream) {
    std::lock_guard lock(mutex_);
    text_call.credit.store(text_call.parent->credit.load(std::memory_order_acquire), std::memory_order_release);
  }
}

void TextTensorInbox::end(TextCall& text_call, const msg::Done& done, Bursts& out) {
  text_call.completion.finish(text_call.stream ? text_call.ready : text_call.text);
  const bool stopped = text_call.completion.stop_string() != nullptr;
  text_call.prompt_tokens = done.prompt_tokens, text_call.completion_tokens = done.completion_tokens;
  answer(text_call, done.finish == msg::Finish::kLength && !stopped ? "length" : "stop", out);
}

void TextTensorInbox::answer(TextCall& text_call, std::string_view reason, Bursts& out) {
  msg::Outputs outputs;
  outputs.tensors.push_back(
      {"text_output", msg::DType::kBytes, {1}, string_tensor(text_call.stream ? text_call.ready : text_call.text)});
  outputs.parameters.emplace_back("finish_reason", std::string(reason));
  outputs.parameters.emplace_back("prompt_tokens", int64_t(text_call.prompt_tokens));
  outputs.parameters.emplace_back("completion_tokens", int64_t(text_call.completion_tokens));
  send(text_call, {std::move(outputs)}, out);
}

// To the Call's home, at the end of this burst. After a last Event the Call is its home's.
void TextTensorInbox::send(TextCall& text_call, msg::Event&& event, Bursts& out) {
  msg::Call* parent = text_call.parent;
  {
    std::lock_guard lock(mutex_);
    const int32_t cost = msg::credit_of(event);
    int32_t credit = parent->credit.fetch_sub(cost, std::memory_order_acq_rel) - cost;
    if (text_call.stream) text_call.credit.store(credit, std::memory_order_release);
    if (event.last()) {
      msg::Timeline times = text_call.times;
      times.received = parent->times.received;
      parent->times = times;
      text_call.parent = nullptr;
    }
  }
  out.add(parent->home, {parent, std::move(event)});
}

void TextTensorInbox::land(TextCall& text_call) {
  std::lock_guard lock(mutex_);
  base::take_out(open_, text_call, &TextCall::index);
}

void TextTensorInbox::refuse(msg::Call* call, base::Status status) {
  stats_.add_failure(status.code, 0);
  bus::post_one(call, {msg::Failed{std::move(status)}});
}

}  // namespace

std::unique_ptr<msg::Inbox> make_text_tensor_inbox(std::unique_ptr<msg::Inbox> lane, const msg::ModelSpec& spec,
                                                   bus::ModelStats& stats) {
  return std::make_unique<TextTensorInbox>(std::move(lane), spec, stats);
}

}  // namespace weir::llm
