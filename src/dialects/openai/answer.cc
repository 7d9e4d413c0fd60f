#include "dialects/openai/answer.h"

#include <limits>

#include "base/encoding.h"
#include "dialects/openai/keys.h"
#include "marshal/json_tensor.h"
#include "text/processor.h"

namespace weir::openai {
namespace {

constexpr int32_t kCredit = 256;             // tokens of one choice that may be on their way to a slow reader
constexpr size_t kHeavy = size_t(64) << 10;  // what a stream has to say of a prompt goes out in chunks of this size
constexpr uint32_t kEver = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kUsual = 16;  // max_tokens of a completion that does not say

text::Completion::Options text_options(const Request& request, const msg::TextSpec& spec) {
  using Keep = text::StopStrings::Keep;
  text::Completion::Options options;
  options.skip = request.fields.skip_special ? text::SkipSpecial::kYes : text::SkipSpecial::kNo;
  options.stop = request.fields.stop;
  options.keep = request.fields.include_stop ? Keep::kYes : Keep::kNo;
  options.end_ids = marshal::end_ids(request.fields, spec);
  options.min_tokens = request.fields.min_tokens.value_or(0);
  return options;
}

std::string_view input_name(Kind kind) { return kind == Kind::kChat ? "messages" : "prompt"; }

std::string json_string(std::string_view text) {
  std::string out;
  marshal::write_string(out, text);
  return out;
}

}  // namespace

// ---- One choice

void Choice::leave(bus::Bus& bus) {
  if (auto* call = std::exchange(call_, nullptr)) bus.abandon(call);
}

void Choice::add_credit(bus::Bus& bus) {
  if (int32_t n = std::exchange(owed, 0); n > 0 && call_) bus.add_credit(call_, n);
}

void Choice::on(msg::Call& call, msg::Event&& event) {
  if (event.last()) call_ = nullptr;  // the Call is the bus's again
  if (auto* token = std::get_if<msg::Token>(&event.what)) {
    ++owed;
    if (token->prefill)
      prompted(*token);
    else
      generated(call, *token);
    return answer_.repay(*this);
  }
  if (auto* end_of_it = std::get_if<msg::Done>(&event.what)) {
    done(*end_of_it);
    return answer_.closed(*this, call, marshal::spent(call));
  }
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return answer_.fail(failed->status);
  leave(answer_.state_.bus);
  answer_.fail(base::failure(base::Code::kInternal, "the model answered with tensors"));
}

void Choice::prompted(const msg::Token& token) {
  if (!token.details) return;
  const Request& request = answer_.request_;
  if (request.echo && request.logprobs) delta.add_logprob(answer_.form_, token.id, *token.details);
  if (request.prompt_logprobs) {
    if (!prompt_logprobs.empty()) prompt_logprobs += ',';
    write_prompt_logprob(prompt_logprobs, answer_.form_, token.id, *token.details);
  }
  if (!token.details->readout.empty()) delta.add_readout(answer_.form_, token);
  if (!request.stream || delta.weight() > kHeavy) answer_.grew(*this);
}

void Choice::generated(const msg::Call& call, const msg::Token& token) {
  const Request& request = answer_.request_;
  ++completion_tokens;
  cached_tokens = call.generation->cached_tokens;
  if (request.token_ids) delta.ids.push_back(token.id);
  auto state = text_.push(token.id, delta.text);
  if (token.details) {
    if (request.logprobs) delta.add_logprob(answer_.form_, token.id, *token.details);
    if (!token.details->readout.empty()) delta.add_readout(answer_.form_, token);
  }
  if (state == text::Completion::State::kStopped) return stopped(call);
  if (!delta.empty()) answer_.grew(*this);
}

// Nobody but this side knows of stop strings: the engine is told to stop.
void Choice::stopped(const msg::Call& call) {
  end = {End::Why::kStop, json_string(*text_.stop_string())};
  answer_.state_.bus.enough(std::exchange(call_, nullptr));
  // The lane still has the Call, and writes when it is finished.
  answer_.closed(*this, call, marshal::spent(call.times, answer_.exchange_.now()));
}

void Choice::done(const msg::Done& done) {
  text_.finish(delta.text);
  cached_tokens = done.cached_tokens;
  completion_tokens = std::max(completion_tokens, done.completion_tokens);
  end.why =
      done.finish == msg::Finish::kEos || done.finish == msg::Finish::kStopId ? End::Why::kStop : End::Why::kLength;
  if (done.finish == msg::Finish::kStopId) end.stop_reason = std::to_string(done.stop_id);
  if (text_.stop_string()) end = {End::Why::kStop, json_string(*text_.stop_string())};
}

// ---- All of them

Answer::Answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request)
    : state_(state), exchange_(exchange), kind_(kind), request_(std::move(request)) {}

Answer::~Answer() { leave(); }

void Answer::leave() {
  for (Choice& choice : choices_) choice.leave(state_.bus);
  if (std::exchange(counted_, false)) state_.load.running.fetch_sub(1, std::memory_order_relaxed);
}

