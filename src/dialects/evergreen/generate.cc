// GENERATE: a node read as a conversation (prompt.h) → the model's answer, as it comes.
//
//   inputs   prompt, or text
//   outputs  response, or text: text/plain, streamed; with per-token details a node of one leaf per token
//            usage: JSON, and weir.evergreen.v1.Usage in the metadata
//   config   weir.evergreen.v1.GenerateConfig (proto/evergreen_config.proto)
#include <algorithm>
#include <optional>

#include "base/encoding.h"
#include "base/extra_work.h"
#include "dialects/evergreen/action.h"
#include "dialects/evergreen/prompt.h"
#include "evergreen_config.pb.h"
#include "marshal/generation_params.h"
#include "marshal/json_cursor.h"
#include "text/completion.h"
#include "text/rendering_budget.h"
#include "wire/body_memory.h"

namespace weir::evergreen {
namespace {

using base::invalid;
using base::Status;
using Step = Cursor::Step;

namespace v1 = ::weir::evergreen::v1;

constexpr std::string_view kConfig = "weir.evergreen.v1.GenerateConfig";
constexpr uint32_t kMaxTokens = 256;

// `why` begins with the field's name.
Status bad_config(std::string_view why) { return invalid("GenerateConfig." + std::string(why)); }

Status read_config(std::string_view message, marshal::GenerationParams& out) {
  constexpr auto kEvergreen = marshal::Protocol::kEvergreen;
  for (marshal::PbReader reader(message); reader.next();)
    if (const auto* row = marshal::find_param(kEvergreen, reader.field()))
      if (Status s = marshal::read_param(reader, kEvergreen, *row, out); !s.ok()) return bad_config(s.text);
  if (out.max_tokens == 0u) out.max_tokens.reset();
  return {};
}

class Prompting final : public bus::OffloadTask, public base::ExtraWork {
 public:
  Prompting(std::shared_ptr<const msg::TextSpec> spec, std::vector<Turn> turns, Templating templating,
            TranscriptList transcripts)
      : spec_(std::move(spec)),
        turns_(std::move(turns)),
        templating_(templating),
        transcripts_(std::move(transcripts)) {}
  void run() override {
    make(rendering.next(cancelled()));
    goes_on_ = !prompt && rendering.needs_more(prompt.error());
  }
  bool run_briefly() override {
    if (goes_on_) return false;
    make(msg::kBriefText);
    return prompt || prompt.error().code != base::Code::kAborted;
  }
  // Behind run(): the template takes long, and waits for a turn of its own at the workers.
  bool goes_on() const { return goes_on_; }

  base::Result<Prompt> prompt{Prompt()};
  text::RenderingBudget rendering;

 private:
  uint64_t extra_work() const override { return rendering.extra_work(); }
  // The prompt's text stays charged for as long as this is there.
  void make(const msg::TextBudget& budget) {
    prompt = make_prompt(spec_, turns_, templating_, transcripts_, budget);
    budget.keep(prompt ? prompt->text.capacity() : 0);
  }

  const std::shared_ptr<const msg::TextSpec> spec_;
  const std::vector<Turn> turns_;
  const Templating templating_;
  const TranscriptList transcripts_;
  bool goes_on_ = false;
};

class Generate final : public OneInputAction {
 public:
  using OneInputAction::OneInputAction;

 private:
  Status begin() override {
    const Packed* packed = config(kConfig);
    if (packed && !config_.ParseFromString(packed->value)) return invalid("malformed " + std::string(kConfig));
    if (Status s = find(bus::Needs::kTokens); !s.ok()) return s;
    spec_ = spec().text;
    if (Status s = check_config(packed ? packed->value : std::string_view()); !s.ok()) return s;
    auto prompt = input({"prompt", "text"});
    if (!prompt) return std::move(prompt).error();
    response_ = output({"response", "text"});
    cursor_.emplace(session_.graph(), **prompt, *this);
    return {};
  }

  Status check_config(std::string_view message) {
    if (Status s = read_config(message, params_); !s.ok()) return s;
    if (config_.readouts() && spec_->concepts.empty())
      return invalid("model '" + spec().name + "' has no concept readouts");
    detailed_ = config_.logprobs() || config_.top_logprobs() > 0 || config_.readouts();
    return {};
  }

  Status go_on() override {
    if (running()) {
      repay();
      return {};
    }
    for (;;) {
      Status s;
      switch (cursor_->next()) {
        case Step::kWait: return {};
        case Step::kFailed: return cursor_->status();
        case Step::kChunk:
          s = conversation_.add_chunk(cursor_->leaf(), cursor_->data(), *spec_);
          if (conversation_.in_place()) keep_charged(cursor_->hold());
          break;
        case Step::kLeafEnd: s = conversation_.end_leaf(*spec_); break;
        case Step::kEnd: return may_begin() ? ask() : Status{};
      }
      if (!s.ok()) return s;
    }
  }

