#include "app/tools/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/tools/sse_reader.h"
#include "base/encoding.h"

namespace weir::app {
namespace {

using nlohmann::json;

constexpr size_t kBar = 48;  // characters of the longest bar

std::string field_text(const json& object, const char* key) {
  auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) return {};
  return found->is_string() ? printable(found->get<std::string>()) : printable(found->dump());
}

double field_number(const json& object, const char* key) {
  auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string ms_text(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

// "12:34:56.789" of "2026-01-02T12:34:56.789012Z"
std::string clock_text(const std::string& time) { return time.size() >= 23 ? time.substr(11, 12) : time; }

// The console's API is for keys with the role metrics.
std::string console_error(const base::Result<net::Client::Reply>& reply) {
  std::string wrong = complaint(reply);
  if (reply && (reply->status == 401 || reply->status == 403))
    wrong += "; this wants a key with the role metrics: --key or WEIR_API_KEY";
  if (reply && reply->status == 404 && wrong.find("id") == wrong.npos) wrong += "; is it a weir that has /console/v1?";
  return wrong;
}

std::string title(const json& request) {
  const std::string route = field_text(request, "route"), model = field_text(request, "model");
  return fmt::format("{} {}{}{}  {} {}  {}", field_text(request, "method"), route.empty() ? "?" : route,
                     model.empty() ? "" : "  ", model, field_text(request, "status"), field_text(request, "code"),
                     ms_text(field_number(request, "seconds")));
}

}  // namespace

std::string RequestFilterOptions::query() const {
  std::string out;
  for (const auto& [name, value] :
       {std::pair{"protocol", &protocol}, {"model", &model}, {"status", &status}, {"slow", &slow}})
    if (!value->empty()) out += (out.empty() ? "" : "&") + std::string(name) + '=' + base::percent_encode(*value);
  return out;
}

std::string tail_line(const json& request) {
  const std::string reason = field_text(request, "reason");
  if (field_text(request, "protocol").empty())
    return fmt::format("{} rejected before it was a request: {} from {}", clock_text(field_text(request, "time")),
                       reason, field_text(request, "peer"));
  return fmt::format("{} {:>3} {:<18} {:>11} {:<13} {} {}{}{}{}", clock_text(field_text(request, "time")),
                     field_text(request, "status"), field_text(request, "code"),
                     ms_text(field_number(request, "seconds")), field_text(request, "protocol"),
                     field_text(request, "method"), field_text(request, "route"),
                     field_text(request, "model").empty() ? "" : " model=" + field_text(request, "model"),
                     reason.empty() ? "" : " reason=" + reason, " id=" + field_text(request, "request_id"));
}

std::string waterfall(const json& request) {
  std::string out = title(request) + "\n";
  out += fmt::format("{}  {}  request {}", field_text(request, "time"), field_text(request, "protocol"),
                     field_text(request, "request_id"));
  const std::string trace = field_text(request, "trace_id");
  out += trace.empty() ? "\n" : "  trace " + trace + "\n";
  const json none = json::array();
  const json& parts =
      request.is_object() && request.contains("parts") && request["parts"].is_array() ? request["parts"] : none;
  double total = field_number(request, "seconds");
  for (const auto& part : parts) total = std::max(total, field_number(part, "start") + field_number(part, "seconds"));
  if (!(total > 0) || !std::isfinite(total)) total = 1e-9;
  for (const auto& part : parts) {
    const double start = std::clamp(field_number(part, "start") / total, 0.0, 1.0);
    const double length = std::clamp(field_number(part, "seconds") / total, 0.0, 1.0 - start);
    const auto from = std::min(size_t(start * kBar), kBar - 1);
    const auto width = std::clamp<size_t>(size_t(std::lround(length * kBar)), 1, kBar - from);
    out += fmt::format("  {:<8} {:>12} {:>12}  |{}{}{}|\n", field_text(part, "name"),
                       ms_text(field_number(part, "start")), ms_text(field_number(part, "seconds")),
                       std::string(from, ' '), std::string(width, '#'), std::string(kBar - from - width, ' '));
  }
  if (parts.empty()) out += "  no model was asked\n";
  return out;
}

Exit tail(const Remote& remote, const TailOptions& options) {
  auto client = connect_to(remote);
  if (!client) return fail(client.error().text), Exit::kUsage;
  const std::string query = options.filter.query();
  SseReader events;
  uint64_t shown = 0;
  std::string wrong;
  auto show = [&](std::string_view data) {
    const json request = json::parse(data, nullptr, false);
    if (!request.is_object()) return void(wrong = "the server streams what is no JSON");
    if (request.contains("dropped") && !request.contains("time"))
      return void(std::fprintf(stderr, "weir: %s requests are not shown: the server had too much to tell\n",
                               field_text(request, "dropped").c_str()));
    const std::string line = remote.output == Output::kJson ? printable(std::string(data)) : tail_line(request);
    if (options.count == 0 || shown < options.count) std::printf("%s\n", line.c_str());
    ++shown;
  };
  auto reply = client->stream("GET", "/console/v1/requests" + (query.empty() ? "" : "?" + query),
                              {{"accept", "text/event-stream"}}, {}, [&](std::string_view piece) {
                                if (!events.feed(piece, show)) wrong = "the server sends a line without an end";
                                std::fflush(stdout);
                                return wrong.empty() && (options.count == 0 || shown < options.count);
                              });
  if (auto refused = console_error(reply); !refused.empty()) return fail(refused);
  if (wrong.empty() && options.count > 0 && shown >= options.count) return Exit::kOk;
  return fail(wrong.empty() ? "the server has ended the stream" : wrong);
}

Exit trace(const Remote& remote, const TraceOptions& options) {
  std::string query = options.filter.query();
  auto add = [&](const std::string& pair) { query += (query.empty() ? "" : "&") + pair; };
  if (!options.id.empty()) add("id=" + base::percent_encode(options.id));
  if (options.id.empty()) add((options.slow ? "slowest=" : "last=") + std::to_string(options.count));
  auto reply = ask(remote, "GET", "/console/v1/timelines?" + query);
  if (auto refused = console_error(reply); !refused.empty()) return fail(refused);
  const json answer = json::parse(reply->body, nullptr, false);
  if (!answer.is_object() || !answer.contains("requests") || !answer["requests"].is_array())
    return fail("the server's answer is no list of requests");
  const json& requests = answer["requests"];
  if (remote.output == Output::kJson) {
    std::printf("%s\n", requests.dump(2, ' ', true, json::error_handler_t::replace).c_str());
    return Exit::kOk;
  }
  if (requests.empty()) {
    std::printf("none of the %s requests that are kept is like that\n", field_text(answer, "kept").c_str());
    return Exit::kOk;
  }
  if (options.id.empty() && requests.size() > 1)
    for (const auto& request : requests) std::printf("%s\n", tail_line(request).c_str());
  if (!options.id.empty() || options.slow || requests.size() == 1)
    std::printf("%s%s", options.id.empty() && requests.size() > 1 ? "\n" : "", waterfall(requests.front()).c_str());
  return Exit::kOk;
}

}  // namespace weir::app
