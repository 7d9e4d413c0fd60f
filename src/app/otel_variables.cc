#include "app/otel_variables.h"

#include <algorithm>

#include "app/setting_rows.h"
#include "base/encoding.h"
#include "base/log.h"
#include "wire/text.h"

namespace weir::app {
namespace {

using Lookup = std::function<const char*(const char*)>;

struct OtelVariable {
  const char* name;
  const char* key;  // of the row
  base::Result<Values> (*convert)(std::string_view text);
};

// "k=v,k2=v2" with percent escapes in the values, as W3C Baggage has it.
base::Result<Values> pairs(std::string_view text) {
  Values out;
  bool bad = false;
  wire::for_each_element(text, [&](std::string_view pair) {
    size_t equals = std::min(pair.find('='), pair.size());
    auto value = base::percent_decode(wire::trim(pair.substr(std::min(equals + 1, pair.size()))));
    bad = bad || !value || equals == pair.size();
    if (!bad) out.push_back(std::string(wire::trim(pair.substr(0, equals))) + '=' + *value);
  });
  if (bad) return invalid("expected name=value pairs with commas between them");
  return out;
}

base::Result<Values> as_is(std::string_view text) { return Values{std::string(text)}; }

// The base of all signals: traces are below it.
base::Result<Values> base_url(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  return Values{std::string(text) + "/v1/traces"};
}

base::Result<Values> in_milliseconds(std::string_view text) { return Values{std::string(text) + "ms"}; }

// The first of a pair that is for traces alone comes behind the one for all signals, and so wins.
constexpr OtelVariable kOtelVariables[] = {
    {"OTEL_EXPORTER_OTLP_ENDPOINT", "tracing.otlp", base_url},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "tracing.otlp", as_is},
    {"OTEL_EXPORTER_OTLP_HEADERS", "tracing.headers", pairs},
    {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "tracing.headers", pairs},
    {"OTEL_EXPORTER_OTLP_COMPRESSION", "tracing.compression", as_is},
    {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "tracing.compression", as_is},
    {"OTEL_EXPORTER_OTLP_TIMEOUT", "tracing.timeout", in_milliseconds},
    {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "tracing.timeout", in_milliseconds},
    {"OTEL_EXPORTER_OTLP_CERTIFICATE", "tracing.ca_file", as_is},
    {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "tracing.ca_file", as_is},
    {"OTEL_RESOURCE_ATTRIBUTES", "tracing.resource", pairs},
    {"OTEL_SERVICE_NAME", "tracing.service_name", as_is},
};

struct OtelSampler {
  std::string_view name;
  wire::TraceRules::Parent parent;
  double ratio;  // negative: OTEL_TRACES_SAMPLER_ARG, or 1
};

constexpr OtelSampler kOtelSamplers[] = {
    {"always_on", wire::TraceRules::Parent::kSample, 1},
    {"always_off", wire::TraceRules::Parent::kSample, 0},
    {"traceidratio", wire::TraceRules::Parent::kSample, -1},
    {"parentbased_always_on", wire::TraceRules::Parent::kRespect, 1},
    {"parentbased_always_off", wire::TraceRules::Parent::kRespect, 0},
    {"parentbased_traceidratio", wire::TraceRules::Parent::kRespect, -1},
};

std::string_view variable_text(const Lookup& environment, const char* name) {
  const char* value = environment(name);
  return value ? std::string_view(value) : std::string_view();
}

Status set_sampler(const Lookup& environment, Config& config) {
  constexpr const char* kName = "OTEL_TRACES_SAMPLER";
  auto name = variable_text(environment, kName);
  if (name.empty()) return {};
  for (const auto& sampler : kOtelSamplers) {
    if (sampler.name != name) continue;
    config.tracing.rules = {sampler.ratio < 0 ? 1 : sampler.ratio, sampler.parent};
    config.origins["tracing.sample"] = config.origins["tracing.parent"] = kName;
    auto argument = variable_text(environment, "OTEL_TRACES_SAMPLER_ARG");
    if (sampler.ratio >= 0 || argument.empty()) return {};
    auto ratio = parse_ratio(argument);
    if (!ratio) return invalid("OTEL_TRACES_SAMPLER_ARG: " + ratio.error().text);
    config.tracing.rules.ratio = *ratio;
    return {};
  }
  return invalid(std::string(kName) + ": '" + std::string(name) +
                 "' is not offered; expected always_on, always_off, "
                 "traceidratio, or one of these behind parentbased_");
}

// Spans go by http/protobuf alone, and a collector of gRPC does not understand them: an administrator who has set
// another protocol is told so, and the server starts.
void check_protocol(const Lookup& environment, const Config& config) {
  if (config.tracing.otlp.empty()) return;
  for (const char* name : {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}) {
    auto protocol = variable_text(environment, name);
    if (protocol.empty()) continue;
    if (protocol != "http/protobuf")
      base::log::warning(
          "spans go to the collector by http/protobuf, whatever the variable says: its port for that is "
          "4318, as a rule",
          {{"variable", name}, {"value", protocol}});
    return;
  }
}

// Programs that are told to send no spans send none, whatever else they are told.
bool is_off(const Lookup& environment) {
  return variable_text(environment, "OTEL_TRACES_EXPORTER") == "none" ||
         wire::same_text(variable_text(environment, "OTEL_SDK_DISABLED"), "true");
}

}  // namespace

std::vector<Status> read_otel_variables(const std::vector<Setting>& rows, const Lookup& environment, Config& config) {
  std::vector<Status> wrong;
  const bool off = is_off(environment);
  for (const auto& variable : kOtelVariables) {
    auto text = variable_text(environment, variable.name);
    if (text.empty() || (off && std::string_view(variable.key) == "tracing.otlp")) continue;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Setting& s) { return s.key == variable.key; });
    auto values = variable.convert(text);
    Status s = values ? row->set(*values) : values.error();
    if (!s.ok()) wrong.push_back(invalid(std::string(variable.name) + ": " + s.text));
    config.origins[variable.key] = variable.name;
  }
  if (auto s = set_sampler(environment, config); !s.ok()) wrong.push_back(std::move(s));
  check_protocol(environment, config);
  return wrong;
}

}  // namespace weir::app
