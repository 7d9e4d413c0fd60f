#include "dialects/grps/route_reply.h"

#include "dialects/grps/rest.h"
#include "marshal/check.h"
#include "marshal/json_nested.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::Status;
using msg::DType;
using msg::Tensor;

// A response's members, in the order in which the configuration names them.
struct Node {
  std::string name;
  std::vector<Node> members;
  const Tensor* tensor = nullptr;

  Node& at(std::string_view pointer) {
    if (pointer.empty()) return *this;
    pointer.remove_prefix(1);
    size_t slash = pointer.find('/');
    std::string_view wanted = pointer.substr(0, slash);
    std::string_view rest = slash == pointer.npos ? std::string_view() : pointer.substr(slash);
    for (Node& member : members)
      if (member.name == wanted) return member.at(rest);
    members.emplace_back().name = wanted;
    return members.back().at(rest);
  }
};

void write(std::string& out, const Node& node) {
  if (const Tensor* t = node.tensor) {
    auto text = marshal::bytes_text(*t);
    if (t->shape.elements() == 1u) return marshal::write_elements(out, t->dtype, t->data.view(), {text});
    return marshal::write_nested(out, *t, {text});
  }
  out += '{';
  for (const Node& member : node.members) {
    if (out.back() != '{') out += ',';
    marshal::write_string(out, member.name);
    out += ':';
    write(out, member);
  }
  out += '}';
}

const Tensor* named(const std::vector<Tensor>& outputs, const std::string& name) {
  for (const auto& t : outputs)
    if (t.name == name) return &t;
  return nullptr;
}

Status missing(const std::string& name) {
  return base::failure(base::Code::kInternal, "the model made no output '" + name + "'");
}

base::Result<base::Bytes> render_raw(const RouteSpec& route, const std::vector<Tensor>& outputs) {
  const Tensor* t = named(outputs, route.raw_output);
  if (!t) return missing(route.raw_output);
  bool one_string = t->dtype == DType::kBytes && t->shape.elements() == 1u;
  return one_string ? t->data.slice(4, t->data.size() - 4) : t->data;
}

std::string_view error_type(const RouteSpec& route) {
  if (!route.error_content_type.empty()) return route.error_content_type;
  if (route.error_body.empty() || route.error_body[0] == '{' || route.error_body[0] == '[') return "application/json";
  return "text/plain; charset=utf-8";
}

// A value as it may stand inside a text of this type.
void append_escaped(std::string& out, std::string_view type, std::string_view value) {
  if (type.find("json") != type.npos) return wire::append_json_text(out, value);
  bool markup = type.find("html") != type.npos || type.find("xml") != type.npos;
  for (char c : value) {
    if (markup && (c == '<' || c == '>' || c == '&' || c == '"' || c == '\''))
      out += "&#" + std::to_string(int(c)) + ';';
    else
      out += c;
  }
}

}  // namespace

base::Result<base::Bytes> render(const RouteSpec& route, const std::vector<Tensor>& outputs) {
  if (!route.raw_output.empty()) return render_raw(route, outputs);
  for (const Tensor& t : outputs)
    if (Status status = marshal::check_nesting(t, "output"); !status.ok()) return status;
  Node root;
  for (const auto& [pointer, name] : route.outputs) {
    const Tensor* t = named(outputs, name);
    if (!t) return missing(name);
    root.at(pointer).tensor = t;
  }
  if (route.outputs.empty())
    for (const auto& t : outputs) root.members.push_back({t.name, {}, &t});
  std::string out;
  write(out, root);
  return base::Bytes::adopt(std::move(out));
}

// An output may stand at several places; its rows have brackets.
uint64_t most_rendered(const RouteSpec& route, const std::vector<Tensor>& outputs) {
  if (!route.raw_output.empty()) return 0;
  uint64_t bytes = 0;
  for (const Tensor& t : outputs) bytes += route.outputs.empty() ? marshal::most_nested(t) : 0;
  for (const auto& [pointer, name] : route.outputs)
    if (const Tensor* t = named(outputs, name)) bytes += marshal::most_nested(*t) + pointer.size();
  return bytes;
}

std::string_view content_type(const RouteSpec& route) {
  if (!route.content_type.empty()) return route.content_type;
  return route.raw_output.empty() ? "application/json" : "application/octet-stream";
}

std::string render_error(const RouteSpec& route, const Status& status) {
  std::string_view rest = route.error_body, type = error_type(route);
  std::string out, code = std::to_string(code_of(status));
  const std::pair<std::string_view, std::string_view> places[] = {
      {"{message}", status.text}, {"{code}", code}, {"{name}", base::name(status.code)}};
  while (!rest.empty()) {
    size_t brace = std::min(rest.find('{'), rest.size());
    out += rest.substr(0, brace);
    rest.remove_prefix(brace);
    size_t length = rest.empty() ? 0 : 1;
    for (const auto& [place, value] : places) {
      if (!rest.starts_with(place)) continue;
      append_escaped(out, type, value);
      rest.remove_prefix(place.size());
      length = 0;
      break;
    }
    out += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return out;
}

void respond_error(wire::Exchange& exchange, const RouteSpec& route, const Status& status) {
  int http = route.error_status > 0 ? int(route.error_status) : code_of(status);
  std::string body = route.error_body.empty() ? write_json(status, {}) : render_error(route, status);
  respond(exchange, status, http, error_type(route), base::Bytes::adopt(std::move(body)));
}

}  // namespace weir::grps
