// Checks a route of the configuration (options.h).
#include <algorithm>

#include "dialects/grps/options.h"
#include "dialects/grps/route_inputs.h"
#include "wire/own_paths.h"

namespace weir::grps {
namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string check_path(const RouteSpec& route) {
  if (route.path.size() < 2 || route.path[0] != '/') return "path: expected one like /classify";
  if (auto own = wire::own_path(route.path); !own.empty()) return "path: " + std::string(own) + " is weir's own";
  return {};
}

std::string check_inputs(const RouteSpec& route) {
  if (route.inputs.empty()) return "inputs: expected at least one";
  for (const auto& [input, text] : route.inputs) {
    auto source = read_source(text);
    if (!source)
      return "inputs: expected query:KEY, header:KEY, path:KEY, body:/POINTER, form:KEY or body, or one of them behind "
             "base64:, got '" +
             text + "'";
    if (source->place == Source::Place::kForm && route.method == "GET")
      return "inputs: a GET has no form; take query:KEY";
  }
  return {};
}

std::string check_outputs(const RouteSpec& route) {
  for (const auto& [place, output] : route.outputs)
    if (place.empty() || place[0] != '/') return "outputs: expected a JSON pointer like /scores, got '" + place + "'";
  for (const auto& [place, output] : route.outputs)
    for (const auto& [other, unused] : route.outputs)
      if (other.starts_with(place + "/")) return "outputs: '" + other + "' lies inside '" + place + "'";
  if (!route.outputs.empty() && !route.raw_output.empty()) return "outputs and raw_output exclude each other";
  return {};
}

}  // namespace

std::string check_streaming(std::string_view control) {
  size_t colon = control.find(':');
  bool good = control.empty() || (colon != control.npos && colon + 1 < control.size() &&
                                  one_of(control.substr(0, colon), {"query_param", "header_param", "body_param"}));
  return good ? "" : "expected query_param:KEY, header_param:KEY or body_param:KEY";
}

std::string check(const RouteSpec& route) {
  if (std::string wrong = check_path(route); !wrong.empty()) return wrong;
  if (!one_of(route.method, {"GET", "POST", "PUT"})) return "method: expected GET, POST or PUT";
  if (std::string wrong = check_inputs(route); !wrong.empty()) return wrong;
  if (std::string wrong = check_outputs(route); !wrong.empty()) return wrong;
  if (route.status < 200 || route.status > 599) return "status: expected 200 to 599";
  if (route.error_status != 0 && route.error_status < 200) return "error_status: expected 200 to 599";
  if (!route.error_content_type.empty() && route.error_body.empty()) return "error_content_type needs an error_body";
  if (std::string wrong = check_streaming(route.streaming); !wrong.empty()) return "streaming: " + wrong;
  return {};
}

}  // namespace weir::grps