ApiError Answer::start(bus::Served& served, std::vector<Sequence> prompts) {
  spec_ = served.spec.text;
  model_ = served.spec.name;
  form_ = {spec_->processor->tokenizer.get(), kind_, request_.tokens_as_ids, spec_->readout_layers.size()};
  state_.load.running.fetch_add(1, std::memory_order_relaxed);
  counted_ = true;
  uint32_t index = 0;
  for (Sequence& prompt : prompts)
    for (uint32_t i = 0; i < request_.n; ++i, ++index) {
      bool last = i + 1 == request_.n;
      ApiError bad = submit(served, prompt, last ? std::move(prompt.ids) : prompt.ids, index);
      if (bad.ok()) continue;
      leave();
      return bad;
    }
  return {};
}

ApiError Answer::submit(bus::Served& served, const Sequence& prompt, std::vector<uint32_t> ids, uint32_t index) {
  text::Completion text(*form_.tokenizer, text_options(request_, *spec_));
  text.after(ids);
  Choice& choice = choices_.emplace_back(*this, index, std::move(text));
  choice.prompt_tokens = uint32_t(ids.size());
  choice.delta.text = prompt.echo;
  if (request_.token_ids) write_ids(choice.prompt_ids, ids);
  auto generation = std::make_unique<msg::Generation>();
  generation->append = std::move(ids);
  generation->images = prompt.images;
  if (ApiError bad = fill(*spec_, *generation, index); !bad.ok()) return bad;
  msg::Call* call = state_.bus.make_call();
  call->model = served.spec.name;
  call->version = served.spec.version;
  call->id = request_.request_id;
  call->priority = request_.priority;
  call->tenant = tenant(exchange_.request(), state_.keys);
  call->generation = std::move(generation);
  if (request_.stream) call->credit.store(kCredit, std::memory_order_relaxed);
  call->sink = &choice;
  call->ticket = exchange_.ticket();
  if (base::Status status = state_.bus.submit(call, served); !status.ok()) {
    state_.bus.discard(call);
    return refuse(std::move(status));
  }
  choice.run(call);
  ++open_;
  return {};
}

ApiError Answer::fill(const msg::TextSpec& spec, msg::Generation& generation, uint32_t index) const {
  auto named = [&](marshal::FieldError error) {
    if (error.param == "prompt") error.param = input_name(kind_);
    return refuse(std::move(error));
  };
  if (auto bad = marshal::place(request_.fields, spec, generation); !bad.status.ok()) return named(std::move(bad));
  uint32_t usual = kind_ == Kind::kChat ? kEver : kUsual;
  if (auto bad = marshal::place_length(request_.fields, spec, usual, generation); !bad.status.ok())
    return named(std::move(bad));
  // Choices of one prompt differ, and the first is what a request for one alone would get.
  if (generation.sampling.seed) *generation.sampling.seed += index % request_.n;
  auto prompt = uint32_t(generation.length());
  if (request_.logprobs) {
    generation.logprobs.push_back({request_.echo ? 0 : prompt, kEver});
    generation.top_logprobs = *request_.logprobs;
  }
  if (request_.prompt_logprobs) {
    if (!(request_.logprobs && request_.echo)) generation.logprobs.push_back({0, prompt});
    generation.top_logprobs = std::max(generation.top_logprobs, *request_.prompt_logprobs);
  }
  generation.readouts = request_.readout_ranges;
  if (request_.readouts) generation.readouts.push_back({prompt, kEver});
  if (!generation.readouts.empty() && spec.concepts.empty()) return refuse("readouts", "readouts: this model has none");
  generation.cache_salt = cache_salt(request_.cache_salt);
  return {};
}

void Answer::closed(Choice& choice, const msg::Call& call, marshal::Spent spent) {
  choice.leave(state_.bus);
  ended(choice);
  if (--open_ > 0) return;
  marshal::note(exchange_.record(), call, spent);
  leave();
  over();
}

// In bursts: giving credit may wake the engine.
void Answer::repay(Choice& choice) {
  if (choice.owed >= kCredit / 4 && exchange_.backlog() < wire::Exchange::kLowWater) choice.add_credit(state_.bus);
}

void Answer::fail(const base::Status& status) {
  leave();
  failed(status);
}

Usage Answer::usage() const {
  Usage sum;
  for (const Choice& choice : choices_) {
    sum.completion += choice.completion_tokens;
    if (choice.index() % request_.n == 0) sum.prompt += choice.prompt_tokens, sum.cached += choice.cached_tokens;
  }
  return sum;
}

void Answer::make_head(std::string_view object) {
  std::string id = request_.request_id;
  if (id.empty()) {
    uint64_t random[2] = {state_.bus.env().random(), state_.bus.env().random()};
    id = base::hex({reinterpret_cast<const char*>(random), sizeof random}).substr(0, 24);
  }
  head_ = kind_ == Kind::kChat ? "\"id\":\"chatcmpl-" : "\"id\":\"cmpl-";
  head_ += id + "\",\"object\":\"";
  head_ += object;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(state_.bus.env().wall().time_since_epoch());
  head_ += "\",\"created\":" + std::to_string(seconds.count()) + ",\"model\":";
  marshal::write_string(head_, model_);
}

}  // namespace weir::openai
