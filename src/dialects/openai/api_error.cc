#include "dialects/openai/api_error.h"

#include <algorithm>

#include "base/overload.h"
#include "dialects/openai/state.h"
#include "marshal/json_tensor.h"
#include "wire/router.h"

namespace weir::openai {
namespace {

using base::Code;

std::string_view type_of(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view code_of(const ApiError& error) {
  if (!error.code.empty()) return error.code;
  switch (error.status.code) {
    case Code::kOutOfRange: return "context_length_exceeded";
    case Code::kResourceExhausted: return "rate_limit_exceeded";
    case Code::kNotFound: return "model_not_found";
    case Code::kUnauthenticated: return "invalid_api_key";
    default: return {};
  }
}

void write_or_null(std::string& out, std::string_view text) {
  if (text.empty())
    out += "null";
  else
    marshal::write_string(out, text);
}

std::string error_json(std::string_view message, int status, std::string_view param, std::string_view code) {
  std::string out = "{\"error\":{\"message\":";
  marshal::write_string(out, message);
  out += ",\"type\":\"";
  out += type_of(status);
  out += "\",\"param\":";
  write_or_null(out, param);
  out += ",\"code\":";
  write_or_null(out, code);
  return out + "}}";
}

void send(wire::Exchange& exchange, int status, std::string json) {
  wire::Response response;
  response.status = status;
  response.fields.add("content-type", "application/json");
  if (wire::wants_retry_after(exchange, status)) response.fields.add("retry-after", "1");
  exchange.respond(std::move(response), base::Bytes::adopt(std::move(json)));
}

std::string ollama_error_json(std::string_view text) {
  std::string out = "{\"error\":";
  marshal::write_string(out, text);
  return out += '}';
}

std::string_view tgi_type_of(int status) {
  switch (status) {
    case 401:
    case 403: return "unauthorized";
    case 404: return "not_found";
    case 429:
    case 503: return "overloaded";
    default: return status < 500 ? "validation" : "generation";
  }
}

std::string tgi_error_json(int status, std::string_view text) {
  std::string out = "{\"error\":";
  marshal::write_string(out, text);
  return (((out += ",\"error_type\":\"") += tgi_type_of(status)) += "\"}");
}

std::string_view llama_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

// Without the end of both objects.
std::string begin_llama_error(int status, std::string_view text, std::string_view type) {
  std::string out = "{\"error\":{\"code\":" + std::to_string(status) + ",\"message\":";
  marshal::write_string(out, text);
  return ((out += ",\"type\":\"") += type) += '"';
}

// In llama.cpp's words, by which its clients know a prompt that they can shorten.
std::string llama_overflow(const Overflow& overflow, std::string_view text) {
  const std::string context = " exceeds the available context size (" + std::to_string(overflow.context) + " tokens)";
  if (overflow.tokens == 0) return "request" + context + ": " + std::string(text);
  return "request (" + std::to_string(overflow.tokens) + " tokens)" + context + ", try increasing it";
}

// A request that is wrong has 422 there.
int tgi_status(int status) { return status == 400 ? 422 : status; }

std::string_view anthropic_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503:
    case 529: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

void send_status(wire::Exchange& exchange, int status, std::string json) {
  if (exchange.record().code == Code::kOk) exchange.record().code = base::code_from_http(status);
  send(exchange, status, std::move(json));
}

std::string_view message_of(const base::Status& status) {
  return status.text.empty() ? base::name(status.code) : std::string_view(status.text);
}

std::string anthropic_members(int status, std::string_view text) {
  std::string out = "\"type\":\"";
  out += anthropic_type_of(status);
  out += "\",\"message\":";
  marshal::write_string(out, text);
  return out;
}

// Agents make room in their context where an error says so in Anthropic's words.
std::string anthropic_message(const ApiError& error) {
  const bool too_long = error.status.code == Code::kOutOfRange && error.param == "messages";
  return (too_long ? "prompt is too long: " : "") + std::string(message_of(error.status));
}

// The error's own object has been written but for its end.
std::string& end_anthropic_error(std::string& out, const wire::Exchange& exchange) {
  out += "},\"request_id\":";
  write_or_null(out, exchange.record().request_id);
  return out += '}';
}

std::string anthropic_error_json(const wire::Exchange& exchange, const ApiError& error) {
  std::string out = "{\"type\":\"error\",\"error\":{";
  out += anthropic_members(base::http_status(error.status), anthropic_message(error));
  if (error.code == kNoThreads) {
    out += ",\"details\":{\"error_code\":\"" + std::string(kNoThreads) + "\",\"unsupported\":[";
    marshal::write_string(out, error.param);
    out += "]}";
  }
  return end_anthropic_error(out, exchange);
}

// The first row whose name has `[]` and with which the text begins.
void rename_behind_place(std::span<const RenamedMember> names, std::string& text) {
  constexpr std::string_view kPlace = "[]";
  for (const auto& [name, openai] : names) {
    const size_t open = openai.find(kPlace);
    if (open == openai.npos || !text.starts_with(openai.substr(0, open + 1))) continue;
    const size_t behind = text.find(']', open) + 1;
    const std::string_view inside = openai.substr(open + kPlace.size());
    if (behind == 0 || text.compare(behind, inside.size(), inside) != 0) continue;
    text.replace(behind, inside.size(), name.substr(name.find(kPlace) + kPlace.size()));
    return;
  }
}

}  // namespace

// A list of the translation is another one than the client's, unless its name has `[]`: no place in it is told.
ApiError in_names(std::span<const RenamedMember> names, ApiError error) {
  rename_behind_place(names, error.status.text);
  const auto inside_word = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  for (const auto& [name, openai] : names) {
    if (name == openai) continue;
    if (error.param == openai || error.param.starts_with(std::string(openai) + '.'))
      error.param.replace(0, openai.size(), name);
    std::string& text = error.status.text;
    if (!text.starts_with(openai) || (text.size() > openai.size() && inside_word(text[openai.size()]))) continue;
    const bool placed = text.size() > openai.size() && text[openai.size()] == '[';
    const size_t end = placed ? text.find(']') + 1 : openai.size();
    text.replace(0, std::max(end, openai.size()), name);
    break;
  }
  return error;
}

ApiError refuse(std::string_view param, std::string text) {
  return {base::invalid(std::move(text)), std::string(param), {}};
}

std::string error_json(const ApiError& error) {
  return error_json(message_of(error.status), base::http_status(error.status), error.param, code_of(error));
}

std::string tgi_error_json(const base::Status& status) {
  return tgi_error_json(base::http_status(status), message_of(status));
}

std::string llama_error_json(const ApiError& error) {
  const int code = base::http_status(error.status);
  const Overflow& overflow = error.overflow;
  if (error.status.code != Code::kOutOfRange)
    return begin_llama_error(code, message_of(error.status), llama_type_of(code)) + "}}";
  std::string text(message_of(error.status));
  if (overflow.context > 0) text = llama_overflow(overflow, text);
  std::string out = begin_llama_error(code, text, "exceed_context_size_error");
  if (overflow.tokens > 0) out += ",\"n_prompt_tokens\":" + std::to_string(overflow.tokens);
  if (overflow.context > 0) out += ",\"n_ctx\":" + std::to_string(overflow.context);
  return out += "}}";
}

std::string anthropic_error_json(const wire::Exchange& exchange, int status, std::string_view text) {
  std::string out = "{\"type\":\"error\",\"error\":{" + anthropic_members(status, text);
  return end_anthropic_error(out, exchange);
}

std::string anthropic_error_json(int status, std::string_view text) {
  return "{\"type\":\"error\",\"error\":{" + anthropic_members(status, text) + "},\"request_id\":null}";
}

void tell_id(wire::Exchange& exchange) {
  constexpr std::string_view kName = "request-id";
  if (!exchange.extra_fields().has(kName)) exchange.extra_fields().add(kName, exchange.record().request_id);
}

namespace {

// Chats without a prefix are llama.cpp's: its clients shorten a chat that is refused in its own form.
bool is_llama_overflow(const wire::Exchange& exchange, const ApiError& error) {
  return error.status.code == Code::kOutOfRange && exchange.request().path() == "/chat/completions";
}

}  // namespace

void respond(wire::Exchange& exchange, const ApiError& error) {
  exchange.record().set_outcome(error.status);
  const int status = base::http_status(error.status);
  const std::string_view protocol = exchange.record().protocol;
  if (protocol == kOllama) return send(exchange, status, ollama_error_json(message_of(error.status)));
  if (protocol == kTgi) return send(exchange, tgi_status(status), tgi_error_json(error.status));
  if (protocol == kLlamaCpp || is_llama_overflow(exchange, error))
    return send(exchange, status, llama_error_json(error));
  if (protocol == kAnthropic) return send(exchange, status, anthropic_error_json(exchange, error));
  send(exchange, status, error_json(error));
}

// Routes of other protocols have the same prefix, and so has a path of Anthropic's API that is not served.
void respond_status(wire::Exchange& exchange, int status, std::string_view text) {
  const std::string_view protocol = exchange.record().protocol;
  constexpr std::string_view kNoRoute = "http";
  if (protocol != kNoRoute && protocol != kProtocol && protocol != kAnthropic && protocol != kSglang)
    return wire::respond_error(exchange, status, text);
  if (exchange.request().fields.has("anthropic-version")) return respond_anthropic_status(exchange, status, text);
  send_status(exchange, status, error_json(text, status, {}, {}));
}

void respond_ollama_status(wire::Exchange& exchange, int status, std::string_view text) {
  send_status(exchange, status, ollama_error_json(text));
}

void respond_tgi_status(wire::Exchange& exchange, int status, std::string_view text) {
  send_status(exchange, tgi_status(status), tgi_error_json(status, text));
}

void respond_llama_status(wire::Exchange& exchange, int status, std::string_view text) {
  send_status(exchange, status, begin_llama_error(status, text, llama_type_of(status)) + "}}");
}

void respond_anthropic_status(wire::Exchange& exchange, int status, std::string_view text) {
  tell_id(exchange);
  send_status(exchange, status, anthropic_error_json(exchange, status, text));
}

}  // namespace weir::openai
