#include "models/yaml.h"

#include <gtest/gtest.h>

#include <functional>

#include "support/cpu_time.h"

namespace weir::models {
namespace {

TEST(Yaml, EveryNodeKnowsItsPlace) {
  auto tree = parse_yaml("limits:\n  body: 64MiB\nlisten:\n  - a\n  - b\n", "weir.yaml");
  ASSERT_TRUE(tree);
  const Yaml* body = tree->find("limits")->find("body");
  EXPECT_EQ(body->scalar, "64MiB");
  EXPECT_EQ(body->line, 2u);
  EXPECT_EQ(body->column, 9u);
  EXPECT_EQ(tree->find("listen")->items.at(1).line, 5u);
}

TEST(Yaml, AnEmptyDocumentIsNull) {
  EXPECT_EQ(parse_yaml("", "f")->kind, Yaml::Kind::kNull);
  EXPECT_EQ(parse_yaml("# only a comment\n", "f")->kind, Yaml::Kind::kNull);
}

TEST(Yaml, ABrokenDocumentIsNamedWithItsPlace) {
  auto tree = parse_yaml("a: [1, 2\nb: 3\n", "weir.yaml");
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().text.find("weir.yaml:2:"), 0u) << tree.error().text;
}

TEST(Yaml, ARepeatedKeyIsAnError) {
  auto tree = parse_yaml("a: 1\nb: 2\na: 3\n", "f");
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().text, "f:3:1: key 'a' is given twice");
}

std::string error_of(const std::string& text) {
  auto tree = parse_yaml(text, "m/model.yaml");
  return tree ? "" : tree.error().text;
}

constexpr const char* kNoSharing =
    "anchors (&name) and aliases (*name) are not read: write the value out where it is used";

TEST(Yaml, ANodeThatContainsItselfIsRefused) {
  EXPECT_EQ(error_of("parameters: &a {b: *a}\n"), std::string("m/model.yaml:1:13: ") + kNoSharing);
  EXPECT_EQ(error_of("x: 1\ny: &a [*a]\n"), std::string("m/model.yaml:2:4: ") + kNoSharing);
}

TEST(Yaml, AnchorsAndAliasesAreRefusedWhereTheyStand) {
  EXPECT_EQ(error_of("a: &x 1\nb: *x\n"), std::string("m/model.yaml:1:4: ") + kNoSharing);
  EXPECT_EQ(error_of("&x a: 1\n"), std::string("m/model.yaml:1:1: ") + kNoSharing);
  EXPECT_EQ(error_of("a: &x\n"), std::string("m/model.yaml:1:4: ") + kNoSharing);
  EXPECT_EQ(error_of("a: 1\nb:\n  - *x\n").find("m/model.yaml:3:5: "), 0u) << "of nothing";
}

// n lists, or maps, one inside the other.
std::string nested(size_t n, bool maps) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += maps ? "{a: " : "[";
  return out + "x" + std::string(n, maps ? '}' : ']');
}

TEST(Yaml, NestingHasALimit) {
  for (bool maps : {false, true}) {
    EXPECT_EQ(error_of(nested(kMaxYamlDepth, maps)), "");
    EXPECT_EQ(error_of(nested(kMaxYamlDepth + 1, maps)),
              "m/model.yaml:1:" + std::to_string((maps ? 4 : 1) * kMaxYamlDepth + 1) +
                  ": lists and maps are nested deeper than 64 levels");
  }
  EXPECT_NE(error_of(std::string(100000, '[')), "");
  EXPECT_NE(error_of(nested(100000, true)), "");
}

std::string lines(size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += "k" + std::to_string(i) + ": 1\n";
  return out;
}

TEST(Yaml, KeysAndValuesAreCounted) {
  constexpr size_t kFit = (kMaxYamlNodes - 2) / 2;  // the map is one
  EXPECT_EQ(parse_yaml(lines(kFit), "f")->entries.size(), kFit);
  EXPECT_NE(error_of(lines(kFit + 1)).find(": the document has more than 100000 keys and values"), std::string::npos);
  std::string list = "[";
  for (size_t i = 0; i + 1 < kMaxYamlNodes; ++i) list += "1,";
  EXPECT_EQ(parse_yaml(list + "]", "f")->items.size(), kMaxYamlNodes - 1);
  EXPECT_NE(error_of(list + "1]").find("more than 100000 keys and values"), std::string::npos);
}

