// Which API a body of /generate is in, and the request of one token that /health_generate makes.
#include "dialects/openai/generate/generate.h"
#include "dialects/openai/generate/request.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/scores/scores.h"
#include "marshal/tenant.h"

namespace weir::openai::generate {
namespace {

using wire::Exchange;

// The model that a body names.
ApiError read_model(std::string_view body, std::string& model) {
  return translate(body, [&](const OrderedJson& object) {
    if (const OrderedJson* name = member(object, "model")) model = name->get<std::string>();
    return ApiError{};
  });
}

// A model that gives scores has its classes told, any other its embeddings.
void embed_or_classify(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<std::string>(state, exchange, read_model, [](OpenAiState& there, Exchange& x, std::string&& model) {
    auto [served, error] = find_model(there, x, model, bus::Needs::kAnything);
    const bool classifies = served && bus::has(served->spec, bus::Needs::kScores);
    (classifies ? scores::classify : embeddings)(there, x, {});
  });
}

struct OtherRoute {
  std::string_view member;
  Serve serve;
};
constexpr OtherRoute kOthers[] = {
    {"messages", chat_completions}, {"prompt", completions},    {"input", embed_or_classify}, {"query", scores::rerank},
    {"text_1", scores::score},      {"queries", scores::score}, {"data_1", scores::score}};

Serve other_route(const OrderedJson& body, Route route) {
  if (route != Route::kInvocations || member(body, "inputs")) return nullptr;
  for (const OtherRoute& row : kOthers)
    if (member(body, row.member)) return row.serve;
  return nullptr;
}

ApiError translate_either(const OrderedJson& body, Route route, Asked& out) {
  if (out.other = other_route(body, route); out.other) return {};
  const bool sglang = member(body, "text") || member(body, "input_ids");
  const bool inputs = member(body, "inputs");
  out.tgi = inputs || route != Route::kGenerate;
  if (inputs && sglang) return refuse("inputs", "inputs: not with text or input_ids, which are SGLang's");
  if (out.tgi) return translate_tgi(body, route, out.request);
  if (sglang) return translate_sglang(body, out.request);
  return refuse("text",
                "expected text or input_ids, as SGLang's clients send them, or inputs, as those of Text Generation "
                "Inference do");
}

template <Route route>
void run(OpenAiState& state, Exchange& exchange) {
  read_document<Asked>(
      state, exchange,
      [](std::string_view body, Asked& asked) { return read_generate(body, route, asked), ApiError{}; },
      [](OpenAiState& there, Exchange& x, Asked&& asked) {
        if (asked.other) {
          x.record().protocol = kProtocol;
          return asked.other(there, x, {});
        }
        if (asked.tgi) x.record().protocol = kTgi;
        if (!asked.error.ok()) return respond(x, asked.error);
        answer(there, x, Kind::kCompletion, std::move(asked.request), asked.tgi ? tgi_answer : sglang_answer);
      });
}

// Says that the model makes tokens, and nothing of them.
class Alive final : public Answer {
 public:
  using Answer::Answer;

 private:
  void grew(Choice&) override {}
  void ended(Choice&) override {}
  void over() override { exchange_.respond(200, "text/plain", {}); }
  void failed(const base::Status& status) override { respond(exchange_, refuse(status)); }
};

std::unique_ptr<Answer> alive(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<Alive>(state, exchange, kind, std::move(request));
}

}  // namespace

void read_generate(std::string_view body, Route route, Asked& out) {
  out.tgi = route != Route::kGenerate;
  out.error = translate(body, [&](const OrderedJson& object) { return translate_either(object, route, out); });
}

void carry_all(const OrderedJson& from, std::span<const RenamedMember> names, OrderedJson& to) {
  for (const RenamedMember& row : names) carry(from, row.name, to, row.openai);
}

bool flag(const OrderedJson& body, std::string_view name) {
  const OrderedJson* value = member(body, name);
  return value && value->get<bool>();
}

void generate(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) { run<Route::kGenerate>(state, exchange); }
void generate_stream(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  run<Route::kStream>(state, exchange);
}
void invocations(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  run<Route::kInvocations>(state, exchange);
}

void root(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<std::string>(state, exchange, read_model, [](OpenAiState& there, Exchange& x, std::string&& model) {
    const bus::Catalog& catalog = there.bus.catalog(marshal::models_of(x.request()));
    if (catalog.resolve(model, "", bus::Needs::kTokens) || !catalog.resolve(model, "", bus::Needs::kEmbeddings))
      return invocations(there, x, {});
    x.record().protocol = kProtocol;
    embed_lists(there, x, {});
  });
}

void health_generate(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (state.options.ready && !state.options.ready()) {
    exchange.record().code = base::Code::kUnavailable;
    return exchange.respond(503, "text/plain", {});
  }
  Request request;
  request.model = std::string(exchange.request().query_value("model"));
  request.prompts.emplace_back().text = "1";
  request.params.max_tokens = 1;
  request.params.temperature = 0;
  answer(state, exchange, Kind::kCompletion, std::move(request), alive);
}

}  // namespace weir::openai::generate
