#include "text/grammar_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/processor.h"
#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

using msg::StructuredOutput;
using Kind = StructuredOutput::Kind;

std::shared_ptr<const Processor> processor(const std::vector<std::string>& specials, std::string_view chat_template) {
  tokenizers::Json file = tokenizers::byte_level_file({});
  uint32_t id = 300;
  for (const auto& content : specials)
    file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", true}});
  auto out = make_processor(file.dump(), {}, chat_template);
  EXPECT_TRUE(out) << out.error().text;
  return *out;
}

StructuredOutput form(Kind kind, std::string text) {
  StructuredOutput out;
  out.kind = kind, out.text = std::move(text), out.param = "response_format";
  return out;
}

constexpr uint32_t kEnd = 300;

// A text that the form allows, token by token and by chance; "FAILED" where it comes to no end.
std::string any_text(const Processor& p, const StructuredOutput& form, uint32_t seed) {
  auto grammar = p.compile(form, nullptr);
  EXPECT_TRUE(grammar) << grammar.error().text;
  if (!grammar) return "FAILED";
  const uint32_t ends[] = {kEnd};
  auto constraint = (*grammar)->start(ends);
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    auto mask = constraint->mask();
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < 32 * mask.size(); ++id)
      if (msg::allows(mask, id)) ids.push_back(id);
    if (ids.empty()) return "FAILED";
    const uint32_t id = msg::allows(mask, kEnd) ? kEnd : ids[random() % ids.size()];
    if (id == kEnd) return text;
    if (!constraint->accept(id)) return "FAILED";
    text += p.special(id) ? p.piece(id) : p.bytes(id);
    if (constraint->complete()) return text;
  }
  return "FAILED";
}

TEST(GrammarCache, TextsHaveTheFormThatIsAskedFor) {
  auto p = processor({"<|im_end|>"}, "{{ messages }}");
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const auto number = any_text(*p, form(Kind::kJsonSchema, R"({"type":"integer","minimum":5,"maximum":17})"), seed);
    EXPECT_GE(std::stoi(number), 5);
    EXPECT_LE(std::stoi(number), 17);
    EXPECT_EQ(any_text(*p, form(Kind::kRegex, "[ab]{3}"), seed).size(), 3u);
    EXPECT_EQ(any_text(*p, form(Kind::kGrammar, "root ::= \"x\"{4}"), seed), "xxxx");
    StructuredOutput choice = form(Kind::kChoice, "");
    choice.choices = {"red", "green"};
    const auto chosen = any_text(*p, choice, seed);
    EXPECT_TRUE(chosen == "red" || chosen == "green") << chosen;
  }
}

TEST(GrammarCache, ASpecialTokenIsNoTextOfAForm) {
  auto p = processor({"<|im_end|>", "<tool_call>", "</tool_call>"}, "<tool_call>");
  auto grammar = p->compile(form(Kind::kRegex, ".*"), nullptr);
  ASSERT_TRUE(grammar);
  const uint32_t ends[] = {kEnd};
  auto constraint = (*grammar)->start(ends);
  EXPECT_TRUE(msg::allows(constraint->mask(), kEnd));
  EXPECT_FALSE(msg::allows(constraint->mask(), kEnd + 1));
  EXPECT_TRUE(constraint->accept('a'));
}

TEST(GrammarCache, CallsOfToolsAreWrittenWithTheModelsOwnTokens) {
  const std::string tools = R"({"tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1,2]}},)"
                            R"("required":["a"],"additionalProperties":false}}],"parallel":false})";
  struct Case {
    std::string chat_template, begin, end;
    std::vector<std::string> specials = {};
  };
  const Case cases[] = {
      {"<tool_call>", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":", "}}\n</tool_call>", {"<tool_call>"}},
      {"<tool_call>", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":", "}}\n</tool_call>"},
      {"<|python_tag|>", "{\"name\": \"f\", \"parameters\": {\"a\":", "}}"},
      {"[TOOL_CALLS]", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\":", "}}]", {"[TOOL_CALLS]"}},
      {"[TOOL_CALLS][ARGS]", "[TOOL_CALLS]f[ARGS]{\"a\":", "}"},
      {"<｜tool▁calls▁begin｜>```json",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":",
       "}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"<｜tool▁sep｜>", "<｜tool▁calls▁end｜>"}},
      {"functools", "functools[{\"name\": \"f\", \"arguments\": {\"a\":", "}}]"},
      {">>>all", "f\n{\"a\":", "}"},
      {"<function=", "<function=f>{\"a\":", "}</function>"},
      {"<|channel|><|message|>",
       "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":",
       "}",
       {"<|channel|>"}},
      {"func_name1(", "{\"name\": \"f\", \"parameters\": {\"a\":", "}}"},
  };
  for (const Case& c : cases) {
    auto specials = c.specials;
    specials.insert(specials.begin(), "<|im_end|>");
    auto p = processor(specials, c.chat_template);
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const auto text = any_text(*p, form(Kind::kToolCalls, tools), seed);
      EXPECT_TRUE(text.starts_with(c.begin)) << c.chat_template << ": " << text;
      EXPECT_TRUE(text.ends_with(c.end)) << c.chat_template << ": " << text;
    }
  }
}

