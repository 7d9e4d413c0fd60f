#include "dialects/openai/openai.h"

#include <utility>

#include "base/encoding.h"
#include "base/log.h"
#include "base/sip_hash.h"
#include "dialects/openai/answer.h"
#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/api_error.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "dialects/openai/batches/uploads.h"
#include "dialects/openai/chats/chats.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/socket.h"
#include "dialects/openai/routes.h"
#include "dialects/openai/task.h"
#include "jobs/shard_jobs.h"
#include "marshal/encoder.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

using wire::Exchange;
using wire::PathArgs;
using wire::Permission;

constexpr std::string_view kLatest = ":latest";

class AnswerTask final : public PromptTask {
 public:
  AnswerTask(Kind kind, Request request, const Exchange& exchange, const bus::Served& served, MakeAnswer make)
      : PromptTask(kind, std::move(request), exchange, served), make_(make) {}

  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto answer = make_(state, exchange, kind_, std::move(request_));
    Answer& running = *answer;
    exchange.attach(std::move(answer));
    if (ApiError bad = running.start(served, std::move(prompts_)); !bad.ok()) respond(exchange, bad);
  }

 private:
  const MakeAnswer make_;
};

// A path that names a deployment has the word, whatever the body says.
void run(OpenAiState& state, Exchange& exchange, const PathArgs& args, Kind kind) {
  read_body<Request>(
      state, exchange,
      [kind](std::string_view body, Request& request) {
        ApiError bad = read_request(body, kind, request);
        return bad.ok() && request.store ? chats::check_stored(request) : bad;
      },
      [kind, deployment = name_in_path(args, kDeployment)](OpenAiState& there, Exchange& x, Request&& request) {
        if (!deployment.empty()) request.model = deployment;
        MakeAnswer make = request.stream ? streamed : whole;
        answer(there, x, kind, std::move(request), make);
      });
}

// Anthropic's clients have these paths, too.
bool is_shared(Serve serve) { return serve == list_models || serve == show_model; }

void settle_protocol(Exchange& exchange, Serve serve) {
  if (is_shared(serve) && anthropic::asks(exchange)) exchange.record().protocol = kAnthropic;
}

}  // namespace

void tell_ignored(Exchange& exchange, const Request& request) {
  if (request.ignored.empty()) return;
  exchange.extra_fields().add("weir-ignored", request.ignored);
  base::log::verbose("members of a request are ignored", {{"members", request.ignored}});
}

void answer(OpenAiState& state, Exchange& exchange, Kind kind, Request&& request, MakeAnswer make) {
  tell_ignored(exchange, request);
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  const size_t bytes = prompt_bytes(exchange, request);
  auto task = std::make_unique<AnswerTask>(kind, std::move(request), exchange, *served, make);
  perform(state, exchange, *served, std::move(task), bytes);
}

// llama.cpp's clients read the status that the answer names.
void health(OpenAiState& state, Exchange& exchange, const PathArgs&) {
  bool ready = !state.options.ready || state.options.ready();
  if (!ready) exchange.record().code = base::Code::kUnavailable;
  if (!ready) return exchange.respond(503, "text/plain", {});
  exchange.respond(200, "application/json", base::Bytes::constant(R"({"status":"ok"})"));
}

void version(OpenAiState& state, Exchange& exchange, const PathArgs&) {
  std::string out = "{\"version\":";
  marshal::write_string(out, state.options.server_version);
  respond_json(exchange, out + "}");
}

void load(OpenAiState& state, Exchange& exchange, const PathArgs&) {
  auto running = state.load.running.load(std::memory_order_relaxed);
  respond_json(exchange, "{\"server_load\":" + std::to_string(running) + "}");
}

void chat_completions(OpenAiState& state, Exchange& exchange, const PathArgs& args) {
  run(state, exchange, args, Kind::kChat);
}
void completions(OpenAiState& state, Exchange& exchange, const PathArgs& args) {
  run(state, exchange, args, Kind::kCompletion);
}

void Endpoint::serve(Exchange& exchange, const PathArgs& args) {
  settle_protocol(exchange, serve_);
  if (exchange.record().protocol == kAnthropic) tell_id(exchange);
  serve_(state_, exchange, args);
}

