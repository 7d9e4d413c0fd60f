// Members of JSON objects that are read by their type, the forms of completions among them, and files of models.
#include "marshal/field_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "marshal/generation_config.h"
#include "marshal/html.h"
#include "marshal/secrets.h"
#include "marshal/structured_params.h"

namespace weir::marshal {
namespace {

using Kind = msg::StructuredOutput::Kind;

// Reads one value by `read`; "" or the error.
std::string refusal(std::string_view text, const std::function<bool(FieldReader&)>& read) {
  JsonCursor json(text);
  FieldReader reader(json);
  if (read(reader) && json.finish()) return "";
  EXPECT_TRUE(reader.param().empty() || reader.param() == "x" || reader.param() == "response_format.type" ||
              reader.param() == "response_format.json_schema" || reader.param().find('_') != std::string::npos);
  return reader.error().text;
}

TEST(FieldReader, AFlagIsTrueOrFalse) {
  bool flag = false;
  auto read = [&](FieldReader& r) { return r.flag("x", flag); };
  EXPECT_EQ(refusal("true", read), "");
  EXPECT_TRUE(flag);
  EXPECT_EQ(refusal("null", read), "");
  EXPECT_TRUE(flag) << "null is no value";
  EXPECT_EQ(refusal("false", read), "");
  EXPECT_FALSE(flag);
  EXPECT_EQ(refusal("1", read), "x must be true or false, not 1");
}

TEST(FieldReader, AWholeNumberLiesBetweenItsBounds) {
  std::optional<int> out;
  auto read = [&](FieldReader& r) { return r.whole("x", -3, 7, out); };
  EXPECT_EQ(refusal("null", read), "");
  EXPECT_FALSE(out);
  for (int n : {-3, 0, 7}) {
    EXPECT_EQ(refusal(std::to_string(n), read), "");
    EXPECT_EQ(out, n);
  }
  EXPECT_EQ(refusal("2e0", read), "");
  EXPECT_EQ(out, 2);
  for (std::string bad : {"-4", "8", "0.5", "true"})
    EXPECT_EQ(refusal(bad, read), "x must be a whole number >= -3 and <= 7, not " + bad);
  EXPECT_EQ(refusal("\"2\"", read), "x must be a whole number >= -3 and <= 7, not a string");
  EXPECT_EQ(refusal("[2]", read), "x must be a whole number >= -3 and <= 7, not a list");
  EXPECT_EQ(refusal("{}", read), "x must be a whole number >= -3 and <= 7, not an object");
  EXPECT_EQ(out, 2);
}

TEST(FieldReader, ARealNumberLiesBetweenItsBounds) {
  std::optional<float> out;
  auto read = [&](FieldReader& r) { return r.real("x", -0.5, 2, out); };
  for (auto [text, value] : {std::pair("-0.5", -0.5f), {"2", 2.f}, {"0.25", 0.25f}, {"null", 0.25f}}) {
    EXPECT_EQ(refusal(text, read), "");
    EXPECT_EQ(out, value);
  }
  EXPECT_EQ(refusal("-0.51", read), "x must be >= -0.5 and <= 2, not -0.51");
  EXPECT_EQ(refusal("2.01", read), "x must be >= -0.5 and <= 2, not 2.01");
  EXPECT_EQ(refusal("[]", read), "x must be >= -0.5 and <= 2, not a list");
  EXPECT_EQ(refusal(std::string(40, '7'), read), "x must be >= -0.5 and <= 2, not " + std::string(40, '7'));
  EXPECT_EQ(refusal(std::string(41, '7'), read), "x must be >= -0.5 and <= 2") << "too long to be repeated";
}

TEST(FieldReader, ATextHasAtMostSoManyBytes) {
  std::string out;
  auto read = [&](FieldReader& r) { return r.text("x", 3, out); };
  EXPECT_EQ(refusal("\"abc\"", read), "");
  EXPECT_EQ(out, "abc");
  EXPECT_EQ(refusal("null", read), "");
  EXPECT_EQ(refusal("\"abcd\"", read), "x: at most 3 bytes");
  EXPECT_EQ(refusal("7", read), "x must be a string, not 7");
  EXPECT_EQ(out, "abc");
}

TEST(FieldReader, AListOfIdsHasAtMostSoMany) {
  std::vector<uint32_t> out{9};
  auto read = [&](FieldReader& r) { return r.ids("x", 2, out); };
  EXPECT_EQ(refusal("null", read), "");
  EXPECT_EQ(out, std::vector<uint32_t>{9});
  EXPECT_EQ(refusal("[0,4294967295]", read), "");
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 4294967295}));
  EXPECT_EQ(refusal("[1,2,3]", read), "x: at most 2 token ids");
  EXPECT_EQ(refusal("[4294967296]", read), "x must be a whole number >= 0 and <= 4294967295, not 4294967296");
  EXPECT_EQ(refusal("[\"1\"]", read), "x must be token ids, not a string");
  EXPECT_EQ(refusal("1", read), "x must be a list of token ids, not 1");
}

