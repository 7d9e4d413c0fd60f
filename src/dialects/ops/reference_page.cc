// write_reference() of openapi.h.
#include <nlohmann/json.hpp>

#include "dialects/ops/html.h"
#include "dialects/ops/openapi.h"
#include "marshal/html.h"
#include "reference_html.h"

namespace weir::ops {
namespace {

using marshal::escape_html;
using Json = nlohmann::ordered_json;

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
    const std::string name = escape_html(schema_name(content["schema"]));
    out += "<dd>" + escape_html(type) + ": <a href=\"#schema-" + name + "\">" + name + "</a></dd>";
  }
}

void write_operation(std::string& out, std::string_view path, std::string_view method, const Json& operation) {
  std::string verb(method);
  for (char& c : verb) c = char(std::toupper(static_cast<unsigned char>(c)));
  out += "<details><summary><b>" + verb + "</b> <code>" + escape_html(path) + "</code> " +
         escape_html(operation.value("summary", "")) + "</summary><dl>";
  if (operation.contains("description"))
    out += "<dt>about</dt><dd>" + escape_html(operation["description"].get<std::string>()) + "</dd>";
  if (operation.contains("parameters"))
    for (const auto& parameter : operation["parameters"])
      out += "<dt>" + escape_html(parameter["in"].get<std::string>()) + "</dt><dd><code>" +
             escape_html(parameter["name"].get<std::string>()) + "</code> " +
             escape_html(parameter.value("description", "")) + "</dd>";
  if (operation.contains("requestBody")) write_content(out, "request", operation["requestBody"]);
  for (const auto& [status, response] : operation["responses"].items()) write_content(out, status, response);
  out += "<dt>permission</dt><dd>" + escape_html(operation.value("x-permission", "")) + "</dd></dl></details>\n";
}

}  // namespace

std::string write_reference(std::string_view document, std::string_view root) {
  const Json api = Json::parse(document);
  std::string operations, schemas;
  for (const auto& [path, methods] : api["paths"].items())
    for (const auto& [method, operation] : methods.items()) write_operation(operations, path, method, operation);
  for (const auto& [name, schema] : api["components"]["schemas"].items())
    schemas += "<details id=\"schema-" + escape_html(name) + "\"><summary><code>" + escape_html(name) +
               "</code></summary><pre>" + escape_html(schema.dump(2)) + "</pre></details>\n";
  std::string page(web::kReference);
  for (int i = 0; i < 2; ++i) fill_mark(page, "<!--title-->", escape_html(api["info"]["title"].get<std::string>()));
  for (int i = 0; i < 2; ++i) fill_mark(page, "<!--root-->", root);
  fill_mark(page, "<!--version-->", escape_html(api["info"]["version"].get<std::string>()));
  fill_mark(page, "<!--operations-->", operations);
  fill_mark(page, "<!--schemas-->", schemas);
  return page;
}

}  // namespace weir::ops
