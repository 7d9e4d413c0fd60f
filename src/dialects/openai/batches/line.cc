#include "dialects/openai/batches/line.h"

#include <utility>

#include "marshal/field_reader.h"

namespace weir::openai::batches {
namespace {

using marshal::JsonCursor;

LineError error(std::string_view code, std::string message, std::string_view param = {}) {
  return {code, std::move(message), param};
}

}  // namespace

bool read_line_body(JsonCursor& json, std::string& model, bool& stream) {
  return json.object([&](std::string_view name) {
    if (name == "model" && json.peek() == JsonCursor::Kind::kString) return json.string(model);
    if (name == "stream" && json.peek() == JsonCursor::Kind::kBool) return json.boolean(stream);
    return json.skip();
  });
}

LineError read_line(std::string_view text, std::string_view endpoint, Line& out) {
  JsonCursor json(text);
  marshal::FieldReader fields(json);
  std::string method, url;
  bool stream = false, has_body = false;
  const bool ok = json.object([&](std::string_view name) {
    if (name == "custom_id") return fields.text("custom_id", kLongestId, out.custom_id);
    if (name == "method") return fields.text("method", 16, method);
    if (name == "url") return fields.text("url", 256, url);
    if (name != "body" || json.peek() != JsonCursor::Kind::kObject) return json.skip();
    const size_t from = json.at();
    if (!read_line_body(json, out.model, stream)) return false;
    out.body = json.since(from);
    return has_body = true;
  }) && json.finish();
  if (!ok) {
    JsonCursor whole(text);
    if (!fields.param().empty() && whole.skip() && whole.finish()) return error("invalid_request", fields.error().text);
    return error("invalid_json_line", "This line is not parseable as valid JSON: " + fields.error().text);
  }
  if (out.custom_id.empty()) return error("missing_required_parameter", "custom_id is missing", "custom_id");
  if (method != "POST") return error("invalid_method", "method must be POST", "method");
  if (url != endpoint)
    return error("mismatched_url", "the url must be the batch's endpoint, " + std::string(endpoint), "url");
  if (!has_body) return error("missing_required_parameter", "body is missing, or is no object", "body");
  if (stream) return error("invalid_request", "stream must be false in a batch", "body.stream");
  return {};
}

}  // namespace weir::openai::batches