TEST(FieldReader, TheFirstRefusalStaysAndBadJsonIsTheDocuments) {
  JsonCursor json("[tru]");
  FieldReader reader(json);
  bool flag = false;
  EXPECT_FALSE(json.array([&] { return reader.flag("x", flag); }));
  EXPECT_NE(reader.error().text, "");
  EXPECT_FALSE(reader.refuse("y", "later"));
  EXPECT_EQ(reader.error().text.find("later"), std::string::npos);
}

TEST(FieldReader, NumbersAreShownAsTheyWouldBeWritten) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (auto [value, text] : {std::pair(0.0, "0"),
                             {-7.0, "-7"},
                             {0.5, "0.5"},
                             {0x1p62, "4611686018427387904"},
                             {-0x1p63, "-9223372036854775808"},
                             {kInfinite, "inf"},
                             {-kInfinite, "-inf"},
                             {std::nan(""), "nan"}})
    EXPECT_EQ(number_text(value), text);
  EXPECT_EQ(number_text(0x1p63), "9223372036854775808.0") << "no int64";
  EXPECT_EQ(range_text(0, 0.5), ">= 0 and <= 0.5");
}

// The form that a member gives: "kind text", with choices behind it, "none", or the error.
std::string form(std::string_view name, std::string_view text) {
  std::optional<msg::StructuredOutput> out;
  auto why = refusal(text, [&](FieldReader& r) {
    const auto* row = find_param(Protocol::kOpenAi, name);
    return row && read_structured(r, *row, out);
  });
  if (!why.empty()) return why;
  if (!out) return "none";
  EXPECT_EQ(out->param, name);
  std::string shown = std::to_string(int(out->kind)) + " " + out->text;
  if (out->schema == msg::StructuredOutput::Schema::kGuide) shown += " (guide)";
  for (const auto& choice : out->choices) shown += "|" + choice;
  return shown;
}
std::string of(Kind kind, const std::string& text = "") { return std::to_string(int(kind)) + " " + text; }

