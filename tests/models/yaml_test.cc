#include "models/yaml.h"

#include <gtest/gtest.h>

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

TEST(Yaml, AliasesCannotMakeAShortDocumentHuge) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) text += ", " + before;
    text += "]\n";
  }
  auto tree = parse_yaml(text, "f");
  ASSERT_FALSE(tree);
  EXPECT_NE(tree.error().text.find("too many nodes"), std::string::npos);
}

TEST(Yaml, DeepNestingIsAnErrorAndNoCrash) { EXPECT_FALSE(parse_yaml(std::string(100000, '['), "f")); }

TEST(Yaml, ASecondDocumentIsAnError) { EXPECT_FALSE(parse_yaml("a: 1\n---\nb: 2\n", "f")); }

TEST(Complaints, AnUnknownKeyComesWithTheNearestOne) {
  Complaints complaints("weir.yaml");
  Yaml::Entry entry{"bodi", 3, 5, {}};
  complaints.unknown_key(entry, "limits", {"body", "message"});
  EXPECT_EQ(complaints.lines().at(0), "weir.yaml:3:5: unknown key 'bodi' in 'limits', did you mean 'body'?");
}

}  // namespace
}  // namespace weir::models
