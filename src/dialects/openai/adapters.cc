// POST {prefix}/load_lora_adapter {"lora_name","lora_path"[,"load_inplace","base_model_name"]} and
// {prefix}/unload_lora_adapter {"lora_name"}: vLLM's, with its answers and its errors, whose `code` is the HTTP status.
// `base_model_name` is read beside: several models may take adapters here.
#include <algorithm>
#include <initializer_list>

#include "base/encoding.h"
#include "dialects/dialect.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::openai {
namespace {

using base::Code;
using base::Status;
using wire::Exchange;

constexpr size_t kLongestAdapterName = 200;  // that is quoted

struct AdapterRequest {
  std::string name, path, model;
  bool in_place = false;
};

// In vLLM's form. `type`: "InvalidUserInput", "NotFoundError", …
void refuse_adapter(Exchange& exchange, int status, std::string_view type, std::string_view text) {
  std::string out = "{\"error\":{\"message\":";
  marshal::write_string(out, text);
  out += ",\"type\":\"" + std::string(type) + "\",\"param\":null,\"code\":" + std::to_string(status) + "}}";
  if (exchange.record().code == Code::kOk) exchange.record().code = base::code_from_http(status);
  exchange.respond(status, "application/json", base::Bytes::adopt(std::move(out)));
}

void refuse_adapter(Exchange& exchange, const Status& why) {
  exchange.record().code = why.code;
  const int status = base::http_status(why.code);
  std::string_view type = "InternalServerError";
  if (status == 403) type = "PermissionDeniedError";
  if (status == 404) type = "NotFoundError";
  if (status == 503) type = "ServiceUnavailableError";
  if (status == 400 || status == 409 || status == 501) type = "BadRequestError";
  refuse_adapter(exchange, status, type, why.text);
}

std::string cut_name(const std::string& name) { return std::string(base::cut_text(name, kLongestAdapterName)); }
std::string quoted_adapter(const std::string& name) { return "'" + cut_name(name) + "'"; }

ApiError read_adapter(std::string_view body, AdapterRequest& out) {
  marshal::JsonCursor json(body);
  const bool ok = json.object([&](std::string_view key) {
    if (key == "lora_name") return json.string(out.name);
    if (key == "lora_path") return json.string(out.path);
    if (key == "base_model_name" && json.peek() != marshal::JsonCursor::Kind::kNull) return json.string(out.model);
    if (key == "load_inplace") return json.boolean(out.in_place);
    return json.skip();
  }) && json.finish();
  return ok ? ApiError{} : refuse(json.error());
}

// Answers when the server is through with it, if the client still waits then.
class AdapterWaiter final : public wire::ExchangeListener {
 public:
  explicit AdapterWaiter(std::shared_ptr<Exchange*> exchange) : exchange_(std::move(exchange)) {}
  void on_close(Exchange&, bool) override { *exchange_ = nullptr; }

 private:
  const std::shared_ptr<Exchange*> exchange_;
};

using TellAdapter = void (*)(Exchange& exchange, const AdapterRequest& request, const Status& status);

dialects::ServerControl::Done wait_for_adapter(Exchange& exchange, AdapterRequest request, TellAdapter answer) {
  auto cell = std::make_shared<Exchange*>(&exchange);
  exchange.attach(std::make_unique<AdapterWaiter>(cell));
  return [cell, request = std::move(request), answer](const Status& status) {
    if (*cell) wire::guarded(**cell, [&] { answer(**cell, request, status); });
  };
}

void tell_loaded(Exchange& exchange, const AdapterRequest& request, const Status& status) {
  if (status.ok())
    return exchange.respond(
        200, "text/plain; charset=utf-8",
        base::Bytes::adopt("Success: LoRA adapter " + quoted_adapter(request.name) + " added successfully."));
  if (status.code == Code::kAlreadyExists)
    return refuse_adapter(exchange, 400, "InvalidUserInput",
                          "The lora adapter " + quoted_adapter(request.name) +
                              " has already been loaded. If you want to load the adapter in place, set 'load_inplace' "
                              "to True.");
  if (status.code == Code::kNotFound)
    return refuse_adapter(exchange,
                          {status.code, "Loading lora " + cut_name(request.name) + " failed: " + status.text});
  refuse_adapter(exchange, status);
}

void tell_unloaded(Exchange& exchange, const AdapterRequest& request, const Status& status) {
  if (status.ok())
    return exchange.respond(
        200, "text/plain; charset=utf-8",
        base::Bytes::adopt("Success: LoRA adapter " + quoted_adapter(request.name) + " removed successfully."));
  if (status.code == Code::kNotFound)
    return refuse_adapter(exchange, 404, "NotFoundError",
                          "The lora adapter " + quoted_adapter(request.name) + " cannot be found.");
  refuse_adapter(exchange, status);
}

// A key for some models alone is for adapters, and models of adapters, whose names it has. `named`: the members of the
// request that have these names.
bool may_use_adapter(Exchange& exchange, std::initializer_list<const std::string*> names, std::string_view named) {
  const auto* scope = marshal::models_of(exchange.request());
  if (!scope || std::ranges::all_of(names, [&](auto* name) { return scope->allows(*name); })) return true;
  refuse_adapter(exchange, base::failure(Code::kPermissionDenied,
                                         "this key is for some models alone: it must have " + std::string(named)));
  return false;
}

void load_named_adapter(OpenAiState& state, Exchange& exchange, AdapterRequest&& request) {
  if (request.name.empty() || request.path.empty())
    return refuse_adapter(exchange, 400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided.");
  exchange.record().model = cut_name(request.name);
  if (!may_use_adapter(exchange, {&request.name, &request.model}, "'lora_name' and 'base_model_name'")) return;
  dialects::ServerControl::LoadParameters parameters{{"lora_path", request.path}};
  if (!request.model.empty()) parameters["base_model_name"] = request.model;
  if (request.in_place) parameters["load_inplace"] = "true";
  const std::string name = request.name;
  state.options.control->load(name, std::move(parameters), wait_for_adapter(exchange, std::move(request), tell_loaded));
}

// Also of one that has not come back with its model.
bool is_of_adapter(const bus::Catalog& catalog, const std::string& name) {
  return std::ranges::any_of(catalog.index, [&](const auto& row) { return row.name == name && !row.parent.empty(); });
}

// Models themselves are not unloaded here.
void unload_named_adapter(OpenAiState& state, Exchange& exchange, AdapterRequest&& request) {
  if (request.name.empty())
    return refuse_adapter(exchange, 400, "InvalidUserInput",
                          "'lora_name' needs to be provided to unload a LoRA adapter.");
  exchange.record().model = cut_name(request.name);
  if (!may_use_adapter(exchange, {&request.name}, "'lora_name'")) return;
  if (!is_of_adapter(state.bus.catalog(marshal::models_of(exchange.request())), request.name))
    return tell_unloaded(exchange, request, base::failure(Code::kNotFound, ""));
  const std::string name = request.name;
  state.options.control->unload(name, dialects::ServerControl::Dependents::kKeep,
                                wait_for_adapter(exchange, std::move(request), tell_unloaded));
}

}  // namespace

void load_adapter(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!state.options.control) return refuse_adapter(exchange, base::failure(Code::kUnimplemented, "not here"));
  read_body<AdapterRequest>(state, exchange, read_adapter, load_named_adapter);
}

void unload_adapter(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!state.options.control) return refuse_adapter(exchange, base::failure(Code::kUnimplemented, "not here"));
  read_body<AdapterRequest>(state, exchange, read_adapter, unload_named_adapter);
}

}  // namespace weir::openai
