// write_reference() of openapi.h.
#include <nlohmann/json.hpp>

#include "dialects/ops/openapi.h"
#include "reference_html.h"

namespace weir::ops {
namespace {

using Json = nlohmann::ordered_json;

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += "&#" + std::to_string(int(c)) + ";";
    else
      out += c;
  }
  return out;
}

std::string schema_name(const Json& schema) {
  std::string name = schema.value("$ref", "");
  return name.substr(name.rfind('/') + 1);
}

// Lines such as "application/json: InferRequest", whose names lead to the schemas.
void write_content(std::string& out, std::string_view title, const Json& holder) {
  if (!holder.contains("content")) return;
  (out += "<dt>") += title;
  out += "</dt>";
  for (const auto& [type, content] : holder["content"].items()) {
    const std::string name = escaped(schema_name(content["schema"]));
    out += "<dd>" + escaped(type) + ": <a href=\"#schema-" + name + "\">" + name + "</a></dd>";
  }
}

void write_operation(std::string& out, std::string_view path, std::string_view method, const Json& operation) {
  std::string verb(method);
  for (char& c : verb) c = char(std::toupper(static_cast<unsigned char>(c)));
  out += "<details><summary><b>" + verb + "</b> <code>" + escaped(path) + "</code> " +
         escaped(operation.value("summary", "")) + "</summary><dl>";
  if (operation.contains("description"))
    out += "<dt>about</dt><dd>" + escaped(operation["description"].get<std::string>()) + "</dd>";
  if (operation.contains("parameters"))
    for (const auto& parameter : operation["parameters"])
      out += "<dt>" + escaped(parameter["in"].get<std::string>()) + "</dt><dd><code>" +
             escaped(parameter["name"].get<std::string>()) + "</code> " + escaped(parameter.value("description", "")) +
             "</dd>";
  if (operation.contains("requestBody")) write_content(out, "request", operation["requestBody"]);
  for (const auto& [status, response] : operation["responses"].items()) write_content(out, status, response);
  out += "<dt>permission</dt><dd>" + escaped(operation.value("x-permission", "")) + "</dd></dl></details>\n";
}

void fill(std::string& page, std::string_view mark, std::string_view text) {
  if (size_t at = page.find(mark); at != page.npos) page.replace(at, mark.size(), text);
}

}  // namespace

std::string write_reference(std::string_view document) {
  const Json api = Json::parse(document);
  std::string operations, schemas;
  for (const auto& [path, methods] : api["paths"].items())
    for (const auto& [method, operation] : methods.items()) write_operation(operations, path, method, operation);
  for (const auto& [name, schema] : api["components"]["schemas"].items())
    schemas += "<details id=\"schema-" + escaped(name) + "\"><summary><code>" + escaped(name) +
               "</code></summary><pre>" + escaped(schema.dump(2)) + "</pre></details>\n";
  std::string page(web::kReference);
  for (int i = 0; i < 2; ++i) fill(page, "<!--title-->", escaped(api["info"]["title"].get<std::string>()));
  fill(page, "<!--version-->", escaped(api["info"]["version"].get<std::string>()));
  fill(page, "<!--operations-->", operations);
  fill(page, "<!--schemas-->", schemas);
  return page;
}

}  // namespace weir::ops
