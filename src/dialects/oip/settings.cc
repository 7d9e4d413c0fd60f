#include "dialects/oip/settings.h"

#include <atomic>
#include <optional>

#include "base/encoding.h"
#include "base/log.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::oip {
namespace {

namespace log = base::log;
using base::invalid;
using base::Status;
using marshal::JsonCursor;

// The word of the text form that a client has set last: it is read back, as Triton's clients expect. Of the whole
// process, as the log is.
std::atomic<bool> says_iso{false};

std::string format_word() {
  if (log::format() == log::Format::kJson) return "JSON";
  return says_iso ? "ISO8601" : "default";
}

void set_format(const std::string& word) {
  says_iso = word == "ISO8601";
  log::set_format(word == "JSON" ? log::Format::kJson : log::Format::kText);
}

std::optional<log::Level> level_of(std::string_view key) {
  if (key == "log_info") return log::Level::kInfo;
  if (key == "log_warning") return log::Level::kWarning;
  if (key == "log_error") return log::Level::kError;
  return std::nullopt;
}

Status check_log(const std::string& key, const msg::ParamValue& value) {
  auto* text = std::get_if<std::string>(&value);
  if (level_of(key))
    return std::holds_alternative<bool>(value) ? Status{} : invalid("log setting '" + key + "' takes true or false");
  if (key == "log_verbose_level") {
    auto* i = std::get_if<int64_t>(&value);
    return i && *i >= 0 && *i <= UINT32_MAX ? Status{} : invalid("log setting '" + key + "' takes a whole number");
  }
  if (key == "log_format") {
    if (text && (*text == "default" || *text == "ISO8601" || *text == "JSON")) return {};
    return invalid("log setting 'log_format' takes default, ISO8601 or JSON");
  }
  if (key == "log_file") {
    if (text && text->empty()) return {};
    return base::failure(base::Code::kUnimplemented,
                         "log file location can not be updated through network protocol: logs go to the standard "
                         "error stream");
  }
  return invalid("unknown log setting '" + key + "'");
}

bool plain(JsonCursor& json, msg::ParamValue& value) {
  marshal::JsonNumber number;
  std::string text;
  bool flag;
  int64_t i;
  double d;
  switch (json.peek()) {
    case JsonCursor::Kind::kBool:
      if (!json.boolean(flag)) return false;
      value = flag;
      return true;
    case JsonCursor::Kind::kString:
      if (!json.string(text)) return false;
      value = std::move(text);
      return true;
    case JsonCursor::Kind::kNumber:
      if (!json.number(number)) return false;
      if (number.to(i))
        value = i;
      else if (number.to(d))
        value = d;
      else
        return json.fail("a number out of range");
      return true;
    default: return json.fail("expected a string, a number, true or false");
  }
}

bool flat(JsonCursor& json, msg::Parameters& out) {
  return json.object([&](std::string_view key) {
    std::string name(key);
    if (json.peek() == JsonCursor::Kind::kNull) return json.null();
    if (msg::find(out, name)) return json.fail("'" + name + "' is given twice");
    if (out.size() == 256) return json.fail("more than 256 members");
    msg::ParamValue value;
    if (!plain(json, value)) return false;
    out.emplace_back(std::move(name), std::move(value));
    return true;
  });
}

bool blank(std::string_view body) { return body.find_first_not_of(" \t\r\n") == body.npos; }

bool trace_value(JsonCursor& json, std::vector<std::string>& out) {
  if (json.peek() == JsonCursor::Kind::kNumber) {
    marshal::JsonNumber number;
    if (!json.number(number)) return false;
    out.emplace_back(number.text);
    return true;
  }
  return json.string(out.emplace_back());
}

}  // namespace

msg::Parameters log_settings() {
  return {{"log_file", std::string()},
          {"log_info", log::enabled(log::Level::kInfo)},
          {"log_warning", log::enabled(log::Level::kWarning)},
          {"log_error", log::enabled(log::Level::kError)},
          {"log_verbose_level", int64_t(log::verbosity())},
          {"log_format", format_word()}};
}

