// Masks over a vocabulary: they say of each token what taking its bytes says.
#include <atomic>
#include <memory>
#include <random>
#include <utility>

#include "fits.h"

namespace grammar {
namespace {

std::vector<std::string> some_tokens() {
  std::vector<std::string> out;
  for (int c = 1; c < 256; ++c) out.push_back(std::string(1, char(c)));
  for (auto text : {"{\"",        "\":",   "\": ",  "\",",  "\", \"", "\"}",      "\"}}",     "[1",           ", ",
                    "true",       "false", "null",  "name", "na",     "me\"",     "age",      "\"name\": \"", "é",
                    "\xc3\xa9\"", "\\\"",  "\\u00", "0000", "12",     "-1",       ".5",       "}]",           "}}",
                    "]}",         "\n",    "  ",    "ab",   "abc",    "aaaaaaaa", "\"aaaa\"", "x\"}"})
    out.push_back(text);
  out.push_back("");  // a special token
  return out;
}

void check_against_bytes(const Result<Grammar>& grammar, uint32_t seed, const char* what) {
  const auto tokens = some_tokens();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  auto shared = over(grammar, views);
  ASSERT_TRUE(shared) << what;
  if (seed % 2 == 1) {
    EXPECT_TRUE(shared->find_masks(20'000'000)) << what;
  }
  std::mt19937 random(seed);
  Matcher matcher(shared);
  std::string text;
  for (int step = 0; step < 30 && !matcher.complete(); ++step) {
    const auto next = allowed(matcher, uint32_t(tokens.size()));
    std::vector<bool> in_mask(tokens.size());
    for (uint32_t id : next) in_mask[id] = true;
    for (uint32_t id = 0; id < tokens.size(); ++id) {
      Matcher fresh(shared);
      const bool taken = (text.empty() || fresh.accept(text)) && !tokens[id].empty() && fresh.accept(tokens[id]);
      ASSERT_EQ(taken, in_mask[id]) << what << "\n" << text << " + " << tokens[id];
    }
    if (next.empty()) break;
    const uint32_t id = next[random() % next.size()];
    ASSERT_TRUE(matcher.accept_token(id));
    text += tokens[id];
  }
}

TEST(Matcher, MasksSayOfEachTokenWhatItsBytesSay) {
  const char* schemas[] = {
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"na":{"type":"boolean"}}})",
      R"({"type":"array","items":{"type":"string","maxLength":9,"minLength":5}})",
      R"({"type":"string","maxLength":7})",
      R"({"type":"object","additionalProperties":{"type":"string","maxLength":3},"maxProperties":60})",
      R"({"type":"object","additionalProperties":{"type":["number","null"]},"properties":{"ab":{"const":1}}})",
      R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"boolean"}]}}}})",
      "true"};
  for (auto schema : schemas)
    for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_json_schema(schema), seed, schema);
  const char* grammars[] = {R"(root ::= "a" root "b" | "ab" | [^x]{3,70} "!")",
                            "root ::= (a | b){2,90} \"x\"\na ::= \"a\"+ \nb ::= \"ab\" | \"c\"",
                            R"(root ::= ("a"? "b"? "c"?){0,70} "x" [a-z]{0,60})",
                            R"(root ::= ([^"] | "a\"b"){0,9} ("\"" | "\"a"))",
                            "root ::= \"a\" s s | \"\"\ns ::= \"a\" root | \"b\""};
  for (auto text : grammars)
    for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_gbnf(text), seed, text);
  for (uint32_t seed = 0; seed < 2; ++seed) check_against_bytes(read_regex("(a|ab)*(c|.{0,40}é)x?"), seed, "regex");
}

