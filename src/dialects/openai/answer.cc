#include "dialects/openai/answer.h"

#include <limits>

#include "base/encoding.h"
#include "dialects/openai/chats/chats.h"
#include "dialects/openai/llama_cpp/shares.h"
#include "dialects/openai/pieces_text.h"
#include "dialects/openai/tools.h"
#include "marshal/json_tensor.h"
#include "marshal/moved.h"
#include "marshal/tenant.h"
#include "msg/text_codec.h"
#include "text/token_filter.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

constexpr size_t kHeavy = size_t(64) << 10;  // what a stream has to say of a prompt goes out in chunks of this size
constexpr uint32_t kEver = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kUsual = 16;  // max_tokens of a completion that does not say

// How a chat's answer is read; nothing where it is text as it stands.
std::optional<msg::AnswerFormat> format_of(Kind kind, const Request& request, const msg::TextSpec& spec) {
  if (kind != Kind::kChat) return {};
  const msg::AnswerFormat format = answer_format(request, spec);
  if (format.tools == msg::ToolFormat::kNone && !format.thinks) return {};
  return format;
}

text::Completion::Options text_options(const Request& request, const msg::TextSpec& spec,
                                       std::optional<msg::AnswerFormat> format) {
  using Keep = text::StopStrings::Keep;
  text::Completion::Options options;
  options.skip = request.params.skip_special ? msg::SkipSpecial::kYes : msg::SkipSpecial::kNo;
  options.stop = request.params.stop;
  options.keep = request.params.include_stop ? Keep::kYes : Keep::kNo;
  options.parsed = format;
  options.end_ids = marshal::end_ids(request.params, spec);
  options.min_tokens = request.params.min_tokens.value_or(0);
  return options;
}

bool begins_in_thoughts(const Request& request, msg::AnswerFormat format) {
  return format.thinks && request.thoughts == msg::StructuredOutput::Thoughts::kBegun;
}

// A completion's text begins with the prompt's, whose tokens have logprobs, too; a chat's with a message.
bool echoes_prompt(const Request& request, Kind kind) { return request.echo && kind == Kind::kCompletion; }

std::string_view input_name(Kind kind) { return kind == Kind::kChat ? "messages" : "prompt"; }

// How often any of them has gone from one origin to another.
template <class Choices>
uint32_t moves_of(const Choices& choices) {
  uint32_t moves = 0;
  for (const auto& choice : choices) moves += choice.moves;
  return moves;
}

std::string json_string(std::string_view text) {
  std::string out;
  marshal::write_string(out, text);
  return out;
}

}  // namespace

// ---- One choice

Answer::Choice::Choice(Answer& answer, uint32_t index, text::Completion text, std::optional<text::AnswerParser> parser)
    : call(answer.state_.bus), answer_(answer), index_(index), text_(std::move(text)), parser_(std::move(parser)) {}

void Answer::Choice::on(msg::Call& from, msg::Event&& event) {
  call.on_event(event);
  if (auto* token = std::get_if<msg::Token>(&event.what)) {
    call.owe();
    if (token->prefill)
      prompted(*token);
    else
      generated(from, *token);
    if (answer_.exchange_.has_room()) call.repay();
    return;
  }
  if (auto* end_of_it = std::get_if<msg::Done>(&event.what)) {
    done(*end_of_it);
    marshal::record_spans(answer_.exchange_.record(), from);
    return answer_.closed(*this, from, marshal::durations_of(from));
  }
  marshal::record_spans(answer_.exchange_.record(), from);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return answer_.fail(failed->status);
  answer_.fail(base::failure(base::Code::kInternal, "the model answered with tensors"));
}

void Answer::Choice::prompted(const msg::Token& token) {
  if (!token.details) return;
  const Request& request = answer_.request_;
  if (echoes_prompt(request, answer_.kind_) && request.logprobs)
    delta.add_logprob(answer_.form_, token.id, *token.details, *request.logprobs);
  if (request.prompt_logprobs && !answer_.keep(*this, token))
    write_prompt_logprob(prompt_logprobs.next(), answer_.form_, token.id, *token.details, *request.prompt_logprobs);
  if (!token.details->readout.empty()) delta.add_readout(answer_.form_, token);
  if (!request.stream || delta.weight() > kHeavy) answer_.grew(*this);
}