TEST(StructuredParams, AResponseFormatIsTextAnyObjectOrASchema) {
  EXPECT_EQ(form("response_format", "null"), "none");
  EXPECT_EQ(form("response_format", R"({"type":"text"})"), "none");
  EXPECT_EQ(form("response_format", R"({"type":"json_object"})"), of(Kind::kJsonObject));
  EXPECT_EQ(form("response_format", R"({"type":"json_object","json_schema":null})"), of(Kind::kJsonObject));
  EXPECT_EQ(form("response_format", R"({"type":"json_object","value":{}})"), of(Kind::kJsonSchema, "{} (guide)"));
  EXPECT_EQ(form("response_format", R"({"value":{},"type":"json"})"), of(Kind::kJsonSchema, "{} (guide)"));
  EXPECT_EQ(form("response_format", R"({"type":"regex","value":"a+"})"), of(Kind::kRegex, "a+"));
  EXPECT_EQ(form("response_format", R"({"json_schema":{"name":"n","schema":{"type":"null"}},"type":"json_schema"})"),
            of(Kind::kJsonSchema, R"({"type":"null"} (guide))"));
  EXPECT_EQ(form("response_format", R"({"type":"json_object","schema":true})"), of(Kind::kJsonSchema, "true (guide)"));
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","schema":"{}"})"), of(Kind::kJsonSchema, "{} (guide)"));
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","json_schema":{"strict":true,"schema":{}}})"),
            of(Kind::kJsonSchema, "{}"));
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","json_schema":{"schema":{},"strict":false}})"),
            of(Kind::kJsonSchema, "{} (guide)"));
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","json_schema":{"schema":{},"strict":"yes"}})"),
            "response_format.json_schema.strict must be true or false, not a string");
  EXPECT_EQ(form("response_format", "1"), "response_format must be an object, not 1");
  EXPECT_EQ(form("response_format", "{}"), "response_format.type: takes text, json_object or json_schema");
  EXPECT_EQ(form("response_format", R"({"type":"xml"})"),
            "response_format.type: takes text, json_object or json_schema");
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","json_schema":{"name":"n"}})"),
            "response_format.json_schema: schema is missing");
  EXPECT_EQ(form("response_format", R"({"type":"json_schema","json_schema":[]})"),
            "response_format.json_schema must be an object, not a list");
  EXPECT_EQ(form("response_format", R"({"type":"text","strict":true})"),
            "response_format: takes type and json_schema, not strict");
  EXPECT_EQ(form("response_format", R"({"type":"json_object","schema":7})"),
            "response_format must be a JSON schema, not 7");
}

TEST(StructuredParams, StructuredOutputsHaveOneForm) {
  EXPECT_EQ(form("structured_outputs", R"({"json":{"a":1},"regex":null})"), of(Kind::kJsonSchema, R"({"a":1})"));
  EXPECT_EQ(form("structured_outputs", R"({"regex":"a+","disable_fallback":true,"_backend":"x"})"),
            of(Kind::kRegex, "a+"));
  EXPECT_EQ(form("structured_outputs", R"({"disable_any_whitespace":true})"), "none");
  EXPECT_EQ(form("structured_outputs", R"({"choice":["a","b"]})"), of(Kind::kChoice) + "|a|b");
  EXPECT_EQ(form("structured_outputs", R"({"grammar":"root ::= \"a\""})"), of(Kind::kGrammar, "root ::= \"a\""));
  EXPECT_EQ(form("structured_outputs", R"({"json_object":true})"), of(Kind::kJsonObject));
  EXPECT_EQ(form("structured_outputs", R"({"json_object":false,"regex":"b"})"), of(Kind::kRegex, "b"));
  EXPECT_EQ(form("structured_outputs", R"({"json_object":true,"regex":"b"})"), "structured_outputs: takes one form");
  EXPECT_EQ(form("structured_outputs", R"({"json_object":3})"), "structured_outputs must be true or false, not 3");
  EXPECT_EQ(form("structured_outputs", R"({"xml":"a"})"),
            "structured_outputs: takes json, regex, choice, grammar or json_object, not xml");
  EXPECT_EQ(form("structured_outputs", "[]"), "structured_outputs must be an object, not a list");
}

TEST(StructuredParams, OlderNamesSayTheSame) {
  EXPECT_EQ(form("guided_json", R"({"a":1})"), of(Kind::kJsonSchema, R"({"a":1})"));
  EXPECT_EQ(form("json_schema", "false"), of(Kind::kJsonSchema, "false (guide)"));
  EXPECT_EQ(form("guided_regex", "\"a\""), of(Kind::kRegex, "a"));
  EXPECT_EQ(form("guided_grammar", "\"g\""), of(Kind::kGrammar, "g"));
  EXPECT_EQ(form("grammar", "\"g\""), of(Kind::kGrammar, "g"));
  EXPECT_EQ(form("guided_choice", R"(["a"])"), of(Kind::kChoice) + "|a");
  EXPECT_EQ(form("guided_choice", "[]"), "none");
  EXPECT_EQ(form("grammar", "\"\""), "none") << "asks for nothing";
  EXPECT_EQ(form("guided_regex", "7"), "guided_regex must be a string, not 7");
  EXPECT_EQ(form("guided_choice", "7"), "guided_choice must be a list of strings, not 7");
  EXPECT_EQ(form("guided_choice", "[7]"), "guided_choice must be a list of strings, not 7");
}

