#include "auth/key_file_edit.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "auth/key_file.h"
#include "models/yaml.h"

namespace weir::auth {
namespace {

const std::string kSomeHash = "sha256:" + std::string(64, 'a');

base::Yaml parsed(const std::string& text) { return models::parse_yaml(text, "f").value(); }
NewKey named(const std::string& name, char digit = 'a') {
  NewKey key;
  key.name = name, key.hash = "sha256:" + std::string(64, digit);
  return key;
}
std::string added(const std::string& text, const NewKey& key) {
  auto out = add_key(text, parsed(text), key);
  return out ? *out : "error: " + out.error().text;
}
std::string removed(const std::string& text, const char* name) {
  auto out = remove_key(text, parsed(text), name);
  return out ? *out : "error: " + out.error().text;
}
std::vector<std::string> names(const std::string& text) {
  auto keys = read_keys(parsed(text), "f");
  EXPECT_TRUE(keys) << keys.error().text << text;
  std::vector<std::string> out;
  if (keys)
    for (const auto& key : *keys) out.push_back(key.grant.name);
  return out;
}
using Names = std::vector<std::string>;

TEST(NewKeys, HaveAFormThatScannersKnow) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    std::string key = make_key();
    EXPECT_TRUE(std::regex_match(key, std::regex("weir_[0-9A-Za-z]{49}"))) << key;
    EXPECT_TRUE(is_key(key));
    EXPECT_TRUE(seen.insert(key).second);
    for (size_t at : {size_t(0), size_t(7), size_t(40), key.size() - 1}) {
      std::string slip = key;
      slip[at] = slip[at] == 'x' ? 'y' : 'x';
      EXPECT_FALSE(is_key(slip)) << slip;
    }
  }
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key("weir_" + std::string(49, '-')));
}

TEST(KeyFileEdit, AFileGrowsFromNothing) {
  NewKey key = named("ci");
  key.tenant = "build", key.roles = {"infer", "metrics"}, key.models = {"chat*", "embed"};
  key.expires = base::WallTime(std::chrono::seconds(1'700'000'000));
  const std::string one = added("", key);
  EXPECT_EQ(one, "keys:\n  - name: ci\n    hash: \"" + kSomeHash +
                     "\"\n    tenant: build\n    roles: [infer, metrics]\n    models: [\"chat*\", embed]\n    expires: "
                     "\"2023-11-14T22:13:20Z\"\n");
  auto keys = read_keys(parsed(one), "f");
  ASSERT_TRUE(keys);
  EXPECT_EQ((*keys)[0].grant.expires, *key.expires);
  const std::string two = added(one, named("b", 'b'));
  EXPECT_EQ(names(two), (Names{"ci", "b"}));
  EXPECT_TRUE(two.starts_with(one));
  EXPECT_EQ(added(two, named("ci", 'c')), "error: there is a key with the name 'ci' already");
}

TEST(KeyFileEdit, CommentsAndEverythingElseStay) {
  const std::string text = "# our keys\nkeys:\n# of Alice\n- name: alice   # she\n  hash: \"" + kSomeHash +
                           "\"\n\n# of Bob,\n# who left\n- name: bob\n  hash: \"sha256:" + std::string(64, 'b') +
                           "\"\n\n# the end\n";
  const std::string more = added(text, named("carol", 'c'));
  EXPECT_EQ(names(more), (Names{"alice", "bob", "carol"}));
  EXPECT_TRUE(more.ends_with("\"\n- name: carol\n  hash: \"sha256:" + std::string(64, 'c') + "\"\n\n# the end\n"))
      << more;
  const std::string less = removed(text, "alice");
  EXPECT_EQ(less, "# our keys\nkeys:\n# of Alice\n\n# of Bob,\n# who left\n- name: bob\n  hash: \"sha256:" +
                      std::string(64, 'b') + "\"\n\n# the end\n");
  EXPECT_EQ(names(removed(more, "bob")), (Names{"alice", "carol"}));
  EXPECT_EQ(removed(text, "eve"), "error: there is no key with the name 'eve'");
}

TEST(KeyFileEdit, TheLastKeyLeavesAListThatIsEmpty) {
  const std::string one = added("# c\n", named("a"));
  const std::string none = removed(one, "a");
  EXPECT_EQ(none, "# c\nkeys: []\n");
  EXPECT_EQ(names(none), Names{});
  EXPECT_EQ(names(added(none, named("b"))), Names{"b"});
  EXPECT_EQ(names(added("keys:\n", named("b"))), Names{"b"});
  EXPECT_EQ(names(added("keys:  # ours\n", named("b"))), Names{"b"});
}

TEST(KeyFileEdit, WhatCannotBeEditedIsLeftAlone) {
  for (const std::string& text :
       {"keys: [{name: a, hash: \"" + kSomeHash + "\"}]\n", "{keys: [{name: a, hash: \"" + kSomeHash + "\"}]}\n",
        "keys:\n  -\n    name: a\n    hash: \"" + kSomeHash + "\"\n"}) {
    EXPECT_TRUE(added(text, named("b", 'b')).starts_with("error: the file of keys cannot be edited")) << text;
    EXPECT_TRUE(removed(text, "a").starts_with("error: the file of keys cannot be edited")) << text;
  }
}

}  // namespace
}  // namespace weir::auth
