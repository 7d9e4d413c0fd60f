// GET: the models and their metadata, as JSON, or as an HTML page if `accept` names text/html.
#include "dialects/graphpipe/state.h"
#include "marshal/html.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::graphpipe {
namespace {

using marshal::escape_html;
using wire::Exchange;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kHtml = "text/html; charset=utf-8";

bool is_browser(const Exchange& exchange) {
  return exchange.request().fields.find("accept").find("text/html") != std::string_view::npos;
}

std::string page(std::string_view title, std::string_view body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escape_html(title) +
         "</title><style>body{font:16px/1.5 sans-serif;max-width:44em;margin:2em auto;padding:0 1em}"
         "pre{background:#f4f4f4;padding:1em;overflow:auto}</style></head><body><h1>" +
         escape_html(title) + "</h1>\n" + std::string(body) + "</body></html>\n";
}

void respond(Exchange& exchange, std::string_view type, std::string text) {
  wire::Response response;
  response.fields.add("content-type", type);
  response.fields.add("vary", "accept");
  exchange.respond(std::move(response), base::Bytes::adopt(std::move(text)));
}

}  // namespace

void model_page(GraphPipeState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).find(args["model"], args["version"]);
  if (!found) return wire::respond_error(exchange, found.error());
  const msg::ModelSpec& spec = (*found)->spec;
  exchange.record().model = spec.name;
  std::string json = metadata_json(spec, state.server());
  if (!is_browser(exchange)) return respond(exchange, kJson, std::move(json));
  respond(exchange, kHtml,
          page(spec.name,
               "<p>A model that speaks <a href=\"https://oracle.github.io/graphpipe/\">GraphPipe</a>. POST an "
               "InferRequest or a MetadataRequest to this address.</p>\n<pre>" +
                   escape_html(json) + "</pre>\n<p><a href=\"" + escape_html(state.options.prefix) +
                   "\">all models</a></p>\n"));
}

void list_page(GraphPipeState& state, Exchange& exchange, const wire::PathArgs&) {
  std::string json = "{\n  \"server\": ", items;
  marshal::write_string(json, state.options.server_name);
  json += ",\n  \"version\": ";
  marshal::write_string(json, state.options.server_version);
  json += ",\n  \"models\": [";
  std::string_view gap = "\n    ";
  const auto& models = state.bus.catalog(marshal::models_of(exchange.request())).models;
  for (const auto& [name, model] : models) {  // no name needs an escape: letters, digits, '_', '.', '-'
    std::string path = state.options.prefix + '/' + name;
    json += std::exchange(gap, ",\n    ");
    json += "{\"name\": \"" + name + "\", \"description\": ";
    marshal::write_string(json, describe(model.preferred->spec));
    json += ", \"uri\": \"" + path + "\"}";
    items +=
        "<li><a href=\"" + path + "\">" + name + "</a>: " + escape_html(describe(model.preferred->spec)) + "</li>\n";
  }
  json += models.empty() ? "]\n}\n" : "\n  ]\n}\n";
  if (!is_browser(exchange)) return respond(exchange, kJson, std::move(json));
  respond(exchange, kHtml, page("GraphPipe on " + state.options.server_name, "<ul>\n" + items + "</ul>\n"));
}

void is_ready(GraphPipeState& state, Exchange& exchange, const wire::PathArgs& args) {
  bool served = args["model"].empty() ||
                state.bus.catalog(marshal::models_of(exchange.request())).find(args["model"], args["version"]);
  if (served && (!state.options.ready || state.options.ready()))
    return exchange.respond(200, "text/plain", base::Bytes::constant("ok\n"));
  exchange.record().code = base::Code::kUnavailable;
  exchange.respond(503, "text/plain", base::Bytes::constant("not ready\n"));
}

void is_alive(GraphPipeState&, Exchange& exchange, const wire::PathArgs&) {
  exchange.respond(200, "text/plain", base::Bytes::constant("ok\n"));
}

}  // namespace weir::graphpipe