TEST(StructuredParams, FormsAndChoicesAreBounded) {
  auto quoted = [](size_t n) { return "\"" + std::string(n, 'a') + "\""; };
  EXPECT_EQ(form("guided_regex", quoted(kMaxForm)), of(Kind::kRegex, std::string(kMaxForm, 'a')));
  EXPECT_EQ(form("guided_regex", quoted(kMaxForm + 1)), "guided_regex: at most 262144 bytes");
  auto schema = [](size_t n) { return "{\"a\":\"" + std::string(n - 8, 'a') + "\"}"; };
  EXPECT_EQ(form("guided_json", schema(kMaxForm)), of(Kind::kJsonSchema, schema(kMaxForm)));
  EXPECT_EQ(form("guided_json", schema(kMaxForm + 1)), "guided_json: at most 262144 bytes");
  std::string choices = "[\"a\"";
  for (size_t i = 1; i < kMaxFormChoices; ++i) choices += ",\"a\"";
  EXPECT_EQ(form("guided_choice", choices + "]").substr(0, 4), of(Kind::kChoice) + "|a");
  EXPECT_EQ(form("guided_choice", choices + ",\"a\"]"), "guided_choice: at most 4096 strings");
}

TEST(StructuredParams, ATextHasOneFormWhoeverGivesIt) {
  JsonCursor json(R"(["a","b"])");
  FieldReader reader(json);
  std::optional<msg::StructuredOutput> out;
  const auto *regex = find_param(Protocol::kOpenAi, "guided_regex"),
             *grammar = find_param(Protocol::kOpenAi, "grammar");
  bool first = true;
  EXPECT_FALSE(
      json.array([&] { return read_structured(reader, *(std::exchange(first, false) ? regex : grammar), out); }));
  EXPECT_EQ(reader.error().text, "grammar: the text has one form, and guided_regex gives it one already");
}

TEST(GenerationConfig, SetsDefaultsAndEnds) {
  msg::TextSpec spec;
  spec.vocabulary = 100;
  spec.eos_ids = {7};
  EXPECT_TRUE(read_generation_config("", spec).ok());
  EXPECT_TRUE(read_generation_config(R"({"temperature":0.5,"top_k":4,"bos_token_id":1,"max_length":9})", spec).ok());
  EXPECT_EQ(spec.defaults.temperature, 0.5f);
  EXPECT_EQ(spec.defaults.top_k, 4u);
  EXPECT_EQ(spec.eos_ids, std::vector<uint32_t>{7}) << "the file names none";
  EXPECT_TRUE(read_generation_config(R"({"eos_token_id":99})", spec).ok());
  EXPECT_EQ(spec.eos_ids, std::vector<uint32_t>{99});
  EXPECT_EQ(spec.defaults.temperature, 1.f);
  EXPECT_TRUE(read_generation_config(R"({"eos_token_id":[3,4]})", spec).ok());
  EXPECT_EQ(spec.eos_ids, (std::vector<uint32_t>{3, 4}));
  EXPECT_TRUE(read_generation_config(R"({"eos_token_id":null})", spec).ok());
  EXPECT_EQ(spec.eos_ids, (std::vector<uint32_t>{3, 4}));
}