Status change_log(const msg::Parameters& wanted) {
  for (const auto& [key, value] : wanted)
    if (Status status = check_log(key, value); !status.ok()) return status;
  for (const auto& [key, value] : wanted) {
    if (auto level = level_of(key))
      log::enable(*level, std::get<bool>(value));
    else if (key == "log_verbose_level")
      log::set_verbosity(uint32_t(std::get<int64_t>(value)));
    else if (key == "log_format")
      set_format(std::get<std::string>(value));
  }
  return {};
}

base::Result<msg::Parameters> read_flat(std::string_view body) {
  msg::Parameters out;
  if (blank(body)) return out;
  JsonCursor json(body);
  if (!flat(json, out) || !json.finish()) return json.placed_error();
  return out;
}

base::Result<msg::Parameters> read_parameters(std::string_view body) {
  msg::Parameters out;
  if (blank(body)) return out;
  JsonCursor json(body);
  bool ok = json.object([&](std::string_view key) { return key == "parameters" ? flat(json, out) : json.skip(); });
  if (!ok || !json.finish()) return json.placed_error();
  return out;
}

base::Result<Traces::Settings> read_trace(std::string_view body) {
  Traces::Settings out;
  if (blank(body)) return out;
  JsonCursor json(body);
  bool ok = json.object([&](std::string_view key) {
    auto [at, fresh] = out.try_emplace(std::string(key));
    if (!fresh) return json.fail("a setting is given twice");
    auto& values = at->second;
    if (json.peek() == JsonCursor::Kind::kNull) return json.null();
    if (json.peek() != JsonCursor::Kind::kArray) return trace_value(json, values);
    return json.array([&] { return values.size() < 16 ? trace_value(json, values) : json.fail("too many values"); });
  });
  if (!ok || !json.finish()) return json.placed_error();
  return out;
}

void write_flat(std::string& out, const msg::Parameters& values) {
  out += '{';
  for (const auto& [key, value] : values) {
    if (out.back() != '{') out += ',';
    marshal::write_string(out, key);
    out += ':';
    if (auto* flag = std::get_if<bool>(&value))
      out += *flag ? "true" : "false";
    else if (auto* text = std::get_if<std::string>(&value))
      marshal::write_string(out, *text);
    else if (auto* i = std::get_if<int64_t>(&value))
      marshal::write_number(out, *i);
  }
  out += '}';
}

std::string change_text(const msg::Parameters& values) {
  Traces::Settings texts;
  for (const auto& [key, value] : values) {
    std::string& text = texts[key].emplace_back();
    if (auto* flag = std::get_if<bool>(&value)) text = *flag ? "true" : "false";
    if (auto* words = std::get_if<std::string>(&value)) text = *words;
    if (auto* number = std::get_if<int64_t>(&value)) text = std::to_string(*number);
  }
  return change_text(texts);
}

std::string change_text(const Traces::Settings& values) {
  std::string out;
  for (const auto& [key, texts] : values) {
    ((out += out.empty() ? "" : " ") += key) += '=';
    for (size_t i = 0; i < texts.size() && out.size() < kMostChange; ++i) (out += i ? "," : "") += texts[i];
    if (out.size() >= kMostChange) break;
  }
  return std::string(base::cut_text(out, kMostChange));
}

Status check_model_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  bool ok = !name.empty() && name.size() <= 128 && name.find_first_not_of(kLetters) == name.npos && name[0] != '.';
  return ok ? Status{} : invalid("a model name has 1 to 128 letters, digits, '_', '-' and '.', and begins with no '.'");
}

Status check_scope(const wire::Request& request, std::string_view model) {
  const base::ModelScope* scope = marshal::models_of(request);
  if (!scope || scope->allows(model)) return {};
  return base::failure(base::Code::kPermissionDenied, "this key may not change model '" + std::string(model) + "'");
}

Status check_may_configure(const wire::Request& request) {
  const base::ModelScope* scope = marshal::models_of(request);
  if (!scope || scope->allows("")) return {};  // the pattern `*` alone allows that
  return base::failure(base::Code::kPermissionDenied,
                       "this key is for some models alone: it may not bring a configuration, which could name others");
}

}  // namespace weir::oip
