#include "text/answer_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::text {
namespace {

using Format = msg::ToolFormat;

struct Parsed {
  std::string content, reasoning, calls;  // calls: "name(arguments) …"
  bool operator==(const Parsed&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Parsed& p) {
  return out << "content '" << p.content << "' reasoning '" << p.reasoning << "' calls '" << p.calls << "'";
}

// In pushes of `size` bytes; 0: by chance.
Parsed parse(msg::AnswerFormat format, std::string_view text, size_t size, bool thinking = false) {
  std::mt19937 random(7);
  AnswerParser parser({format, thinking});
  AnswerPieces all;
  auto take = [&](AnswerPieces&& some) {
    all.content += some.content, all.reasoning += some.reasoning;
    for (auto& call : some.calls) all.calls.push_back(std::move(call));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = size > 0 ? size : 1 + random() % 9;
    AnswerPieces some;
    parser.push(text.substr(at, bytes), some);
    take(std::move(some));
    at += bytes;
  }
  AnswerPieces rest;
  parser.finish(rest);
  take(std::move(rest));
  Parsed out{all.content, all.reasoning, {}};
  uint32_t next = 0;
  for (const auto& call : all.calls) {
    if (!call.name.empty()) {
      EXPECT_EQ(call.index, next++);
      out.calls += (out.calls.empty() ? "" : ") ") + call.name + "(";
    }
    EXPECT_EQ(call.index + 1, next);
    out.calls += call.arguments;
  }
  if (!out.calls.empty()) out.calls += ")";
  EXPECT_EQ(parser.calls(), next);
  return out;
}

void check(msg::AnswerFormat format, std::string_view text, const Parsed& expected, bool thinking = false) {
  for (size_t size : {size_t(100'000), size_t(0), size_t(1), size_t(2), size_t(3), size_t(7)})
    EXPECT_EQ(parse(format, text, size, thinking), expected) << text << " by " << size;
}

TEST(AnswerParser, TextWithoutCallsIsText) {
  for (Format format : {Format::kNone, Format::kHermes, Format::kLlama, Format::kMistral, Format::kDeepSeek,
                        Format::kPhi, Format::kFunctionTags, Format::kHarmony, Format::kPythonic, Format::kFunctionary})
    for (auto text : {"Hello, world. ", " a <b> c\n\n d\n", "", "\n", "x < y <tool", "<", "[TOOL"}) {
      if (format == Format::kPythonic && text[0] == '[') continue;
      check({format}, text, {text, "", ""});
    }
}

TEST(AnswerParser, HermesCallsStandInTags) {
  const std::string one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}<\\\"\"]}}\n</tool_call>";
  check({Format::kHermes}, one, {"", "", "f({\"a\": [1, \"}<\\\"\"]})"});
  check({Format::kHermes}, "I call.\n" + one + "\n" + one + "\nDone. ",
        {"I call.Done.", "", "f({\"a\": [1, \"}<\\\"\"]}) f({\"a\": [1, \"}<\\\"\"]})"});
  check({Format::kHermes}, "<tool_call>{\"arguments\": {\"b\":1}, \"id\": 3, \"name\": \"g\"}</tool_call>",
        {"", "", "g({\"b\":1})"});
  check({Format::kHermes}, "<tool_call>{\"name\":\"g\"}</tool_call>", {"", "", "g({})"});
  check({Format::kHermes}, R"(<tool_call>{"name":"g","arguments":"{\"a\":1}"}</tool_call>)", {"", "", "g({\"a\":1})"});
  check({Format::kHermes}, R"(<tool_call>{"name":"g","arguments":null})", {"", "", "g({})"});
}

TEST(AnswerParser, ABrokenCallIsTextUntilItHasAName) {
  check({Format::kHermes}, "<tool_call>no", {"no", "", ""});
  check({Format::kHermes}, "<tool_call>{\"other\": 1}</tool_call>", {"{\"other\": 1}</tool_call>", "", ""});
  check({Format::kHermes}, "<tool_call>{\"name\": 1}", {"{\"name\": 1}", "", ""});
  check({Format::kHermes}, "<tool_call>{\"name\": 1, ", {"{\"name\": 1, ", "", ""});
  for (std::string no_value : {"{\"name\": ,", "{\"name\": }", "{\"other\":]", "{\"arguments\":, {}}"})
    check({Format::kLlama}, no_value, {no_value, "", ""});
  check({Format::kHermes}, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1", {"", "", "f({\"a\": [1)"});
}

TEST(AnswerParser, ACallThatEndsBeforeItsNameIsLeftOut) {
  for (std::string cut : {R"({)", R"({"nam)", R"({"name")", R"({"name": "get_w)", R"({"type": "function", "na)",
                          R"({"parameters": {"city": "Par)", R"({"parameters": {"city": "Paris"}, "name)"}) {
    check({Format::kLlama}, cut, {"", "", ""});
    check({Format::kHermes}, "I call. <tool_call>\n" + cut, {"I call.", "", ""});
  }
  for (std::string text : {R"({"answer": 4)", R"({"nami)", R"({"name": 4, "x)", R"({"names)"})
    check({Format::kLlama}, text, {text, "", ""});
}

TEST(AnswerParser, LlamaCallsAreTheWholeAnswer) {
  check({Format::kLlama}, "\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}",
        {"", "", "f({\"a\": 1}) g({})"});
  check({Format::kLlama}, "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}",
        {"", "", "f({})"});
  check({Format::kLlama}, "{\"answer\": 42}", {"{\"answer\": 42}", "", ""});
  check({Format::kLlama}, "It is {\"name\": \"f\"}", {"It is {\"name\": \"f\"}", "", ""});
}

TEST(AnswerParser, MistralCallsAreAListOrNamed) {
  check({Format::kMistral},
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"x\":1}}]",
        {"", "", "f({}) g({\"x\":1})"});
  check({Format::kMistral}, "Hi [TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g{\"b\": 2}",
        {"Hi", "", "f({\"a\": 1}) g({\"b\": 2})"});
  check({Format::kMistral}, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", {"", "", "f({})"});
}

TEST(AnswerParser, DeepSeekCallsHaveTheirOwnBrackets) {
  const std::string old = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>";
  check({Format::kDeepSeek}, "Sure. <｜tool▁calls▁begin｜>" + old + "\n" + old + "<｜tool▁calls▁end｜>",
        {"Sure.", "", "f({\"a\": 1}) f({\"a\": 1})"});
  check({Format::kDeepSeek},
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        {"", "", "g({})"});
}

TEST(AnswerParser, PhiFunctionaryAndFunctionTags) {
  check({Format::kPhi}, "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", {"", "", "f({\"a\": 1})"});
  check({Format::kPhi}, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", {"", "", "f({})"});
  check({Format::kFunctionary}, "all\nHello {you}.", {"Hello {you}.", "", ""});
  check({Format::kFunctionary}, "all\nI call.>>>f\n{\"a\": 1}\n>>>g\n{}", {"I call.", "", "f({\"a\": 1}) g({})"});
  check({Format::kFunctionary}, "f\n{}", {"", "", "f({})"});
  check({Format::kFunctionTags}, "<function=f>{\"a\": 1}</function>\n<function=g>{}</function>",
        {"", "", "f({\"a\": 1}) g({})"});
}

TEST(AnswerParser, HarmonyHasChannels) {
  check({Format::kHarmony, true},
        "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
        {"", "I think.", "f({\"a\": 1})"});
  check({Format::kHarmony, true},
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hello <b>",
        {"Hello <b>", "Hm", ""});
  check({Format::kHarmony, true}, "<|start|>assistant to=functions.g<|channel|>commentary<|message|>", {"", "", "g()"});
}

TEST(AnswerParser, PythonicCallsBecomeJson) {
  check({Format::kPythonic}, "[f(a=1, b='x\\'y', c=[True, None, (1, 2)], d={'k': -1.5}), g()]",
        {"", "", R"(f({"a":1,"b":"x'y","c":[true,null,[1,2]],"d":{"k":-1.5}}) g({}))"});
  check({Format::kPythonic}, "<|python_start|>[f(a=\"]\")]<|python_end|>", {"", "", "f({\"a\":\"]\"})"});
  check({Format::kPythonic}, "[1, 2]", {"[1, 2]", "", ""});
  check({Format::kPythonic}, "[f(a=", {"[f(a=", "", ""});
  check({Format::kPythonic}, "{\"name\": \"f\", \"parameters\": {}}", {"", "", "f({})"});
  check({Format::kPythonic}, "{ x", {"{ x", "", ""});  // the space behind the brace is part of the text
}

TEST(AnswerParser, ThoughtsComeBeforeTheAnswer) {
  const msg::AnswerFormat format{Format::kHermes, true};
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  check(format, "<think>\nI must < think.\n</think>\n\nIt is 4.", {"It is 4.", "I must < think.", ""});
  check(format, "I must.\n</think>\n" + call, {"", "I must.", "f({})"}, true);
  check(format, "It is 4.", {"It is 4.", "", ""});
  check(format, "<think>never", {"", "never", ""});
  check({Format::kNone, false}, "<think>x</think>", {"<think>x</think>", "", ""});
}

TEST(AnswerParser, HostileAnswersAreReadInLinearTimeAndBoundedMemory) {
  const std::string deep(200'000, '['), open(200'000, '{'), quotes(200'000, '"');
  for (Format format : {Format::kHermes, Format::kLlama, Format::kMistral, Format::kDeepSeek, Format::kPhi,
                        Format::kFunctionary, Format::kFunctionTags, Format::kHarmony, Format::kPythonic})
    for (const std::string& head :
         {std::string("<tool_call>{\"name\":\"f\",\"arguments\":"), std::string("{\"a\":"), std::string("[TOOL_CALLS]"),
          std::string("functools["), std::string("f\n"), std::string("<|channel|>"), std::string("[f(a=")})
      for (const std::string& tail : {deep, open, quotes, std::string(200'000, '<')}) {
        const Parsed whole = parse({format}, head + tail, 1'000'000);
        EXPECT_EQ(parse({format}, head + tail, 1000), whole);
        EXPECT_LE(whole.content.size() + whole.calls.size(), head.size() + tail.size() + 20);
      }
}

}  // namespace
}  // namespace weir::text
