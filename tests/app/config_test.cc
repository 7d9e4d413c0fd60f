#include "app/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "app/settings.h"
#include "app/unknown_variables.h"

namespace weir::app {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

base::Result<Config> from_text(std::string_view text) {
  Config config;
  if (auto s = read_file_text(text, "/etc/weir/weir.yaml", config); !s.ok()) return s;
  return config;
}

using base::Setting;

void expect_same(Config& one, Config& other) {
  const auto rows = settings(one), others = settings(other);
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].form == Setting::ValueKind::kReplaced)
      continue;
    else if (rows[i].form == Setting::ValueKind::kTree)
      EXPECT_EQ(rows[i].show(), others[i].show()) << rows[i].key;
    else
      EXPECT_EQ(rows[i].get(), others[i].get()) << rows[i].key;
}

TEST(Config, TheFileSetsWhatItNames) {
  auto config = from_text(
      "listen: [\"[::]:9000\", \"unix:/run/w.sock\"]\n"
      "shards: 2\n"
      "models:\n  repository: ./models\n  control: poll\n  batching: {max_delay: 2ms}\n"
      "limits:\n  body: 32MiB\n"
      "access_log: off\n");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->listen.size(), 2u);
  EXPECT_EQ(config->shards, 2u);
  EXPECT_EQ(config->models.roots, std::vector<std::string>{"/etc/weir/models"});
  EXPECT_EQ(config->models.control, models::Control::kPoll);
  EXPECT_EQ(config->models.batching.max_delay, 2ms);
  EXPECT_EQ(config->limits.body, 32u << 20);
  EXPECT_EQ(config->access_log, "off");
  EXPECT_EQ(config->origins.at("limits.body"), "weir.yaml:8");
}

base::Result<Config> from_environment(std::map<std::string, std::string> variables) {
  Sources sources;
  sources.environment = [&](const char* name) -> const char* {
    auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  };
  return resolve(sources);
}