TEST(Matcher, MasksThatAreFoundAheadAreNotFoundAgain) {
  std::vector<std::string> tokens = some_tokens();
  for (int i = 0; i < 20'000; ++i) tokens.push_back("word" + std::to_string(i));
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  auto shared = over(read_json_schema(R"({"type":"array","items":{"type":"string","maxLength":300}})"), views);
  EXPECT_FALSE(shared->find_masks(1000));
  std::atomic<bool> cancelled{true};
  EXPECT_FALSE(shared->find_masks(100'000'000, &cancelled));
  ASSERT_TRUE(shared->find_masks(100'000'000));
  const size_t bytes = shared->bytes();
  Matcher matcher(shared);
  std::vector<uint32_t> words((tokens.size() + 31) / 32);
  for (char c : std::string("[\"abcdé\", \"") + std::string(300, 'x') + "\"]") {
    ASSERT_TRUE(matcher.mask(words));
    ASSERT_TRUE(matcher.accept({&c, 1}));
  }
  EXPECT_EQ(shared->bytes(), bytes);
}

TEST(Matcher, AutomatonsShareABudgetOfMasks) {
  const auto tokens = some_tokens();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  auto vocabulary = std::make_shared<Vocabulary>(views);
  auto budget = std::make_shared<MaskBudget>(6000);
  std::vector<std::unique_ptr<TokenAutomaton>> all;
  for (auto regex : {"a{1,60}x", "b{1,60}x", "(c|d){1,60}x", "e{1,60}x"}) {
    auto read = read_regex(regex);
    ASSERT_TRUE(read);
    auto automaton = Automaton::compile(*read);
    ASSERT_TRUE(automaton);
    all.push_back(std::make_unique<TokenAutomaton>(*automaton, vocabulary, budget));
    EXPECT_TRUE(all.back()->find_masks(1'000'000)) << regex;
    EXPECT_LE(budget->used(), 6000u);
  }
  EXPECT_GT(budget->used(), 0u);
  all.clear();
  EXPECT_EQ(budget->used(), 0u);
}

// Without that a client whose grammars have many masks makes the texts of all others find theirs for each token, until
// they have no steps left.
TEST(Matcher, AGrammarWithMostMasksMakesRoomForThoseOfOthers) {
  const auto tokens = some_tokens();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  auto vocabulary = std::make_shared<Vocabulary>(views);
  auto made = [&](const std::string& regex, const std::shared_ptr<MaskBudget>& budget) {
    auto automaton = Automaton::compile(*read_regex(regex));
    EXPECT_TRUE(automaton) << regex;
    auto out = std::make_unique<TokenAutomaton>(*automaton, vocabulary, budget);
    EXPECT_TRUE(out->find_masks(10'000'000));
    return out;
  };
  std::string many;
  for (int i = 0; i < 80; ++i) many += "[^x]a";
  auto large = std::make_shared<MaskBudget>(size_t(1) << 20);
  auto all = made(many, large);
  auto budget = std::make_shared<MaskBudget>(large->used());  // as much as that one needs
  auto greedy = made(many, budget);
  ASSERT_EQ(budget->used(), large->used());
  const std::string few = "(true|false|null){1,3}";
  auto small = made(few, budget);
  EXPECT_EQ(small->bytes(), made(few, large)->bytes()) << "some of its masks are not kept";
  EXPECT_LE(budget->used(), large->used());
}

TEST(MaskBudget, OneThatIsALittleLargerThanManyLosesItsMasksNoMoreOftenThanThey) {
  struct Kept final : MaskBudget::Holder {
    Kept(MaskBudget& from, size_t bytes) : budget(from), wanted(bytes) { budget.join(*this); }
    ~Kept() { budget.leave(*this); }
    size_t kept() const override { return bytes; }
    std::shared_ptr<const void> drop() override {
      budget.give(std::exchange(bytes, 0));
      ++drops;
      return nullptr;
    }
    MaskBudget& budget;
    size_t wanted, bytes = 0;
    int drops = 0;
  };
  MaskBudget budget(1000);
  Kept small(budget, 10), larger(budget, 110);
  std::vector<std::unique_ptr<Kept>> many;
  for (int i = 0; i < 10; ++i) many.push_back(std::make_unique<Kept>(budget, 95));
  std::vector<Kept*> all{&small, &larger};
  for (const auto& one : many) all.push_back(one.get());
  for (int round = 0; round < 50; ++round)
    for (Kept* one : all) {
      if (one->bytes > 0) continue;
      ASSERT_TRUE(budget.take_from_large(one->wanted));
      one->bytes = one->wanted;
    }
  int drops = 0;
  for (const auto& one : many) drops += one->drops;
  EXPECT_LE(larger.drops, drops / 10 * 2);
  EXPECT_EQ(small.drops, 0);
}

TEST(Matcher, ATextIsCompleteWhereNothingMayFollow) {
  auto shared = over(read_regex("ab?"));
  Matcher matcher(shared);
  EXPECT_FALSE(matcher.accepting());
  EXPECT_TRUE(matcher.accept("a"));
  EXPECT_TRUE(matcher.accepting());
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(matcher.accept("b"));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.accept("b"));
}

TEST(Matcher, ALongTextKeepsFewFrames) {
  auto shared = over(read_json_schema("true"));
  Matcher matcher(shared);
  ASSERT_TRUE(matcher.accept("["));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(matcher.accept(R"({"a":[1,"b"]},)"));
}

}  // namespace
}  // namespace grammar