TEST(GenerationConfig, RefusesByFileAndMember) {
  msg::TextSpec spec;
  spec.vocabulary = 100;
  auto why = [&](const std::string& text) { return read_generation_config(text, spec).text; };
  EXPECT_EQ(why(R"({"eos_token_id":100})"),
            "generation_config.json: eos_token_id must be a whole number >= 0 and <= 99, not 100");
  EXPECT_EQ(why(R"({"eos_token_id":[1,100]})"), "generation_config.json: eos_token_id must be ids below 100");
  std::string ids = "1";
  for (int i = 1; i < 1024; ++i) ids += ",1";
  EXPECT_EQ(why("{\"eos_token_id\":[" + ids + "]}"), "");
  EXPECT_EQ(why("{\"eos_token_id\":[" + ids + ",1]}"), "generation_config.json: eos_token_id: at most 1024 token ids");
  EXPECT_EQ(why(R"({"temperature":-1})").substr(0, 35), "generation_config.json: temperature");
  EXPECT_NE(why("{} x"), "");
  EXPECT_NE(why("[]"), "");
}

TEST(Secrets, AreThoseOfTheSettingAndTheLinesOfTheFile) {
  const std::string path = testing::TempDir() + "secrets";
  auto read = [&](const std::string& lines, std::vector<std::string> own = {}) -> std::string {
    std::ofstream(path) << lines;
    auto secrets = read_secrets("keys", std::move(own), path);
    if (!secrets) return secrets.error().text.substr(0, secrets.error().text.find('\''));
    std::string all;
    for (const auto& secret : *secrets) all += secret + ";";
    return all;
  };
  EXPECT_EQ(read("one\n\ntwo  \r\nthree", {"own"}), "own;one;two;three;");
  EXPECT_EQ(read("!~\n"), "!~;");
  EXPECT_EQ(read(""), "keys_file: ");
  EXPECT_EQ(read(" \n", {"own"}), "keys_file: ") << "the file holds none";
  EXPECT_EQ(read("a b\n"), "keys: a secret must be visible ASCII without blanks");
  EXPECT_EQ(read("a\x7f\n"), "keys: a secret must be visible ASCII without blanks");
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += std::to_string(i) + "-and-what-makes-it-long\n";
  read(many);
  EXPECT_EQ(read_secrets("keys", {}, path).value().size(), 100'000U);
  EXPECT_EQ(read_secrets("keys", {"own"}, "").value(), std::vector<std::string>{"own"});
  EXPECT_FALSE(read_secrets("keys", {"own", "b\t"}, ""));
  EXPECT_EQ(read_secrets("keys", {}, path + "/none").error().text,
            "keys_file: '" + path + "/none' cannot be read: Not a directory");
}

TEST(Secrets, MayComeThroughAPipeThatIsReadOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "one\ntwo\n", 8), 8);
  ::close(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(read_secrets("keys", {}, path).error().code, base::Code::kFailedPrecondition);
  EXPECT_EQ(read_secrets("keys", {}, path, base::Pipes::kRead).value(), (std::vector<std::string>{"one", "two"}));
  ::close(ends[0]);
}

TEST(Html, WhatWouldBeMarkupIsANumber) { EXPECT_EQ(escape_html("a<b>&\"c'"), "a&#60;b&#62;&#38;&#34;c'"); }

TEST(StructuredParams, WordsThatNobodyKnowsAreRepeatedInPart) {
  const std::string word(70, 'w'), part(64, 'w');
  EXPECT_EQ(form("structured_outputs", "{\"" + word + "\":1}"),
            "structured_outputs: takes json, regex, choice, grammar or json_object, not " + part);
  EXPECT_EQ(form("response_format", "{\"" + word + "\":1}"),
            "response_format: takes type and json_schema, not " + part);
  EXPECT_EQ(form("response_format", "{\"type\":\"" + part + "\"}"),
            "response_format.type: takes text, json_object or json_schema");
  EXPECT_EQ(form("response_format", "{\"type\":\"" + part + "w\"}"), "response_format.type: at most 64 bytes");
}

}  // namespace
}  // namespace weir::marshal
