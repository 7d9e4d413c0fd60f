#include "dialects/openai/batches/document.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "marshal/json_tensor.h"

namespace weir::openai::batches {
namespace {

using nlohmann::json;

struct TimeMember {
  const char* name;
  int64_t BatchDocument::*place;
};
constexpr TimeMember kTimes[] = {
    {"in_progress_at", &BatchDocument::in_progress}, {"finalizing_at", &BatchDocument::finalizing},
    {"completed_at", &BatchDocument::completed},     {"failed_at", &BatchDocument::failed},
    {"expired_at", &BatchDocument::expired},         {"cancelling_at", &BatchDocument::cancelling},
    {"cancelled_at", &BatchDocument::cancelled},     {"expires_at", &BatchDocument::deadline}};

struct TextMember {
  const char* name;
  std::string BatchDocument::*place;
};
constexpr TextMember kTexts[] = {{"endpoint", &BatchDocument::endpoint},
                                 {"input_file_id", &BatchDocument::input_file},
                                 {"output_file_id", &BatchDocument::output_file},
                                 {"error_file_id", &BatchDocument::error_file},
                                 {"completion_window", &BatchDocument::window},
                                 {"metadata", &BatchDocument::metadata},
                                 {"ends_as", &BatchDocument::ends_as}};

void member(std::string& out, std::string_view name) { ((out += ",\"") += name) += "\":"; }

void text_or_null(std::string& out, std::string_view name, std::string_view text) {
  member(out, name);
  if (text.empty())
    out += "null";
  else
    marshal::write_string(out, text);
}

void time_or_null(std::string& out, std::string_view name, int64_t at) {
  member(out, name);
  out += at == 0 ? "null" : std::to_string(at);
}

void write_errors(std::string& out, const std::vector<BatchDocument::Error>& errors) {
  if (errors.empty()) {
    out += ",\"errors\":null";
    return;
  }
  out += R"(,"errors":{"object":"list","data":[)";
  for (const auto& error : errors) {
    if (out.back() != '[') out += ',';
    out += "{\"code\":";
    marshal::write_string(out, error.code);
    text_or_null(out, "message", error.message);
    text_or_null(out, "param", error.param);
    out += ",\"line\":" + (error.line == 0 ? std::string("null") : std::to_string(error.line)) + "}";
  }
  out += "]}";
}

}  // namespace

int64_t unix_seconds(base::WallTime at) {
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
}

std::string show_document(const BatchDocument& d) {
  json out = json::object();
  for (const TextMember& m : kTexts) out[m.name] = d.*m.place;
  for (const TimeMember& m : kTimes) out[m.name] = d.*m.place;
  out["output_ttl"] = d.output_ttl;
  out["lines"] = d.lines;
  out["counts"] = {d.counts.total, d.counts.succeeded, d.counts.failed};
  out["errors"] = json::array();
  for (const auto& e : d.errors) out["errors"].push_back({e.code, e.message, e.param, e.line});
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<BatchDocument> read_document(const std::string& text) {
  json in = json::parse(text, nullptr, false);
  if (!in.is_object()) return std::nullopt;
  try {
    BatchDocument d;
    for (const TextMember& m : kTexts) d.*m.place = in.at(m.name).get<std::string>();
    for (const TimeMember& m : kTimes) d.*m.place = in.at(m.name).get<int64_t>();
    d.output_ttl = in.value("output_ttl", uint64_t(0));  // an older version's has none
    d.lines = in.at("lines").get<uint64_t>();
    const json& counts = in.at("counts");
    d.counts.total = counts.at(0), d.counts.succeeded = counts.at(1), d.counts.failed = counts.at(2);
    for (const json& e : in.at("errors")) d.errors.push_back({e.at(0), e.at(1), e.at(2), e.at(3)});
    return d;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string batch_json(const jobs::Batch& batch, const BatchDocument& d, const jobs::Counts& counts) {
  std::string out = "{\"id\":";
  marshal::write_string(out, batch.id);
  out += ",\"object\":\"batch\"";
  text_or_null(out, "endpoint", d.endpoint);
  write_errors(out, d.errors);
  text_or_null(out, "input_file_id", d.input_file);
  text_or_null(out, "completion_window", d.window);
  text_or_null(out, "status", batch.state);
  text_or_null(out, "output_file_id", d.output_file);
  text_or_null(out, "error_file_id", d.error_file);
  out += ",\"created_at\":" + std::to_string(unix_seconds(batch.created));
  for (const TimeMember& m : kTimes) time_or_null(out, m.name, d.*m.place);
  out += ",\"request_counts\":{\"total\":" + std::to_string(counts.total) +
         ",\"completed\":" + std::to_string(counts.succeeded) + ",\"failed\":" + std::to_string(counts.failed) + "}";
  out += ",\"metadata\":" + (d.metadata.empty() ? "null" : d.metadata);
  return out + "}";
}

std::string file_json(const jobs::File& file) {
  std::string out = "{\"id\":";
  marshal::write_string(out, file.id);
  out += ",\"object\":\"file\",\"bytes\":" + std::to_string(file.bytes) +
         ",\"created_at\":" + std::to_string(unix_seconds(file.created)) +
         ",\"expires_at\":" + std::to_string(unix_seconds(file.expires));
  text_or_null(out, "filename", file.name);
  text_or_null(out, "purpose", file.purpose);
  return out + ",\"status\":\"processed\",\"status_details\":null}";
}

}  // namespace weir::openai::batches