void Answer::Choice::generated(const msg::Call& from, const msg::Token& token) {
  const Request& request = answer_.request_;
  if (completion_tokens++ == 0) first_token = answer_.exchange_.now();
  moves += token.moved;
  cached_tokens = from.generation->cached_tokens;
  if (request.token_ids) delta.ids.push_back(token.id);
  piece_.clear();
  const auto state = text_.push(token.id, parser_ ? piece_ : delta.text);
  if (parser_) {
    text::AnswerPieces pieces;
    parser_->push(piece_, pieces);
    if (parser_->thinks() || !pieces.reasoning.empty()) ++thought_tokens;
    read(std::move(pieces));
  }
  if (token.details) {
    if (token.details->has_logprob) logprob += token.details->logprob;
    if (request.logprobs && !answer_.keep(*this, token))
      delta.add_logprob(answer_.form_, token.id, *token.details, *request.logprobs);
    if (!token.details->readout.empty()) delta.add_readout(answer_.form_, token);
  }
  if (state == text::Completion::State::kStopped || has_all_calls()) return stopped(from, End::Why::kStop);
  if (state == text::Completion::State::kGoing && answer_.has_enough(*this)) return stopped(from, End::Why::kLength);
  if (!answer_.charge_bytes(custom_charged_, custom_.held())) return answer_.fail(wire::no_room_for_answer());
  if (!delta.empty()) answer_.grew(*this);
}

void Answer::Choice::read(text::AnswerPieces pieces) {
  const Request& request = answer_.request_;
  if (!request.include_reasoning) pieces.reasoning.clear();
  if (!request.parallel_tools) std::erase_if(pieces.calls, [](const auto& piece) { return piece.index > 0; });
  if (!request.custom_tools.empty()) custom_.hold(request, pieces.calls);
  tell(std::move(pieces));
}

void Answer::Choice::tell(text::AnswerPieces pieces) {
  size_t told = delta.calls.size();
  delta.add(std::move(pieces), [this] { return answer_.call_id(); });
  if (answer_.request_.custom_tools.empty()) return;
  for (; told < delta.calls.size(); ++told)
    delta.calls[told].custom = is_custom(answer_.request_, delta.calls[told].name);
}

// The model goes on to a call that the client does not want.
bool Answer::Choice::has_all_calls() const {
  return parser_ && !answer_.request_.parallel_tools && parser_->calls() > 1;
}

void Answer::Choice::finish_text() {
  piece_.clear();
  text_.finish(parser_ ? piece_ : delta.text);
  if (!parser_) return;
  text::AnswerPieces pieces;
  parser_->push(piece_, pieces);
  parser_->finish(pieces);
  read(std::move(pieces));
}

// A stop string, or the model, may end the text inside a call. Whoever ran that call would run it with other arguments,
// so it is no call. An answer that was cut for its length keeps it: the finish reason says that it is cut.
void Answer::Choice::end_calls() {
  if (!parser_) return;
  end.cut_call = end.why == End::Why::kStop && parser_->in_call() && !has_all_calls();
  end.calls = parser_->calls() > 0 && !end.cut_call;
  auto last = custom_.take();
  cut_custom_ = last && end.cut_call;
  if (!last || cut_custom_) return;
  text::AnswerPieces pieces;
  pieces.calls.push_back(std::move(*last));
  tell(std::move(pieces));
}

void Answer::Choice::drop_cut_call() {
  if (end.cut_call && !cut_custom_ && !delta.calls.empty()) delta.calls.pop_back();
}

// Nobody but this side knows why: the engine is told to stop.
void Answer::Choice::stopped(const msg::Call& from, End::Why why) {
  end.why = why;
  if (text_.stop_string()) end.stop_reason = json_string(*text_.stop_string());
  finish_text();
  end_calls();
  call.finish();
  // The lane still has the Call, and writes when it is finished.
  const base::Time now = answer_.exchange_.now();
  marshal::record_spans(answer_.exchange_.record(), from, now);
  answer_.closed(*this, from, marshal::durations_of(from.times, now));
}

void Answer::Choice::done(const msg::Done& done) {
  finish_text();
  cached_tokens = done.cached_tokens;
  // The origin of a forwarded model may count others than those that came.
  if (done.completion_tokens > 0) completion_tokens = done.completion_tokens;
  if (done.prompt_tokens > 0) prompt_tokens = done.prompt_tokens;
  if (done.thought_tokens) thought_tokens = *done.thought_tokens;
  end.why = why_of(done.finish);
  if (done.finish == msg::Finish::kStopId) end.stop_reason = std::to_string(done.stop_id);
  if (text_.stop_string()) end.why = End::Why::kStop, end.stop_reason = json_string(*text_.stop_string());
  end_calls();
}

