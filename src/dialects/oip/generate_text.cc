// generate.h for models of text: one Call that makes tokens, its text as it comes.
#include <algorithm>
#include <utility>

#include "base/extra_work.h"
#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/oip/generate.h"
#include "dialects/oip/rest.h"
#include "dialects/oip/text_request.h"
#include "marshal/call_times.h"
#include "marshal/json_tensor.h"
#include "marshal/moved.h"
#include "marshal/tenant.h"
#include "text/completion.h"
#include "wire/answer_flow.h"
#include "wire/gathered_answer.h"
#include "wire/offload.h"

namespace weir::oip {
namespace {

using base::Status;
using wire::Exchange;

constexpr uint32_t kUsual = 20;  // max_tokens of a request that does not say

using Tokens = base::Result<std::vector<uint32_t>>;

Tokens tokens(std::string_view text, const msg::TextSpec& spec, const msg::TextBudget& budget) {
  return text::encode_prompt(*spec.codec, text, msg::AddSpecial::kYes, spec.max_length, budget);
}

using Grammar = std::shared_ptr<const msg::TokenGrammar>;

class Tokenizing final : public bus::OffloadTask {
 public:
  Tokenizing(std::string input, std::shared_ptr<const msg::TextSpec> spec)
      : text(std::move(input)), spec_(std::move(spec)) {}
  void run() override { ids = tokens(text, *spec_, {.cancelled = cancelled()}); }

  std::string text;
  Tokens ids{std::vector<uint32_t>()};  // after run()

 private:
  const std::shared_ptr<const msg::TextSpec> spec_;
};

// Compiles the form of the text to a Grammar at a worker, which may take seconds.
class Compiling final : public bus::OffloadTask, public base::ExtraWork {
 public:
  Compiling(msg::StructuredOutput form, std::shared_ptr<const msg::TextSpec> spec)
      : form_(std::move(form)), spec_(std::move(spec)) {}
  void run() override { grammar = spec_->codec->compile(form_, cancelled()); }
  uint64_t extra_work() const override { return base::kCompileWork; }

  base::Result<Grammar> grammar{Grammar()};  // after run()

 private:
  const msg::StructuredOutput form_;
  const std::shared_ptr<const msg::TextSpec> spec_;
};

size_t weight_of(const msg::StructuredOutput& form) {
  size_t bytes = form.text.size();
  for (const auto& choice : form.choices) bytes += choice.size();
  return bytes;
}

Status read_request(std::string_view body, const msg::TextSpec& spec, Delivery delivery, TextRequest& out) {
  if (Status bad = read_text_request(body, out); !bad.ok()) return bad;
  if (out.stream && delivery == Delivery::kWhole) return base::invalid("stream: use generate_stream");
  return place_words(out, spec);
}

// Reads a long body at a worker: the request, and the ids of its prompt.
class ReadLong final : public bus::OffloadTask {
 public:
  ReadLong(base::Bytes body, std::shared_ptr<const msg::TextSpec> spec, Delivery delivery)
      : body_(std::move(body)), spec_(std::move(spec)), delivery_(delivery) {}
  void run() override {
    status = read_request(body_.view(), *spec_, delivery_, request);
    if (status.ok()) ids = tokens(request.input, *spec_, {.cancelled = cancelled()});
  }

  Status status;  // after run(), as the others
  TextRequest request;
  Tokens ids{std::vector<uint32_t>()};

 private:
  const base::Bytes body_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  const Delivery delivery_;
};

class TextGenerate final : public wire::ExchangeListener, msg::Sink, bus::OffloadListener {
 public:
  TextGenerate(OipState& state, Exchange& exchange, TextRequest request, bus::Served& served, Delivery delivery)
      : exchange_(exchange),
        events_(exchange, state.bus.env()),
        request_(std::move(request)),
        served_(served),
        spec_(served.spec.text),
        delivery_(delivery),
        head_(reply_head(request_.id, served.spec.name, served.spec.version)),
        text_(*spec_->codec, text_options()),
        call_(state.bus),
        offload_(state.bus, *this) {}
  void on_close(Exchange&, bool) override { leave(); }
  void on_drain(Exchange&) override { call_.repay(); }

  // A long prompt becomes tokens at the bus's workers.
  Status start() {
    const size_t bytes = request_.input.size();
    if (bytes <= bus::kShortText) return start(tokens(request_.input, *spec_, msg::kBriefText));
    return offload(std::make_unique<Tokenizing>(std::exchange(request_.input, {}), spec_), bytes);
  }
  // A form that is not compiled yet has its own turn there.
  Status start(Tokens ids) {
    if (!ids) return std::move(ids).error();
    ids_ = *std::move(ids);
    const auto& form = request_.params.structured;
    if (form) grammar_ = spec_->codec->find_compiled(*form);
    if (!form || grammar_) return ask();
    return offload(std::make_unique<Compiling>(*form, spec_), weight_of(*form));
  }

 private:
  bool streams() const { return delivery_ == Delivery::kStream; }