  uint64_t held() const override {
    return conversation_.size() + (cursor_ ? cursor_->size() : 0) + templated_ + text_.capacity() + said_.capacity() +
           ids_.capacity() * sizeof ids_[0];
  }

  Status ask() {
    cursor_.reset();
    if (Status s = find(bus::Needs::kTokens); !s.ok()) return s;  // it may have been reloaded meanwhile
    spec_ = spec().text;
    auto templating = config_.raw() ? Templating::kRaw : Templating::kChat;
    work_ = conversation_.work();
    templated_ = conversation_.size();
    auto task = std::make_unique<Prompting>(spec_, conversation_.take(), templating, session_.transcripts().list());
    const wire::PeerInfo* peer = session_.exchange().request().peer;
    base::ClientRef client = peer ? peer->client : base::ClientRef();
    const EvergreenState& state = session_.state();
    const auto owner = wire::owner_of_heads(state.options.bodies, client.get());
    task->rendering.begin(work_, state.slabs.ledger(), std::move(client), owner);
    return perform(std::move(task), work_);
  }

  Status performed(std::unique_ptr<bus::OffloadTask> task) override {
    auto& made = static_cast<Prompting&>(*task);
    if (made.goes_on()) return perform(std::move(task), work_, bus::Admission::kGranted);
    auto& prompt = made.prompt;
    if (!prompt) return std::move(prompt).error();
    templated_ = 0;
    text_ = std::move(prompt->text);
    with_images_ = !prompt->images.empty();
    ids_ = prompt->ids;
    prompt_tokens_ = uint32_t(ids_.size());
    auto generation = std::make_unique<msg::Generation>();
    if (Status s = fill(*generation, std::move(*prompt)); !s.ok()) return s;
    call().generation = std::move(generation);
    limit_tokens();
    text::Completion::Options options;
    options.stop = params_.stop;
    completion_.emplace(*spec_->codec, std::move(options));
    if (response_) response_->begin(std::string(kPlainText), "assistant");
    return submit();
  }

  Status fill(msg::Generation& g, Prompt&& prompt) {
    g.append = std::move(prompt.ids);
    g.images = std::move(prompt.images);
    auto bad = marshal::apply(params_, *spec_, g);
    if (bad.status.ok()) bad = marshal::apply_length(params_, *spec_, kMaxTokens, g);
    if (!bad.status.ok()) return bad.param == "prompt" ? bad.status : bad_config(bad.status.text);
    const msg::PositionRange answer{prompt_tokens_, UINT32_MAX};
    if (config_.logprobs() || config_.top_logprobs() > 0) g.logprobs.push_back(answer);
    g.top_logprobs = config_.top_logprobs();
    if (config_.readouts()) g.readouts.push_back(answer);
    return {};
  }

  Status token(const msg::Token& token) override {
    if (token.prefill) return {};
    ids_.push_back(token.id);
    ++completion_tokens_;
    std::string text;
    bool stopped = completion_->push(token.id, text) == text::Completion::State::kStopped;
    said_ += text;
    if (Status s = emit_text(text, &token); !s.ok() || !stopped) return s;
    cached_tokens_ = call().generation->cached_tokens;
    finish_call();
    cut_ = true;
    return finish("stop");
  }

  Status finished(const msg::Done& d) override {
    prompt_tokens_ = d.prompt_tokens;
    cached_tokens_ = d.cached_tokens;
    completion_tokens_ = d.completion_tokens;
    bool by_id = d.finish == msg::Finish::kEos || d.finish == msg::Finish::kStopId;
    if (by_id && ids_.size() > prompt_tokens_ && ids_.back() == d.stop_id) ids_.pop_back();  // no part of the text
    std::string text;
    completion_->finish(text);
    said_ += text;
    cut_ = completion_->stop_string() != nullptr;
    if (Status s = emit_text(text, nullptr); !s.ok()) return s;
    return finish(d.finish == msg::Finish::kLength && !cut_ ? "length" : "stop");
  }

  Status emit_text(std::string& text, const msg::Token* token) {
    if (!response_) return {};
    if (detailed_) return text.empty() && !token ? Status{} : emit_token(std::move(text), token);
    if (text.empty()) return {};
    return response_->write(base::Bytes::copy_of(text), Output::More::kYes);
  }