// ---- All of them

Answer::Answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request)
    : state_(state), exchange_(exchange), kind_(kind), request_(std::move(request)), gathered_(exchange.memory()) {}

Answer::~Answer() { leave(); }

void Answer::leave() {
  for (Choice& choice : choices_) choice.call.abandon();
  if (std::exchange(counted_, false)) state_.load.running.fetch_sub(1, std::memory_order_relaxed);
}

ApiError Answer::start(bus::Served& served, std::vector<Sequence> prompts) {
  spec_ = served.spec.text;
  model_ = name_in_answer(request_.model, served.spec.name);
  form_ = {spec_->codec.get(), logprob_form(), request_.tokens_as_ids, spec_->readout_layers.size()};
  state_.load.running.fetch_add(1, std::memory_order_relaxed);
  counted_ = true;
  for (Sequence& prompt : prompts) {
    PromptIds told;
    if (request_.token_ids && !request_.native.answers) told = std::make_shared<std::vector<uint32_t>>(prompt.ids);
    for (uint32_t i = 0; i < request_.candidates(); ++i) {
      bool last = i + 1 == request_.candidates();
      ApiError bad = submit(served, prompt, last ? std::move(prompt.ids) : prompt.ids, told);
      if (bad.ok()) continue;
      leave();
      return in_names(request_.names, std::move(bad));
    }
  }
  return {};
}

ApiError Answer::submit(bus::Served& served, const Sequence& prompt, std::vector<uint32_t> ids, PromptIds told) {
  const auto index = uint32_t(choices_.size());
  const auto format = format_of(kind_, request_, *spec_);
  text::Completion text(*form_.codec, text_options(request_, *spec_, format));
  text.after(ids);
  std::optional<text::AnswerParser> parser;
  if (format) parser.emplace(text::AnswerParser::Options{*format, begins_in_thoughts(request_, *format)});
  Choice& choice = choices_.emplace_back(*this, index, std::move(text), std::move(parser));
  choice.prompt_tokens = uint32_t(ids.size());
  if (!request_.functions.empty()) choice.end.form = CallForm::kFunction;
  choice.delta.text = prompt.echo;
  choice.prompt_ids = std::move(told);
  auto generation = std::make_unique<msg::Generation>();
  generation->append = std::move(ids);
  generation->images = prompt.images;
  if (ApiError bad = fill(*spec_, *generation, index); !bad.ok()) return bad;
  msg::Call& call = choice.call.fill();
  call.model = served.spec.name;
  call.version = served.spec.version;
  call.id = request_.request_id;
  call.priority = request_.priority;
  marshal::set_caller(call, exchange_);
  call.generation = std::move(generation);
  if (request_.stream) choice.call.grant(bus::kTokenWindow);
  if (base::Status status = choice.call.submit(served, choice, exchange_.ticket()); !status.ok())
    return refuse(std::move(status));
  ++open_;
  return {};
}

ApiError Answer::fill(const msg::TextSpec& spec, msg::Generation& generation, uint32_t index) {
  auto named = [&](marshal::ParamError error) {
    if (error.param == "prompt") error.param = input_name(kind_);
    return refuse(std::move(error));
  };
  if (auto bad = marshal::apply(request_.params, spec, generation); !bad.status.ok()) return named(std::move(bad));
  uint32_t usual = kind_ == Kind::kChat || request_.fill_context ? kEver : kUsual;
  if (auto bad = marshal::apply_length(request_.params, spec, usual, generation); !bad.status.ok()) {
    const bool too_long = bad.status.code == base::Code::kOutOfRange;
    ApiError refused = named(std::move(bad));
    if (too_long) refused.overflow = {generation.length(), spec.max_length};
    return refused;
  }
  // Choices of one prompt differ, and the first is what a request for one alone would get.
  if (generation.sampling.seed) *generation.sampling.seed += index % request_.candidates();
  auto prompt = uint32_t(generation.length());
  if (request_.logprobs) {
    generation.logprobs.push_back({echoes_prompt(request_, kind_) ? 0 : prompt, kEver});
    generation.top_logprobs = *request_.logprobs;
  }
  if (request_.best_of > request_.n && !request_.logprobs) generation.logprobs.push_back({prompt, kEver});
  if (request_.prompt_logprobs) {
    if (!(request_.logprobs && echoes_prompt(request_, kind_))) generation.logprobs.push_back({0, prompt});
    generation.top_logprobs = std::max(generation.top_logprobs, *request_.prompt_logprobs);
  }
  generation.readouts = request_.readout_ranges;
  if (request_.readouts) generation.readouts.push_back({prompt, kEver});
  if (!generation.readouts.empty() && spec.concepts.empty()) return refuse("readouts", "readouts: this model has none");
  generation.cache_salt = cache_salt(state_, request_.cache_salt);
  if (request_.grammar) generation.constraint = request_.grammar->start(marshal::end_ids(request_.params, spec));
  if (request_.filter) generation.constraint = text::start_filter(request_.filter, std::move(generation.constraint));
  if (!request_.native.final_shares || !request_.logprobs) return {};
  sampling_ = generation.sampling;
  return llama_cpp::ask_for_shares(generation);
}