  Status offload(std::unique_ptr<bus::OffloadTask> task, size_t bytes) {
    return offload_.send(std::move(task), bytes, served_, exchange_.ticket(), marshal::tenant_of(exchange_.request()));
  }

  Status ask() {
    auto generation = std::make_unique<msg::Generation>();
    generation->append = std::move(ids_);
    text_.after(generation->append);
    if (auto bad = marshal::apply(request_.params, *spec_, *generation); !bad.status.ok()) return bad.status;
    if (auto bad = marshal::apply_length(request_.params, *spec_, kUsual, *generation); !bad.status.ok())
      return bad.status;
    if (grammar_) generation->constraint = grammar_->start(marshal::end_ids(request_.params, *spec_));
    if (request_.details) generation->logprobs.push_back({uint32_t(generation->length()), UINT32_MAX});
    if (!request_.without_prompt) piece_ = request_.input;
    msg::Call& call = call_.fill();
    call.model = served_.spec.name;
    call.version = served_.spec.version;
    call.id = request_.id;
    call.priority = request_.priority;
    marshal::set_caller(call, exchange_);
    call.generation = std::move(generation);
    if (streams()) {
      call_.grant(bus::kTokenWindow);
      events_.keep_alive();
    }
    return call_.submit(served_, *this, exchange_.ticket());
  }

  text::Completion::Options text_options() const {
    using Keep = text::StopStrings::Keep;
    return {request_.params.skip_special ? msg::SkipSpecial::kYes : msg::SkipSpecial::kNo, request_.params.stop,
            request_.params.include_stop ? Keep::kYes : Keep::kNo, marshal::end_ids(request_.params, *spec_),
            request_.params.min_tokens.value_or(0)};
  }

  void on(msg::Call& call, msg::Event&& event) override {
    call_.on_event(event);
    if (auto* token = std::get_if<msg::Token>(&event.what)) return generated(call, *token);
    marshal::record_call(exchange_.record(), call);
    moves_ = call.progress.moves;
    if (auto* done = std::get_if<msg::Done>(&event.what)) {
      text_.finish(piece_);
      bool eos = done->finish == msg::Finish::kEos || done->finish == msg::Finish::kFiltered;
      bool stop = done->finish == msg::Finish::kStopId;
      return finish(text_.stop_string() || stop ? "stop_sequence" : eos ? "eos_token" : "length");
    }
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) return fail(failed->status);
    fail(base::failure(base::Code::kInternal, "the model answered with tensors"));
  }

  void on_task(Status status, std::unique_ptr<bus::OffloadTask> task) override {
    if (status.ok()) status = go_on(*task);
    if (!status.ok()) fail(status);
  }
  Status go_on(bus::OffloadTask& task) {
    if (auto* tokenized = dynamic_cast<Tokenizing*>(&task)) {
      request_.input = std::move(tokenized->text);
      return start(std::move(tokenized->ids));
    }
    auto& grammar = static_cast<Compiling&>(task).grammar;
    if (!grammar) return std::move(grammar).error();
    grammar_ = *std::move(grammar);
    return ask();
  }

  void generated(const msg::Call& call, const msg::Token& token) {
    call_.owe();
    if (token.prefill) return;
    auto state = text_.push(token.id, piece_);
    if (request_.details) detail(token);
    if (!streams() && !charge_gathered()) return fail(wire::no_room_for_answer());
    if (state == text::Completion::State::kStopped) {
      call_.finish();
      // The lane still has the Call, and writes when it is finished.
      marshal::record_call(exchange_.record(), call, exchange_.now());
      moves_ = call.progress.moves;
      return finish("stop_sequence");
    }
    if (streams() && (!piece_.empty() || !token_.empty())) send({});
    if (exchange_.has_room()) call_.repay();
  }

  // Where another server has the chats only what is said of its own tokens is shown (TokenDetails::texts).
  void detail(const msg::Token& token) {
    const auto& tokenizer = *spec_->codec;
    const bool told = token.details && !token.details->texts.empty();
    if (spec_->remote_chat && !told) return;
    if (!streams() && !token_.empty()) token_ += ',';
    token_ += "{\"id\":" + std::to_string(token.id) + ",\"text\":";
    marshal::write_string(token_, told ? token.details->texts.front() : tokenizer.bytes(token.id));
    token_ += ",\"logprob\":";
    bool known = token.details && token.details->has_logprob;
    marshal::write_number(token_, known ? std::max(token.details->logprob, -9999.0F) : 0.0F);
    token_ += tokenizer.special(token.id) ? ",\"special\":true}" : ",\"special\":false}";
  }

  bool charge_gathered() { return gathered_.grow(charged_, piece_.size() + token_.size()); }