bool Endpoint::refuse(Exchange& exchange, const base::Status& why) {
  settle_protocol(exchange, serve_);
  if (exchange.record().protocol == kAnthropic) tell_id(exchange);
  respond(exchange, openai::refuse(why));
  return true;
}

std::string name_in_path(const PathArgs& args, std::string_view what) {
  std::string name(args[what]);
  const std::string_view owner = args["owner"];
  return owner.empty() ? name : std::string(owner) + '/' + name;
}

const msg::TextSpec* tokens_of(const msg::ModelSpec& spec) { return marshal::tokens_of(spec).get(); }

std::string_view name_in_answer(std::string_view asked, std::string_view own) {
  const bool latest = asked.size() == own.size() + kLatest.size() && asked.starts_with(own) && asked.ends_with(kLatest);
  return asked.empty() || latest ? own : asked;
}

// A name that clients of a server with one model send, as one is wanted: Text Generation Inference's examples and
// SGLang's; Hugging Face's JavaScript client, which is told an address alone, sends that.
static bool is_placeholder(std::string_view name) {
  return name == "tgi" || name == "default" || name.starts_with("http://") || name.starts_with("https://");
}

Found find_model(OpenAiState& state, Exchange& exchange, std::string_view name, bus::Needs needs) {
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  auto found = catalog.resolve(name, "", needs);
  if (!found && found.error().code == base::Code::kNotFound && name.size() > kLatest.size() &&
      name.ends_with(kLatest)) {
    auto untagged = catalog.resolve(name.substr(0, name.size() - kLatest.size()), "", needs);
    if (untagged || untagged.error().code != base::Code::kNotFound) found = std::move(untagged);
  }
  if (!found && found.error().code == base::Code::kNotFound && is_placeholder(name))
    if (auto unnamed = catalog.resolve("", "", needs)) found = std::move(unnamed);
  if (!found) return {nullptr, {std::move(found).error(), "model", {}}};
  exchange.record().model = (*found)->spec.name;
  return {*found, {}};
}

uint64_t cache_salt(const OpenAiState& state, std::string_view salt) {
  const uint64_t epoch = state.load.cache_epoch.load(std::memory_order_relaxed);
  if (salt.empty() && epoch == 0) return 0;
  const std::string own = epoch == 0 ? std::string(salt) : std::to_string(epoch) + '\n' + std::string(salt);
  return base::hash64(base::process_key(), own) | 1;
}

std::string random_id(bus::Bus& bus, size_t digits) {
  uint64_t random[2] = {bus.env().random(), bus.env().random()};
  return base::hex({reinterpret_cast<const char*>(random), sizeof random}).substr(0, digits);
}

void add_timing(const Exchange& exchange, wire::Fields& fields) {
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(exchange.record().took(exchange.now()));
  fields.add("openai-processing-ms", std::to_string(took.count()));
}

void respond_json(Exchange& exchange, std::string json) { respond_json(exchange, base::Bytes::adopt(std::move(json))); }

void respond_json(Exchange& exchange, base::Bytes json) {
  add_timing(exchange, exchange.extra_fields());
  if (!base::charge(exchange.memory(), base::MemoryKind::kAnswers, json))
    return respond(exchange, {wire::no_room_for_answer(), {}, {}});
  exchange.respond(200, "application/json", std::move(json), Exchange::Compress::kIfAccepted);
}

struct Openai::Parts {
  OpenAiState state;
  std::vector<std::unique_ptr<Endpoint>> services;