TEST(GrammarCache, AnAnswerIsACallOrJsonOfItsOwnSchema) {
  const std::string either =
      R"({"tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"],)"
      R"("additionalProperties":false}}],"parallel":false,"otherwise":{"type":"object","properties":{"z":{"enum":[7]}},)"
      R"("required":["z"],"additionalProperties":false}})";
  struct Case {
    std::string chat_template, call, json;
  };
  for (const Case& c :
       {Case{"<tool_call>", "<tool_call>\n{\"name\": \"f\"", "{\"z\":"},
        Case{"<|python_tag|>", "{\"name\": \"f\"", "{\"z\":"}, Case{">>>all", "f\n{\"a\":", "all\n{\"z\":"},
        Case{"<|channel|><|message|>", "<|channel|>commentary to=functions.f", "<|channel|>final<|message|>{\"z\":"}}) {
    auto p = processor({"<|im_end|>"}, c.chat_template);
    bool called = false, spoke = false;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const auto text = any_text(*p, form(Kind::kToolCalls, either), seed);
      called = called || text.starts_with(c.call), spoke = spoke || text.starts_with(c.json);
      EXPECT_TRUE(text.starts_with(c.call) || text.starts_with(c.json)) << c.chat_template << ": " << text;
    }
    EXPECT_TRUE(called && spoke) << c.chat_template;
  }
  auto p = processor({}, "<tool_call>");
  const std::string wrong = R"({"tools":[{"name":"f","parameters":{}}],"strict":true,"otherwise":{"not":{}}})";
  auto refused = p->compile(form(Kind::kToolCalls, wrong), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("the schema of the answer"), std::string::npos) << refused.error().text;
}

TEST(GrammarCache, ASchemaThatCannotBeHeldToIsRefusedByItsPlace) {
  auto p = processor({}, "<tool_call>");
  auto why = [&](const StructuredOutput& f) {
    auto out = p->compile(f, nullptr);
    return out ? "" : out.error().text;
  };
  EXPECT_EQ(why(form(Kind::kJsonSchema, R"({"properties":{"a":{"not":{}}}})")),
            "response_format: /properties/a: 'not' is not supported");
  EXPECT_EQ(why(form(Kind::kToolCalls, R"({"tools":[{"name":"f","strict":true,"parameters":{"if":{}}}]})")),
            "response_format: the parameters of 'f': the schema: 'if' is not supported");
  StructuredOutput guide = form(Kind::kJsonSchema, R"({"properties":{"a":{"not":{}}}})");
  guide.schema = StructuredOutput::Schema::kGuide;
  EXPECT_EQ(why(guide), "") << "it is no more than a guide";
  EXPECT_EQ(why(form(Kind::kJsonSchema, guide.text)), "response_format: /properties/a: 'not' is not supported");
  EXPECT_EQ(why(form(Kind::kToolCalls, R"({"tools":[{"name":"f","parameters":{"if":{}}}],"otherwise":{"not":{}}})")),
            "");
  std::atomic<bool> cancelled = true;
  auto out = p->compile(form(Kind::kRegex, "a{1,9}"), &cancelled);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, base::Code::kCancelled);
}

TEST(GrammarCache, WhatIsCompiledIsFoundUntilOthersTakeItsPlace) {
  auto p = processor({}, "");
  const StructuredOutput first = form(Kind::kRegex, "a");
  EXPECT_EQ(p->find_compiled(first), nullptr);
  auto compiled = p->compile(first, nullptr);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(p->find_compiled(first), *compiled);
  StructuredOutput thinking = first;
  thinking.thoughts = StructuredOutput::Thoughts::kBegun;
  EXPECT_EQ(p->find_compiled(thinking), nullptr);
  for (size_t i = 0; i < GrammarCache::kMostGrammars; ++i)
    ASSERT_TRUE(p->compile(form(Kind::kRegex, "b" + std::to_string(i)), nullptr));
  EXPECT_EQ(p->find_compiled(first), nullptr);
  EXPECT_FALSE((*compiled)->start({})->mask().empty());
}

TEST(GrammarCache, ThoughtsMayComeBeforeAForm) {
  auto p = processor({"<|im_end|>", "</think>"}, "<think></think>");
  EXPECT_TRUE(p->format.thinks);
  StructuredOutput wanted = form(Kind::kJsonSchema, R"({"const":7})");
  wanted.thoughts = StructuredOutput::Thoughts::kMayCome;
  auto grammar = p->compile(wanted, nullptr);
  ASSERT_TRUE(grammar) << grammar.error().text;
  for (std::string text : {"7", "<think>a < b"}) {
    auto constraint = (*grammar)->start({});
    for (char c : text) ASSERT_TRUE(constraint->accept(uint8_t(c))) << text;
    if (text == "7") continue;
    EXPECT_FALSE(constraint->accept('7') && constraint->complete());
    ASSERT_TRUE(msg::allows(constraint->mask(), kEnd + 1));
    ASSERT_TRUE(constraint->accept(kEnd + 1));
    ASSERT_TRUE(constraint->accept('7'));
    EXPECT_TRUE(constraint->complete());
  }
}

}  // namespace
}  // namespace weir::text
