// Rules for the values of single settings.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/config.h"

namespace weir::app {
namespace {

// The configuration that a line of the file gives; or what is wrong with it.
struct Read {
  explicit Read(const std::string& line) : error(read_file_text(line + "\n", "/etc/weir/weir.yaml", config).text) {}
  bool says(const std::string& part) const { return error.find(part) != std::string::npos; }

  Config config;
  std::string error;
};

TEST(Settings, AddressesHaveAHostAndAPort) {
  for (const char* key : {"listen: ", "admin.listen: ", "cluster.listen: "}) {
    const std::string section = key, name = section.substr(0, section.find('.'));
    auto read = [&](const std::string& value) {
      return Read(name == section ? section + value : name + ": {listen: " + value + "}");
    };
    for (const char* good : {"127.0.0.1:8080", "\"[::1]:0\"", "\"*:80\"", "localhost:65535", "unix:/a"})
      EXPECT_EQ(read(good).error, "") << key << good;
    for (const char* bad : {"8080", "localhost", "\"http://0.0.0.0:80\"", "\"unix:\"", "127.0.0.1:99999", "\"::1\""})
      EXPECT_NE(read(bad).error, "") << key << bad;
  }
}

TEST(Settings, OriginsAreWrittenAsBrowsersDo) {
  const Read good(
      "cors: {origins: [\"*\", \"HTTPS://C.example\", \"https://d.example:443\", \"http://[::1]:8080\", "
      "\"http://e.example:80\", \"https://f.example:80\", \"app://local\", \"null\"]}");
  EXPECT_EQ(good.error, "");
  EXPECT_EQ(good.config.cors_origins,
            (std::vector<std::string>{"*", "https://c.example", "https://d.example", "http://[::1]:8080",
                                      "http://e.example", "https://f.example:80", "app://local", "null"}));
  for (const char* bad : {"example.com", "https://b.example/", "https://b.example/x", "https://", "://b.example",
                          "https://*.example", "https://u@b.example", "https://b.example:0", "https://b.example:x",
                          "https://b.example:", "https://b.example:65536", "https://:80", "https://b example", ""})
    EXPECT_TRUE(Read("cors: {origins: [\"" + std::string(bad) + "\"]}").says("expected * or an origin like")) << bad;
}

TEST(Settings, PathsOfEndpointsAreNoneOfWeirsOwn) {
  for (const char* good :
       {"console: {path: /console}", "console: {path: /weir/console}", "graphpipe: {prefix: /models}",
        "graphpipe: {prefix: /graphpipe/v1}", "openai: {prefixes: [/v1, /v3, /openai/v1, /llm/v1]}",
        "openai: {prefixes: [/api/v1]}", "console: {path: /metrics2}"})
    EXPECT_EQ(Read(good).error, "") << good;
  for (const char* bad :
       {"console: {path: /metrics}", "console: {path: /v2/console}", "console: {path: /graphpipe}",
        "openai: {prefixes: [/v1, /v2]}", "openai: {prefixes: [/grps/v1]}", "graphpipe: {prefix: /v1}",
        "graphpipe: {prefix: /console}", "graphpipe: {prefix: /grpc.health.v1.Health}"})
    EXPECT_TRUE(Read(bad).says("is weir's own")) << bad << Read(bad).error;
}

TEST(Settings, QuantilesAreSharesAndEachIsThereOnce) {
  EXPECT_EQ(Read("metrics: {quantiles: [0, 0.5, \"0.999\", 1]}").error, "");
  for (const char* bad : {"1.5", "-0.5", "p99", "0.5x", "nan"})
    EXPECT_TRUE(Read("metrics: {quantiles: [\"" + std::string(bad) + "\"]}").says("expected numbers from 0 to 1"))
        << bad;
  EXPECT_TRUE(Read("metrics: {quantiles: [0.5, 0.9, 0.5]}").says("'0.5' is there more than once"));
}

TEST(Settings, SwitchesAreNoNamesOfLogs) {
  for (const char* word : {"on", "true", "\"yes\"", "stdout", "True", "none"}) {
    for (const char* key : {"access_log: ", "audit_log: "})
      EXPECT_TRUE(Read(key + std::string(word)).says("expected off, - or a file, got '")) << key << word;
    EXPECT_TRUE(Read("jobs: {path: " + std::string(word) + "}").says("expected off or a folder, got '")) << word;
  }
  EXPECT_EQ(Read("access_log: log/on").config.access_log, "/etc/weir/log/on");
  EXPECT_EQ(Read("access_log: /dev/stdout").config.access_log, "/dev/stdout");
  EXPECT_EQ(Read("access_log: \"-\"").config.access_log, "-");
  EXPECT_EQ(Read("audit_log: off").config.audit_log, "off");
}

}  // namespace
}  // namespace weir::app
