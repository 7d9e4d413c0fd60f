#include "dialects/oip/generate.h"

#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::oip {
namespace {

void serve(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args, Delivery delivery) {
  if (exchange.request().method == "HEAD") return respond_error(exchange, base::invalid("this answers GET and POST"));
  if (is_over(exchange, Repeatable::kYes)) return;
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).resolve(args["model"], args["version"]);
  if (!found) return respond_error(exchange, found.error());
  bus::Served& served = **found;
  exchange.record().model = served.spec.name;
  if (served.spec.text) return generate_text(state, exchange, served, delivery);
  generate_tensors(state, exchange, args, delivery);
}

}  // namespace

void generate(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args) {
  serve(state, exchange, args, Delivery::kWhole);
}
void generate_stream(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args) {
  serve(state, exchange, args, Delivery::kStream);
}

bool read_parameter(marshal::JsonCursor& json, msg::ParamValue& out) {
  using Kind = marshal::JsonCursor::Kind;
  bool flag = false;
  std::string text;
  marshal::JsonNumber number;
  int64_t whole = 0;
  uint64_t large = 0;
  double real = 0;
  switch (json.peek()) {
    case Kind::kBool:
      if (!json.boolean(flag)) return false;
      out = flag;
      return true;
    case Kind::kString:
      if (!json.string(text)) return false;
      out = std::move(text);
      return true;
    case Kind::kNumber: break;
    default: return json.fail("a parameter is true, false, a number or a string");
  }
  if (!json.number(number)) return false;
  if (number.integral && number.to(whole))
    out = whole;
  else if (number.integral && number.to(large))
    out = large;
  else if (number.to(real))
    out = real;
  else
    return json.fail("a number that is out of range");
  return true;
}

std::string reply_head(std::string_view id, std::string_view model, std::string_view version) {
  std::string out = "{";
  if (!id.empty()) {
    out += "\"id\":";
    marshal::write_string(out, id);
    out += ',';
  }
  out += "\"model_name\":";
  marshal::write_string(out, model);
  out += ",\"model_version\":";
  marshal::write_string(out, version);
  return out;
}

}  // namespace weir::oip
