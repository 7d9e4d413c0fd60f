#include "dialects/openai/api_error.h"

#include "base/overload.h"
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

std::string_view message_of(const base::Status& status) {
  return status.text.empty() ? base::name(status.code) : std::string_view(status.text);
}

}  // namespace

ApiError refuse(std::string_view param, std::string text) {
  return {base::invalid(std::move(text)), std::string(param), {}};
}

std::string error_json(const ApiError& error) {
  return error_json(message_of(error.status), base::http_status(error.status), error.param, code_of(error));
}

void respond(wire::Exchange& exchange, const ApiError& error) {
  exchange.record().set_outcome(error.status);
  send(exchange, base::http_status(error.status), error_json(error));
}

void respond_status(wire::Exchange& exchange, int status, std::string_view text) {
  if (exchange.record().code == Code::kOk) exchange.record().code = base::code_from_http(status);
  send(exchange, status, error_json(text, status, {}, {}));
}

}  // namespace weir::openai
