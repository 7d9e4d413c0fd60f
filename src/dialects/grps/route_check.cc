// Checks a route of the configuration (options.h).
#include <algorithm>
#include <vector>

#include "dialects/grps/options.h"
#include "dialects/grps/route_inputs.h"
#include "wire/own_paths.h"

namespace weir::grps {
namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr size_t kMostSegments = 16;  // of which the Router finds the values

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return uint8_t(c) <= ' ' || uint8_t(c) == 0x7f || c == '?' || c == '#' || c == '\\';
  });
}

// Adds the name of the place that a segment is: "k" of "{k}" and of "{k}:run". False: it is neither that nor plain
// text.
bool read_segment(std::string_view segment, std::vector<std::string_view>& names) {
  if (segment == "." || segment == "..") return false;  // clients take such segments away
  if (segment.find_first_of("{}") == segment.npos) return true;
  const size_t end = segment.find('}');
  if (segment[0] != '{' || end == segment.npos || end < 2) return false;
  const std::string_view name = segment.substr(1, end - 1), verb = segment.substr(end + 1);
  names.push_back(name);
  return name.find_first_of("{:") == name.npos && (verb.empty() || (verb.size() > 1 && verb.rfind(':') == 0)) &&
         verb.find_first_of("{}") == verb.npos;
}

std::string check_path(const RouteSpec& route, std::vector<std::string_view>& names) {
  const std::string_view path = route.path;
  if (path.size() < 2 || path[0] != '/') return "path: expected one like /classify";
  if (auto own = wire::own_path(path); !own.empty()) return "path: " + std::string(own) + " is weir's own";
  if (!is_plain(path)) return "path: it has no blanks, '?', '#' and '\\'";
  for (size_t at = 0; at != path.npos;) {
    const size_t next = path.find('/', at + 1);
    if (!read_segment(path.substr(at + 1, next == path.npos ? next : next - at - 1), names))
      return "path: expected segments of text, {name} or {name}:text, between slashes";
    at = next;
  }
  if (names.size() > kMostSegments) return "path: more than " + std::to_string(kMostSegments) + " places";
  std::vector<std::string_view> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() ? std::string() : "path: {" + std::string(*twice) + "} is there twice";
}

std::string check_inputs(const RouteSpec& route, const std::vector<std::string_view>& names) {
  if (route.inputs.empty()) return "inputs: expected at least one";
  for (const auto& [input, text] : route.inputs) {
    auto source = read_source(text);
    if (!source)
      return "inputs: expected query:KEY, header:KEY, path:KEY, body:/POINTER, form:KEY or body, or one of them behind "
             "base64:, got '" +
             text + "'";
    if (source->place == Source::Place::kForm && route.method == "GET")
      return "inputs: a GET has no form; take query:KEY";
    if (source->place == Source::Place::kPath && std::find(names.begin(), names.end(), source->key) == names.end())
      return "inputs: the path has no {" + std::string(source->key) + "}";
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
  std::vector<std::string_view> names;  // of places in the path
  if (std::string wrong = check_path(route, names); !wrong.empty()) return wrong;
  if (!one_of(route.method, {"GET", "POST", "PUT"})) return "method: expected GET, POST or PUT";
  if (std::string wrong = check_inputs(route, names); !wrong.empty()) return wrong;
  if (std::string wrong = check_outputs(route); !wrong.empty()) return wrong;
  if (route.status < 200 || route.status > 599) return "status: expected 200 to 599";
  if (route.error_status != 0 && route.error_status < 200) return "error_status: expected 200 to 599";
  if (!route.error_content_type.empty() && route.error_body.empty()) return "error_content_type needs an error_body";
  if (std::string wrong = check_streaming(route.streaming); !wrong.empty()) return "streaming: " + wrong;
  return {};
}

}  // namespace weir::grps