  // Sends the new text, or all of it.
  void send(std::string_view finish_reason) {
    if (!streams() && !gathered_.charge_text()) return respond_error(exchange_, wire::no_room_for_answer());
    std::string out = head_ + ",\"text_output\":";
    marshal::write_string(out, piece_);
    if (request_.details) {
      out += ",\"details\":{\"finish_reason\":";
      out += finish_reason.empty() ? "null" : "\"" + std::string(finish_reason) + "\"";
      if (!streams())
        out += ",\"logprobs\":[" + token_ + "]";
      else if (!token_.empty())
        out += ",\"token\":" + token_;
      out += '}';
    }
    out += '}';
    piece_.clear(), token_.clear();
    gathered_.release();
    if (!streams()) {
      marshal::tell_moves(exchange_, moves_);
      return respond_inferred(exchange_, std::move(out));
    }
    events_.send(out);
  }

  void finish(std::string_view reason) {
    if (!streams() || request_.details || !piece_.empty()) send(reason);
    if (!streams()) return;
    events_.end(marshal::moved_trailers(moves_));
  }
  void fail(const Status& status) {
    leave();
    streams() ? events_.fail(status) : respond_error(exchange_, status);
  }

  void leave() {
    call_.abandon();
    offload_.abandon();
  }

  Exchange& exchange_;
  EventStream events_;  // where it streams
  TextRequest request_;
  std::vector<uint32_t> ids_;  // of the prompt, until the model is asked
  Grammar grammar_;
  bus::Served& served_;  // looked up in this turn, or kept alive by the task and the Call
  std::shared_ptr<const msg::TextSpec> spec_;
  Delivery delivery_;
  std::string head_;
  text::Completion text_;
  std::string piece_, token_;                          // text and token details that have not been sent
  wire::GatheredAnswer gathered_{exchange_.memory()};  // of them, in one piece
  uint64_t charged_ = 0;                               // bytes that it has counted
  uint32_t moves_ = 0;                                 // from one origin to another
  bus::CallHandle call_;
  bus::OffloadHandle offload_;
};

// Waits for ReadLong; then a TextGenerate takes its place at the exchange.
class LongRequest final : public wire::ExchangeListener, bus::OffloadListener {
 public:
  LongRequest(OipState& state, Exchange& exchange, bus::Served& served, Delivery delivery)
      : state_(state), exchange_(exchange), served_(served), delivery_(delivery), reading_(state.bus, *this) {}
  void on_close(Exchange&, bool) override { reading_.abandon(); }

  Status start() {
    const base::Bytes body = request_of(exchange_);
    return reading_.send(std::make_unique<ReadLong>(body, served_.spec.text, delivery_), body.size(), served_,
                         exchange_.ticket(), marshal::tenant_of(exchange_.request()));
  }

 private:
  void on_task(Status status, std::unique_ptr<bus::OffloadTask> task) override;

  OipState& state_;
  Exchange& exchange_;
  bus::Served& served_;  // kept alive by the task
  const Delivery delivery_;
  bus::OffloadHandle reading_;
};

Repeatable repeats(const marshal::GenerationParams& params, const msg::TextSpec& spec) {
  const bool greedy = params.temperature.value_or(spec.defaults.temperature) == 0;
  return greedy || params.seed || spec.defaults.seed ? Repeatable::kYes : Repeatable::kNo;
}

// Attaches a TextGenerate to the exchange; `start(TextGenerate&)` begins it, whose errors are answered.
template <class Start>
void run(OipState& state, Exchange& exchange, TextRequest request, bus::Served& served, Delivery delivery,
         Start start) {
  if (is_over(exchange, repeats(request.params, *served.spec.text))) return;
  auto generate = std::make_unique<TextGenerate>(state, exchange, std::move(request), served, delivery);
  TextGenerate& running = *generate;
  exchange.attach(std::move(generate));
  if (Status bad = start(running); !bad.ok()) respond_error(exchange, bad);
}

void LongRequest::on_task(Status status, std::unique_ptr<bus::OffloadTask> task) {
  Exchange& exchange = exchange_;
  if (!status.ok()) return respond_error(exchange, status);
  auto& read = static_cast<ReadLong&>(*task);
  if (!read.status.ok()) return respond_error(exchange, read.status);
  // The next ExchangeListener takes the place of this one.
  run(state_, exchange, std::move(read.request), served_, delivery_,
      [&read](TextGenerate& generate) { return generate.start(std::move(read.ids)); });
}

}  // namespace

void generate_text(OipState& state, Exchange& exchange, bus::Served& served, Delivery delivery) {
  const base::Bytes body = request_of(exchange);
  if (body.size() > wire::kLongBody) {
    auto reading = std::make_unique<LongRequest>(state, exchange, served, delivery);
    LongRequest& begun = *reading;
    exchange.attach(std::move(reading));
    if (Status bad = begun.start(); !bad.ok()) respond_error(exchange, bad);
    return;
  }
  TextRequest request;
  if (Status bad = read_request(body.view(), *served.spec.text, delivery, request); !bad.ok())
    return respond_error(exchange, bad);
  run(state, exchange, std::move(request), served, delivery, [](TextGenerate& generate) { return generate.start(); });
}

}  // namespace weir::oip