void Answer::closed(Choice& choice, const msg::Call& call, marshal::CallDurations took) {
  ended(choice);
  if (--open_ > 0) return;
  wire::RequestRecord& record = exchange_.record();
  marshal::record_call(record, call, took);
  if (record.trace) {  // what the answer says: choices of one prompt count it once
    const Usage all = usage();
    record.trace->input_tokens = all.prompt, record.trace->cached_tokens = all.cached;
    record.trace->output_tokens = all.completion;
  }
  leave();
  over();
}

void Answer::fail(const base::Status& status) {
  leave();
  failed(status);
}

bool Answer::charge(Choice& choice) {
  uint64_t bytes = choice.delta.held() + choice.prompt_logprobs.held();
  const bool first = choice.index() % request_.candidates() == 0;
  if (first && choice.prompt_ids) bytes += sizeof(uint32_t) * choice.prompt_ids->size();
  return gathered_.grow(choice.charged, bytes);
}

void Answer::finish_text(std::unique_ptr<wire::TextSource> text) {
  if (!exchange_.responding()) {
    marshal::tell_moves(exchange_, moves_of(choices_));
    add_timing(exchange_, exchange_.extra_fields());
  }
  const auto compress = wire::Exchange::Compress::kIfAccepted;
  if (auto bad = whole_.start("application/json", compress, std::move(text)); !bad.ok()) return failed(bad);
  if (!whole_.written()) return;
  let_go();
  gathered_.release();
}

void Answer::finish_written(base::Bytes json) {
  let_go();
  gathered_.release_parts();
  finish_text(std::make_unique<PiecesText>(1, [json](size_t, SplicedText& out) { out.splice(json.view()); }));
}

void Answer::on_drain(wire::Exchange&) {
  for (Choice& choice : choices_) choice.call.repay();
  if (whole_.written()) return;
  whole_.drained();
  if (!whole_.written()) return;
  let_go();
  gathered_.release();
}

void Answer::let_go() {
  for (Choice& choice : choices_) choice.delta = {}, choice.prompt_ids = {}, choice.prompt_logprobs = {};
}

std::string Answer::new_id() { return request_.request_id.empty() ? random_id(24) : request_.request_id; }

std::string Answer::random_id(size_t digits) { return openai::random_id(state_.bus, digits); }

// Mistral's templates take ids of nine letters and digits alone.
std::string Answer::call_id() {
  return spec_->codec->answer_format().tools == msg::ToolFormat::kMistral ? random_id(9) : "call_" + random_id(24);
}

Usage Answer::usage() const {
  Usage sum;
  for (const Choice& choice : choices_) {
    sum.first = std::min(sum.first, choice.first_token);
    sum.completion += choice.completion_tokens, sum.thoughts += choice.thought_tokens;
    if (choice.index() % request_.candidates() == 0)
      sum.prompt += choice.prompt_tokens, sum.cached += choice.cached_tokens;
  }
  return sum;
}

std::string Answer::make_head(std::string_view object) {
  if (id_.empty()) {
    id_ = (kind_ == Kind::kChat ? "chatcmpl-" : "cmpl-") + new_id();
    const auto since = state_.bus.env().wall().time_since_epoch();
    created_ = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  }
  std::string head = "\"id\":\"" + id_ + "\",\"object\":\"";
  head += object;
  head += "\",\"created\":" + std::to_string(created_) + ",\"model\":";
  marshal::write_string(head, model_);
  return head;
}

void Answer::keep_chat(std::string_view json) const {
  if (request_.store && kind_ == Kind::kChat) chats::keep(state_, exchange_, request_, id_, model_, json);
}

}  // namespace weir::openai
