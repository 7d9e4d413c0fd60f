#include "auth/key_file.h"

#include <gtest/gtest.h>

#include "models/yaml.h"

namespace weir::auth {
namespace {

base::Result<std::vector<Key>> read(const std::string& text) {
  auto tree = models::parse_yaml(text, "keys.yaml");
  if (!tree) return tree.error();
  return read_keys(*tree, "keys.yaml");
}
// The error of a file, or "".
std::string wrong(const std::string& text) {
  auto keys = read(text);
  return keys ? "" : keys.error().text;
}

const std::string kHash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";  // "secret"
std::string key(const std::string& more) { return "keys:\n  - {name: a, hash: \"" + kHash + "\"" + more + "}\n"; }

TEST(KeyFile, AKeyHasWhatTheFileSays) {
  auto keys = read(
      "keys:\n"
      "  - name: ci\n"
      "    hash: \"" +
      kHash +
      "\"\n"
      "    tenant: build\n"
      "    roles: [infer, metrics]\n"
      "    models: [\"chat*\", embed]\n"
      "    limits: {requests_per_second: 2.5, concurrent: 8, tokens_per_minute: 1000, bytes_per_minute: 64MiB}\n"
      "    expires: 2027-01-31T00:00:00Z\n");
  ASSERT_TRUE(keys) << keys.error().text;
  ASSERT_EQ(keys->size(), 1u);
  const Key& one = keys->front();
  EXPECT_EQ(one.digest, digest_of("secret"));
  EXPECT_EQ(one.grant.name, "ci");
  EXPECT_EQ(one.grant.tenant, "build");
  EXPECT_EQ(one.grant.roles, (wire::Roles{wire::Role::kInfer, wire::Role::kMetrics}));
  EXPECT_EQ(one.grant.models, (std::vector<std::string>{"chat*", "embed"}));
  EXPECT_EQ(one.grant.limits, (base::UsageLimits{2.5, 8, 1000, 64 << 20}));
  EXPECT_EQ(one.grant.expires, *parse_time("2027-01-31T00:00:00Z"));
  EXPECT_EQ(show_digest(one.digest), kHash);
}

TEST(KeyFile, WhatIsNotSaidIsTheLeast) {
  auto keys = read(key(""));
  ASSERT_TRUE(keys) << keys.error().text;
  const Grant& grant = keys->front().grant;
  EXPECT_EQ(grant.roles, wire::Roles{wire::Role::kInfer});
  EXPECT_FALSE(grant.models);
  EXPECT_TRUE(grant.limits.none());
  EXPECT_EQ(grant.expires, base::WallTime::max());
  EXPECT_TRUE(read("keys:\n") && read("keys: []\n"));
}

TEST(KeyFile, EveryMistakeHasItsPlace) {
  EXPECT_EQ(wrong("key: []\n"), "keys.yaml:1:1: unknown key 'key', did you mean 'keys'?");
  EXPECT_NE(wrong(key(", role: [infer]")).find("keys.yaml:2:"), std::string::npos);
  EXPECT_NE(wrong(key(", role: [infer]")).find("unknown key 'role'"), std::string::npos);
  EXPECT_NE(wrong(key(", limits: {rps: 1}")).find("unknown key 'rps'"), std::string::npos);
  for (const char* more :
       {", roles: infer", ", roles: [root]", ", models: chat", ", models: [\"\"]", ", models: [[]]", ", expires: soon",
        ", expires: 2027-02-30T00:00:00Z", ", limits: 5", ", limits: {concurrent: 0}", ", limits: {concurrent: -1}",
        ", limits: {requests_per_second: fast}", ", limits: {requests_per_second: 0}",
        ", limits: {requests_per_second: nan}", ", limits: {bytes_per_minute: x}", ", tenant: \"\"", ", tenant: [a]"})
    EXPECT_TRUE(wrong(key(more)).starts_with("keys.yaml:2:")) << more << ": " << wrong(key(more));
  EXPECT_NE(wrong("keys:\n  - {hash: \"" + kHash + "\"}\n").find("needs a name"), std::string::npos);
  EXPECT_NE(wrong("keys:\n  - {name: a}\n").find("needs a hash"), std::string::npos);
  EXPECT_NE(wrong(key("") + "  - {name: a, hash: \"sha256:" + std::string(64, '0') + "\"}\n")
                .find("another key with the name"),
            std::string::npos);
  EXPECT_NE(wrong(key("") + "  - {name: b, hash: \"" + kHash + "\"}\n").find("another key with this hash"),
            std::string::npos);
}

TEST(KeyFile, ASecretInTheWrongPlaceIsNotQuoted) {
  const std::string text = wrong("keys:\n  - {name: a, hash: sk-very-secret}\n  - {name: \"sk secret\"}\n");
  EXPECT_EQ(text.find("sk-very"), std::string::npos) << text;
  EXPECT_EQ(text.find("sk secret"), std::string::npos) << text;
}

TEST(KeyFile, TimesAreThoseOfRfc3339) {
  auto at = [](const char* text) {
    auto when = parse_time(text);
    return when ? std::chrono::duration_cast<std::chrono::seconds>(when->time_since_epoch()).count() : -1;
  };
  EXPECT_EQ(at("1970-01-02T00:00:00Z"), 86400);
  EXPECT_EQ(at("2000-03-01t12:30:15.25z"), 951913815);
  EXPECT_EQ(at("2000-03-01T14:30:15+02:00"), 951913815);
  EXPECT_EQ(at("2000-03-01T07:00:15-05:30"), 951913815);
  for (const char* bad :
       {"", "2000", "2000-03-01", "2000-03-01T12:30:15", "2000-03-01T12:30Z", "2000-13-01T00:00:00Z",
        "2000-03-32T00:00:00Z", "2000-03-01T24:00:00Z", "2000-03-01T00:60:00Z", "2000-03-01T00:00:00Zx",
        "2000-03-01T00:00:00+2:00", "9999-01-01T00:00:00Z", "20000301T000000Z", "-200-03-01T00:00:00Z"})
    EXPECT_EQ(at(bad), -1) << bad;
}

TEST(KeyFile, HashesHaveOneForm) {
  EXPECT_TRUE(parse_digest(kHash));
  EXPECT_FALSE(parse_digest(kHash + "0"));
  EXPECT_FALSE(parse_digest(kHash.substr(7)));
  EXPECT_FALSE(parse_digest("sha256:" + std::string(64, 'g')));
  EXPECT_FALSE(parse_digest("sha512:" + std::string(64, '0')));
}

}  // namespace
}  // namespace weir::auth