  void add(wire::Router& router, const std::string& prefix, const RouteRow& row,
           std::string_view protocol = kProtocol) {
    auto& service = services.emplace_back(std::make_unique<Endpoint>(state, row.serve));
    bool reads = std::string_view(row.method) == "POST" && row.permission != Permission::kHealth;
    const auto body = reads ? wire::BodyPlan::kWhole : wire::BodyPlan::kIgnore;
    wire::Plan plan{body, state.options.max_body, "openai.max_body"};
    router.add({row.method, prefix + row.path, service.get(), protocol, plan, row.permission, wire::Upgrade::kNone,
                row.content_type});
  }
  // Those of OpenAI's rows that are in this place.
  void add_rows(wire::Router& router, const std::string& prefix, uint8_t place) {
    for (const RouteRow& row : kOpenAiRows)
      if (row.under & place) add(router, prefix, row);
  }
  // Those of another API.
  void add_rows(wire::Router& router, std::span<const RouteRow> rows, std::string_view protocol) {
    for (const RouteRow& row : rows) add(router, "", row, protocol);
  }
  void add_socket(wire::Router& router, std::string path, Serve serve) {
    auto& service = services.emplace_back(std::make_unique<Endpoint>(state, serve));
    const wire::Plan plan{wire::BodyPlan::kStream, UINT64_MAX};
    router.add({"GET", std::move(path), service.get(), kProtocol, plan, Permission::kInfer, wire::Upgrade::kWebSocket});
  }
  // The reader refuses a file that is too long: the plan would count the bytes of the form, too.
  void add_streamed(wire::Router& router, std::string path, Serve serve, std::string_view protocol = kProtocol) {
    auto& service = services.emplace_back(std::make_unique<Endpoint>(state, serve));
    const wire::Plan plan{wire::BodyPlan::kStream, UINT64_MAX};
    router.add({"POST", std::move(path), service.get(), protocol, plan, Permission::kInfer});
  }
};

namespace {

// A response in the background was a request when its client asked.
void prepare_jobs(OpenAiState& state) {
  const auto give_way = [&state](jobs::Job& job) {
    batches::give_way(state, job);
    return std::optional<jobs::Outcome>();
  };
  state.options.jobs->prepare(std::string(batches::kKind), give_way, jobs::Requests::kOneMore);
  state.options.jobs->prepare(std::string(anthropic::kMessagesKind), give_way, jobs::Requests::kOneMore);
  state.options.jobs->prepare(std::string(responses::kPutOffKind), responses::prepare_put_off, jobs::Requests::kCounted,
                              responses::leave_out_turns);
}

}  // namespace

Openai::Openai(bus::Bus& bus, wire::Router& router, LoadCounters& load, Options options)
    : parts_(new Parts{OpenAiState{bus, load, std::move(options), 0}, {}}) {
  OpenAiState& state = parts_->state;
  auto now = bus.env().wall().time_since_epoch();
  state.intake = &router;
  if (state.options.jobs) prepare_jobs(state);
  state.created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const std::string& prefix : state.options.prefixes) {
    parts_->add_rows(router, prefix, kUnderPrefix);
    parts_->add_streamed(router, prefix + "/files", batches::upload);
    parts_->add_streamed(router, prefix + "/uploads/{upload}/parts", batches::add_upload_part);
    if (state.options.slabs) parts_->add_socket(router, prefix + "/responses", responses::open_socket);
    if (prefix.ends_with(kAzurePrefix))
      for (const char* where : {"/deployments/{deployment}", "/deployments/{owner}/{deployment}"})
        parts_->add_rows(router, prefix + where, kUnderDeployment);
    router.error_form(prefix, respond_status);
  }
  parts_->add_rows(router, "", kAtRoot);
  for (const char* path : {"/chat", "/responses", "/models", "/pooling", "/generative_scoring", "/embed", "/v2/embed",
                           "/rerank", "/v2/rerank", "/score", "/classify"})
    router.error_form(path, respond_status);
  parts_->add_rows(router, kOllamaRows, kOllama);
  router.error_form("/api", respond_ollama_status);
  parts_->add_rows(router, kSglangRows, kSglang);
  parts_->add_rows(router, kTgiRows, kTgi);
  for (const char* path : {"/generate", "/health_generate", "/get_model_info", "/model_info", "/get_server_info",
                           "/server_info", "/flush_cache"})
    router.error_form(path, respond_status);
  for (const char* path : {"/generate_stream", "/invocations", "/info"}) router.error_form(path, respond_tgi_status);
  for (const RouteRow& row : kLlamaRows) {
    parts_->add(router, "", row, kLlamaCpp);
    router.error_form(std::string(std::string_view(row.path).substr(0, std::string_view(row.path).find('{'))),
                      respond_llama_status);
  }
  parts_->add_rows(router, kAnthropicRows, kAnthropic);
  parts_->add_streamed(router, "/v1/messages/batches", anthropic::create_batch, kAnthropic);
  router.error_form("/v1/messages", respond_anthropic_status);
}

void Openai::drain() { responses::drain_sockets(parts_->state); }

Openai::~Openai() { parts_->state.bus.env().cancel(parts_->state.forgets); }

}  // namespace weir::openai
