#include "base/extra_work.h"
#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/pieces_text.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"
#include "marshal/json_tensor.h"
#include "text/processor.h"
#include "wire/answer_flow.h"

namespace weir::openai::llama_cpp {
namespace {

using wire::Exchange;

template <Route route>
void run(OpenAiState& state, Exchange& exchange) {
  read_document<Request>(
      state, exchange, [](std::string_view body, Request& request) { return read_body_of(body, route, request); },
      [](OpenAiState& there, Exchange& x, Request&& request) {
        if (ApiError bad = choose_adapter(there, x, request); !bad.ok()) return respond(x, bad);
        answer(there, x, Kind::kCompletion, std::move(request), make_answer);
      });
}

// {"prompt": the text}, written while the client takes it. Its memory stays charged until then.
class TemplateAnswer final : public wire::ExchangeListener {
 public:
  TemplateAnswer(Exchange& exchange, std::unique_ptr<text::RenderingMemory> memory, std::string text)
      : exchange_(exchange), memory_(std::move(memory)), text_(std::move(text)) {}

  void start() {
    add_timing(exchange_, exchange_.extra_fields());
    auto source = std::make_unique<PiecesText>(1, [this](size_t, SplicedText& out) {
      out.own = "{\"prompt\":";
      out.splice_string(text_);
      out.own += '}';
    });
    const auto bad = answer_.start("application/json", Exchange::Compress::kIfAccepted, std::move(source));
    if (!bad.ok()) return respond(exchange_, {bad, {}, {}});
    release();
  }

 private:
  void on_drain(Exchange&) override {
    answer_.drained();
    release();
  }
  void on_close(Exchange&, bool) override {}
  uint64_t held_for_answer() const override { return text_.capacity(); }

  void release() {
    if (!answer_.written()) return;
    text_ = {};
    memory_.reset();
  }

  Exchange& exchange_;
  std::unique_ptr<text::RenderingMemory> memory_;  // null: nothing is charged
  std::string text_;
  wire::PiecewiseAnswer answer_{exchange_};
};

// The prompt of a chat as the model's template writes it.
class TemplateTask final : public Task, public base::ExtraWork {
 public:
  TemplateTask(Request request, const Exchange& exchange, const bus::Served& served)
      : request_(std::move(request)), body_(exchange.content()), spec_(held_tokens(served)) {}

  void run() override {
    make(rendering.next(cancelled()));
    goes_on_ = rendering.needs_more(error.status);
    if (goes_on_) error = {};
  }
  bool run_briefly() override {
    make(msg::kBriefText);
    if (error.status.code != base::Code::kAborted) return true;
    error = {};
    return false;
  }
  bool goes_on() const override { return goes_on_; }
  void then(OpenAiState&, Exchange& exchange, bus::Served&) override {
    auto answer = std::make_unique<TemplateAnswer>(exchange, rendering.take_memory(), std::move(text_));
    TemplateAnswer& running = *answer;
    exchange.attach(std::move(answer));
    running.start();
  }

 private:
  uint64_t extra_work() const override { return rendering.extra_work(); }
  void make(const msg::TextBudget& budget) {
    if (spec_->remote_chat) {
      error = refuse("model", "another server has this model's chat template");
      return;
    }
    Conversation talk;
    error = render(request_, *spec_, 0, talk, budget);
    text_ = std::move(talk.text);
  }

  Request request_;
  const base::Bytes body_;  // which the request points into
  const std::shared_ptr<const msg::TextSpec> spec_;
  std::string text_;
  bool goes_on_ = false;
};

void write_member(std::string& out, std::string_view name, std::string_view text) {
  ((out += ",\"") += name) += "\":";
  marshal::write_string(out, text);
}

}  // namespace

void completion(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  run<Route::kCompletion>(state, exchange);
}
void infill(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) { run<Route::kInfill>(state, exchange); }

void apply_template(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange, [](std::string_view body, Request& out) { return read_request(body, Kind::kChat, out); },
      [](OpenAiState& there, Exchange& x, Request&& request) {
        auto [served, error] = find_model(there, x, request.model, bus::Needs::kTokens);
        if (!error.ok()) return respond(x, error);
        const size_t bytes = prompt_bytes(x, request);
        perform(there, x, *served, std::make_unique<TemplateTask>(std::move(request), x, *served), bytes);
      });
}

// A server without slots has as many as a request may have choices.
void props(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  auto [served, error] = find_model(state, exchange, exchange.request().query_value("model"), bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  const msg::TextSpec& spec = *tokens_of(served->spec);
  std::string out = R"({"default_generation_settings":{"id":0,"n_ctx":)" + std::to_string(spec.max_length);
  out += ",\"params\":";
  for (char before = '{'; const auto& [name, json] : settings_of(Request(), spec)) {
    ((((out += std::exchange(before, ',')) += '"') += name) += "\":") += json;
  }
  out += "}},\"total_slots\":" + std::to_string(kMaxChoices);
  write_member(out, "model_alias", served->spec.name);
  write_member(out, "model_path", served->spec.name);
  const text::Processor* codec = text::processor_of(spec.codec.get());
  write_member(out, "chat_template", codec ? std::string_view(codec->chat_source) : "");
  write_member(out, "bos_token", codec ? std::string_view(codec->bos) : "");
  write_member(out, "eos_token", codec ? std::string_view(codec->eos) : "");
  out += R"(,"modalities":{"vision":)";
  out += spec.vision ? "true" : "false";
  out += R"(,"audio":false})";
  write_member(out, "build_info", "weir-" + state.options.server_version);
  respond_json(exchange, out += ",\"is_sleeping\":false}");
}

}  // namespace weir::openai::llama_cpp