TEST(Config, OpenTelemetrysVariablesSetTracing) {
  auto config = from_environment({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"},
                                  {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1"},
                                  {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"},
                                  {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                                  {"OTEL_SERVICE_NAME", "gate"},
                                  {"OTEL_RESOURCE_ATTRIBUTES", "a.b=c,d=%2C"},
                                  {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                                  {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
  ASSERT_TRUE(config) << config.error().text;
  const TracingConfig& t = config->tracing;
  EXPECT_EQ(t.otlp, "http://collector:4318/v1/traces");
  EXPECT_EQ(t.headers, (std::vector<std::string>{"api-key=a b", "x=1"}));
  EXPECT_EQ(t.timeout, 1500ms);
  EXPECT_EQ(t.compression, TracingConfig::Compression::kGzip);
  EXPECT_EQ(t.service_name, "gate");
  EXPECT_EQ(t.resource, (std::vector<std::string>{"a.b=c", "d=,"}));
  EXPECT_EQ(t.rules.ratio, 0.25);
  EXPECT_EQ(t.rules.parent, wire::TraceRules::Parent::kRespect);
  EXPECT_EQ(config->origins.at("tracing.otlp"), "OTEL_EXPORTER_OTLP_ENDPOINT");
}

TEST(Config, WeirsOwnVariablesAndThoseForTracesAloneWin) {
  auto config = from_environment({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"},
                                  {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:4318/in"},
                                  {"OTEL_SERVICE_NAME", "theirs"},
                                  {"WEIR_TRACING_SERVICE_NAME", "ours"},
                                  {"OTEL_TRACES_SAMPLER", "always_on"}});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->tracing.otlp, "https://traces:4318/in");
  EXPECT_EQ(config->tracing.service_name, "ours");
  EXPECT_EQ(config->tracing.rules.parent, wire::TraceRules::Parent::kSample);
  EXPECT_EQ(config->tracing.rules.ratio, 1);
}

TEST(Config, TracesAreOffWhereOpenTelemetryIs) {
  for (auto [name, value] : {std::pair("OTEL_TRACES_EXPORTER", "none"), {"OTEL_SDK_DISABLED", "TRUE"}}) {
    auto config = from_environment({{name, value}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"}});
    ASSERT_TRUE(config);
    EXPECT_EQ(config->tracing.otlp, "") << name;
  }
}

TEST(Config, OpenTelemetrysVariablesAreCheckedLikeAllOthers) {
  for (auto [name, value] : {std::pair("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
                             {"OTEL_EXPORTER_OTLP_HEADERS", "nothing"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0ab"},
                             {"OTEL_TRACES_SAMPLER", "jaeger_remote"},
                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                             {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}}) {
    auto config = from_environment({{name, value}});
    ASSERT_FALSE(config) << name;
    EXPECT_TRUE(config.error().text.starts_with(std::string(name) + ": ")) << config.error().text;
  }
}

TEST(Config, UnknownKeysAreErrorsWithPlaceAndNearMiss) {
  EXPECT_EQ(from_text("limits:\n  bodi: 1\n").error().text,
            "/etc/weir/weir.yaml:2:3: unknown key 'bodi' in 'limits', did you mean 'body'?");
  EXPECT_EQ(from_text("listn: x\n").error().text,
            "/etc/weir/weir.yaml:1:1: unknown key 'listn', did you mean 'listen'?");
  EXPECT_EQ(from_text("models:\n  batching:\n    max_dely: 1ms\n").error().text,
            "/etc/weir/weir.yaml:3:5: unknown key 'max_dely' in 'models.batching', did you mean 'max_delay'?");
}

TEST(Config, AKeyThatWasReplacedNamesTheSettingInItsPlace) {
  for (std::string section : {"graphpipe", "grps", "openai", "salience", "evergreen"})
    EXPECT_EQ(from_text(section + ":\n  default_model: chat\n").error().text,
              "/etc/weir/weir.yaml:2:3: " + section + ".default_model is now models.default");
  auto config = from_text("models:\n  default: chat\n");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->models.default_model, "chat");
  Sources sources;
  sources.environment = [](const char* name) -> const char* {
    return std::string_view(name) == "WEIR_OPENAI_DEFAULT_MODEL" ? "chat" : nullptr;
  };
  EXPECT_EQ(resolve(sources).error().text, "WEIR_OPENAI_DEFAULT_MODEL: openai.default_model is now models.default");
}

TEST(Config, EveryMistakeIsToldAtOnce) {
  auto config = from_text(
      "shards: many\nlimits: {body: 64 MiB, streams: 0}\ntls: 3\nmodels: {control: pol}\nlog: {level: [info]}\n");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text,
            "/etc/weir/weir.yaml:1:9: shards: expected a whole number, got 'many'\n"
            "/etc/weir/weir.yaml:2:16: limits.body: expected a size like 64MiB, 16KiB or 4096, got '64 MiB'\n"
            "/etc/weir/weir.yaml:2:33: limits.streams: expected at least 1, got 0\n"
            "/etc/weir/weir.yaml:3:6: expected a map of keys and values\n"
            "/etc/weir/weir.yaml:4:19: models.control: expected one of none, poll, explicit, demand, got 'pol'\n"
            "/etc/weir/weir.yaml:5:14: log.level: expected one value");
}

TEST(Config, AFlagBeatsTheEnvironmentBeatsTheFile) {
  std::string file = testing::TempDir() + "/weir-config-test.yaml";
  std::ofstream(file) << "shards: 1\nlimits: {streams: 11}\nlisten: [\"a:1\"]\n";
  Sources sources;
  sources.file = file;
  sources.flags["shards"] = {"3"};
  sources.environment = [](const char* name) -> const char* {
    if (std::string_view(name) == "WEIR_SHARDS") return "2";
    if (std::string_view(name) == "WEIR_LIMITS_STREAMS") return "22";
    if (std::string_view(name) == "WEIR_CORS_ORIGINS") return "https://a,https://b";
    return nullptr;
  };
  auto config = resolve(sources);
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->shards, 3u);
  EXPECT_EQ(config->limits.streams, 22u);
  EXPECT_EQ(config->listen, std::vector<std::string>{"a:1"});
  EXPECT_EQ(config->cors_origins.size(), 2u);
  EXPECT_EQ(config->origins.at("shards"), "flag");
  EXPECT_EQ(config->origins.at("limits.streams"), "WEIR_LIMITS_STREAMS");
}

TEST(Config, CommasPartTheValuesOfAListsFlagAsInItsVariable) {
  Sources sources;
  sources.flags["listen"] = {"127.0.0.1:1,unix:/a?mode=0660", "[::1]:2"};
  sources.flags["tracing.headers"] = {"authorization=Basic a,b"};
  sources.flags["models.repository"] = {"/models,old"};
  auto config = resolve(sources);
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->listen, (std::vector<std::string>{"127.0.0.1:1", "unix:/a?mode=0660", "[::1]:2"}));
  EXPECT_EQ(config->tracing.headers, std::vector<std::string>{"authorization=Basic a,b"});
  EXPECT_EQ(config->models.roots, std::vector<std::string>{"/models,old"});
  sources.flags["listen"] = {"127.0.0.1:1,"};
  config = resolve(sources);
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().text.find("--listen: "), std::string::npos) << config.error().text;
}

TEST(Config, ContradictionsBetweenSettingsAreErrors) {
  auto with = [](std::map<std::string, std::vector<std::string>, std::less<>> flags) {
    Sources sources;
    sources.flags = std::move(flags);
    auto config = resolve(sources);
    return config ? std::string() : config.error().text;
  };
  EXPECT_EQ(with({}), "");
  EXPECT_NE(with({{"tls.key", {"k"}}}), "");
  EXPECT_NE(with({{"tls.required", {"true"}}}), "");
  EXPECT_NE(with({{"models.startup", {"m"}}}), "");
  EXPECT_NE(with({{"limits.slab_budget", {"64MiB"}}}), "");
  EXPECT_EQ(with({{"shards", {"x"}}}), "--shards: expected a whole number, got 'x'");
}

TEST(Config, HostsAreNamesAndNoAddressesOfPages) {
  auto config =
      from_text("http: {hosts: [weir.example, \"*.b.example:8443\", \"*\"]}\nadmin: {listen: [\"unix:/a\"]}\n");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->http_hosts.size(), 3u);
  EXPECT_EQ(config->admin_listen, std::vector<std::string>{"unix:/a"});
  auto bad = from_text("http: {hosts: [\"http://weir.example\"]}\n");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().text.find("names like a.example"), std::string::npos) << bad.error().text;
  EXPECT_EQ(from_text("sessions: {anonymous: shared}\n")->anonymous, msg::Anonymous::kShared);
}

TEST(Config, TheAnnotatedFileNamesEveryKeyWithItsDefault) {
  std::ifstream in(WEIR_CONF "/weir.yaml");
  std::stringstream text;
  text << in.rdbuf();
  Config config;
  auto status = read_file_text(text.str(), "conf/weir.yaml", config);
  ASSERT_TRUE(status.ok()) << status.text;
  Config fresh;
  const auto rows = settings(config), defaults = settings(fresh);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    if (!row.get || row.key == "models.repository") continue;
    EXPECT_TRUE(config.origins.count(row.key)) << row.key << " is not in conf/weir.yaml";
    EXPECT_EQ(row.get(), defaults[i].get()) << row.key;
  }
}

TEST(Config, WhatIsShownReadsBackTheSame) {
  Config config;
  config.listen = {"127.0.0.1:0", "unix:/tmp/a b.sock"};
  config.drain_delay = 1500ms;
  Config again;
  auto status = read_file_text(show(config), "/weir.yaml", again);
  ASSERT_TRUE(status.ok()) << status.text << show(config);
  expect_same(config, again);
}

TEST(Settings, EveryRowHasItsOwnNames) {
  std::set<std::string> flags, variables;
  Config config;
  for (const auto& setting : settings(config)) {
    EXPECT_TRUE(flags.insert(setting.flag_name()).second) << setting.key;
    EXPECT_TRUE(variables.insert(setting.environment_name()).second) << setting.key;
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
  EXPECT_TRUE(variables.count("WEIR_LIMITS_BODY"));
}

TEST(Config, RoutesOfTheUsersOwn) {
  auto config = from_text(
      "grps:\n  routes:\n  - path: /classify\n    model: digits\n    inputs: {image: body:/pixels}\n"
      "    outputs: {/scores: p}\n    status: 201\n    streaming: query_param:s\n");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(from_text("grps:\n  routes:\n  - path: /v2/x\n    inputs: {a: body}\n").error().text,
            "/etc/weir/weir.yaml:3:5: path: /v2 is weir's own");
  EXPECT_EQ(from_text("grps:\n  routes:\n  - pth: /x\n    path: /x\n    inputs: {a: cookie:b}\n").error().text,
            "/etc/weir/weir.yaml:3:5: unknown key 'pth' in 'grps.routes', did you mean 'path'?\n"
            "/etc/weir/weir.yaml:3:5: inputs: expected query:KEY, header:KEY, path:KEY, body:/POINTER, form:KEY or "
            "body, or one of them behind base64:, got 'cookie:b'");
  EXPECT_EQ(from_text("grps:\n  routes:\n  - path: /a/{x}\n    inputs: {a: body}\n  - path: /a/{y}\n"
                      "    inputs: {b: body}\n")
                .error()
                .text,
            "/etc/weir/weir.yaml:5:5: grps.routes: POST /a/{y} is there already");
  EXPECT_EQ(from_text("grps:\n  routes:\n  - path: /a/{x}\n    inputs: {a: body}\n  - path: /a/{y}\n"
                      "    method: PUT\n    inputs: {b: body}\n")
                .error()
                .text,
            "/etc/weir/weir.yaml:5:5: grps.routes: /a/{y} names its places otherwise than /a/{x}");
  std::string shown = show(*config);
  EXPECT_NE(shown.find("  routes:\n    - path: /classify\n      method: POST\n      model: digits\n      inputs:\n"
                       "        image: \"body:/pixels\"\n      outputs:\n        /scores: p\n      status: 201\n"
                       "      streaming: \"query_param:s\"\n"),
            std::string::npos)
      << shown;
}

TEST(Config, RoutesMayHaveErrorsOfTheirOwn) {
  auto config = from_text(
      "grps:\n  streaming: body_param:stream\n  routes:\n  - path: /classify\n    inputs: {image: base64:form:i}\n"
      "    error_status: 422\n    error_body: 'no: {message}'\n    error_content_type: text/x\n");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_NE(show(*config).find("streaming: \"body_param:stream\""), std::string::npos) << show(*config);
  EXPECT_NE(show(*config).find("      error_status: 422\n      error_body: \"no: {message}\"\n"
                               "      error_content_type: text/x\n"),
            std::string::npos)
      << show(*config);
  EXPECT_EQ(from_text("grps:\n  routes:\n  - path: /x\n    inputs: {a: body}\n    error_status: 600\n    status: x\n")
                .error()
                .text.substr(0, 43),
            "/etc/weir/weir.yaml:5:19: error_status: exp");
  EXPECT_NE(from_text("grps:\n  streaming: cookie:x\n").error().text.find("expected query_param:KEY"),
            std::string::npos);
}

TEST(UnknownVariables, AreNamedWithTheNearestOne) {
  auto of = [](const char* entry) {
    const char* const environment[] = {"PATH=/bin", entry, nullptr};
    const auto lines = unknown_variables(environment);
    return lines.empty() ? std::string() : lines.at(0);
  };
  EXPECT_EQ(of("WEIR_AUTH_KEYS_FILE=/k"), "");
  EXPECT_EQ(of("WEIR_AUTH_KEYFILE=/k"), "WEIR_AUTH_KEYFILE is no setting, did you mean WEIR_AUTH_KEYS_FILE?");
  EXPECT_EQ(of("WEIR_SOMETHING_ELSE_ALTOGETHER=2"), "WEIR_SOMETHING_ELSE_ALTOGETHER is no setting");
  EXPECT_EQ(of("WEIR_AUTH_CERTIFICATES={}"), "WEIR_AUTH_CERTIFICATES: auth.certificates can be set in the file only");
  for (const char* other : {"WEIR_CONFIG=weir.yaml", "WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT_GRPC=1",
                            "WEIR_PORT=tcp://10.0.0.1:8080", "WEIR_GPU_PORT_8080_TCP_ADDR=10.0.0.1", "WEIRD=1"})
    EXPECT_EQ(of(other), "") << other;
}

}  // namespace
}  // namespace weir::app