TEST(Yaml, BytesAreCounted) {
  std::string text = "a: 1 #" + std::string(kMaxYamlBytes - 7, 'x') + "\n";
  ASSERT_EQ(text.size(), kMaxYamlBytes);
  EXPECT_EQ(error_of(text), "");
  EXPECT_EQ(error_of(text + "\n"), "m/model.yaml: longer than 1 MiB");
}

TEST(Yaml, WhoeverReadsALongDocumentSaysHowLong) {
  const std::string many = lines(kMaxYamlNodes / 2), text = many + "#" + std::string(kMaxYamlBytes, 'x') + "\n";
  EXPECT_FALSE(parse_yaml(text, "f", {.bytes = kMaxYamlBytes, .nodes = kMaxYamlNodes + 10}));
  EXPECT_FALSE(parse_yaml(text, "f", {.bytes = 3 << 20, .nodes = kMaxYamlNodes}));
  const YamlBounds both{.bytes = 3 << 20, .nodes = kMaxYamlNodes + 10};
  EXPECT_EQ(parse_yaml(text, "f", both)->entries.size(), kMaxYamlNodes / 2);
  EXPECT_EQ(parse_yaml(std::string((3 << 20) + 1, '#'), "f", both).error().text, "f: longer than 3 MiB");
}

TEST(Yaml, TimeIsLinearInTheDocument) {
  std::pair<const char*, std::function<std::string(size_t)>> shapes[] = {
      {"keys", [](size_t n) { return lines(n); }},
      {"the same key",
       [](size_t n) {
         std::string out;
         for (size_t i = 0; i < n; ++i) out += "k: 1\n";
         return out;
       }},
      {"keys of a flow map",
       [](size_t n) {
         std::string out = "{";
         for (size_t i = 0; i < n; ++i) out += "k" + std::to_string(i) + ": 1, ";
         return out + "}";
       }},
      {"a flow list",
       [](size_t n) {
         std::string out = "[";
         for (size_t i = 0; i < n; ++i) out += "1, ";
         return out + "]";
       }},
      {"a list",
       [](size_t n) {
         std::string out;
         for (size_t i = 0; i < n; ++i) out += "- 1\n";
         return out;
       }},
      {"a long text", [](size_t n) { return "a: " + std::string(8 * n, 'x') + "\n"; }},
      {"a quoted text",
       [](size_t n) {
         std::string out = "a: \"";
         for (size_t i = 0; i < n; ++i) out += "x \\n \n";
         return out + "\"\n";
       }},
      {"a text of many lines",
       [](size_t n) {
         std::string out = "a: |\n";
         for (size_t i = 0; i < n; ++i) out += "  xx\n\n";
         return out;
       }},
      {"comments", [](size_t n) {
         std::string out;
         for (size_t i = 0; i < n; ++i) out += "# xx\n\n";
         return out;
       }}};
  for (auto& [name, make] : shapes) {
    double grew = support::growth(5000, [&make = make](size_t n) { (void)parse_yaml(make(n), "f"); });
    EXPECT_LE(grew, 2.5) << name;
  }
}

TEST(Complaints, OfVeryManyTheFirstAreTold) {
  Complaints complaints("f");
  for (uint32_t i = 0; i < 100'000; ++i) complaints.unknown_key({"key", i, 1, {}}, "", {"other"});
  ASSERT_EQ(complaints.lines().size(), Complaints::kMaxComplaints + 1);
  EXPECT_EQ(complaints.lines().back(), "f: more mistakes follow, which are not shown");
}

TEST(Yaml, ASecondDocumentIsAnError) { EXPECT_FALSE(parse_yaml("a: 1\n---\nb: 2\n", "f")); }

TEST(Complaints, AnUnknownKeyComesWithTheNearestOne) {
  Complaints complaints("weir.yaml");
  Yaml::Member entry{"bodi", 3, 5, {}};
  complaints.unknown_key(entry, "limits", {"body", "message"});
  EXPECT_EQ(complaints.lines().at(0), "weir.yaml:3:5: unknown key 'bodi' in 'limits', did you mean 'body'?");
}

}  // namespace
}  // namespace weir::models