  Status emit_token(std::string text, const msg::Token* token) {
    auto node = claim_child(*response_, std::to_string(leaves_++));
    if (!node) return std::move(node).error();
    Output leaf(session_, "", **node);
    std::vector<Packed> details;
    if (token) details.push_back({"weir.evergreen.v1.TokenDetails", describe(*token)});
    leaf.begin(std::string(kPlainText), "assistant", details);
    Status s = response_->child(std::string((*node)->id()), Output::More::kYes);
    if (s.ok()) s = leaf.write(base::Bytes::adopt(std::move(text)), Output::More::kNo);
    if (!s.ok()) leaf.break_off(s);
    return s;
  }

  // As a string of protobuf. Of a character that is more than one token, each has the bytes that are no UTF-8 alone.
  static std::string text_of(const std::string& bytes) {
    return marshal::valid_utf8(bytes) ? bytes : base::presentable(bytes, bytes.size());
  }

  std::string describe(const msg::Token& token) const {
    v1::TokenDetails out;
    out.set_id(token.id);
    out.set_position(token.position);
    if (!token.details) return out.SerializeAsString();
    const msg::TokenDetails& d = *token.details;
    if (d.has_logprob && (config_.logprobs() || config_.top_logprobs() > 0)) out.set_logprob(d.logprob);
    size_t place = 0;  // behind the token's own
    for (const auto& t : d.top) {
      auto& alternative = *out.add_top();
      alternative.set_id(t.id);
      alternative.set_text(++place < d.texts.size() ? text_of(d.texts[place])
                                                    : spec_->codec->decode({&t.id, 1}, msg::SkipSpecial::kNo));
      alternative.set_logprob(t.logprob);
    }
    size_t i = 0;
    for (uint32_t layer : spec_->readout_layers)
      for (const auto& concept_name : spec_->concepts) {
        if (i >= d.readout.size()) return out.SerializeAsString();
        auto& readout = *out.add_readouts();
        readout.set_layer(layer);
        readout.set_concept_name(concept_name);
        readout.set_value(d.readout[i++]);
      }
    return out.SerializeAsString();
  }

  Status finish(std::string_view reason) {
    Status s;
    if (response_) s = detailed_ ? response_->end() : response_->write({}, Output::More::kNo);
    if (Output* usage = output({"usage"}); usage && s.ok()) s = write_usage(*usage, reason);
    if (!s.ok()) return s;
    done();  // what it held is room for what is remembered
    remember();
    return {};
  }

  Status write_usage(Output& out, std::string_view reason) {
    v1::Usage usage;
    usage.set_prompt_tokens(prompt_tokens_);
    usage.set_cached_prompt_tokens(cached_tokens_);
    usage.set_completion_tokens(completion_tokens_);
    usage.set_finish_reason(std::string(reason));
    std::string json = "{\"prompt_tokens\":" + std::to_string(prompt_tokens_) +
                       ",\"cached_prompt_tokens\":" + std::to_string(cached_tokens_) +
                       ",\"completion_tokens\":" + std::to_string(completion_tokens_) + ",\"finish_reason\":\"" +
                       std::string(reason) + "\"}";
    std::vector<Packed> packed{{"weir.evergreen.v1.Usage", usage.SerializeAsString()}};
    out.begin(std::string(kJsonType), {}, packed);
    return out.write(base::Bytes::adopt(std::move(json)), Output::More::kNo);
  }

  // For the next question: the text so far and the very tokens that it was, unless part of them is not in the text.
  void remember() {
    if (with_images_ || cut_) return;
    for (size_t i = prompt_tokens_; i < ids_.size(); ++i)
      if (spec_->codec->special(ids_[i])) return;
    session_.transcripts().remember({spec_, text_ + said_, std::move(ids_)});
  }

  v1::GenerateConfig config_;
  marshal::GenerationParams params_;  // of the config
  std::shared_ptr<const msg::TextSpec> spec_;
  Output* response_ = nullptr;
  Conversation conversation_;
  std::optional<text::Completion> completion_;
  uint64_t templated_ = 0;     // bytes of the conversation that becomes a prompt
  uint64_t work_ = 0;          // of making it, in bytes of text
  std::string text_, said_;    // of the prompt; of the answer
  std::vector<uint32_t> ids_;  // of both
  uint32_t prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
  size_t leaves_ = 0;
  bool detailed_ = false, with_images_ = false;
  bool cut_ = false;  // a stop string has been taken off the answer
};

}  // namespace

std::unique_ptr<Action> make_generate(Session& session, ActionRequest&& request) {
  return std::make_unique<Generate>(session, std::move(request));
}

}  // namespace weir::evergreen
