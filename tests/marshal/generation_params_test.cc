#include "marshal/generation_params.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/generation_cases.h"

namespace weir::marshal {
namespace {

base::Status read_json(Protocol protocol, const std::string& name, const std::string& value, GenerationParams& out) {
  const std::string body = "{\"" + name + "\":" + value + "}";
  JsonCursor json(body);
  FieldReader fields(json);
  const ParamRow* row = find_param(protocol, name);
  if (!row) return base::invalid("no row");
  bool good = json.object([&](std::string_view) { return read_param(fields, protocol, *row, name, out); });
  return good && json.finish() ? base::Status() : fields.error();
}

TEST(GenerationParams, JsonIsTakenInItsRangeAndRefusedByName) {
  for (Protocol protocol : {Protocol::kOpenAi, Protocol::kTriton, Protocol::kModelFile})
    for (const auto& c : support::json_cases(protocol)) {
      GenerationParams params;
      const base::Status status = read_json(protocol, c.name, c.value, params);
      EXPECT_EQ(status.ok(), c.good) << c.name << " " << c.value << ": " << status.text;
      EXPECT_TRUE(c.good || status.text.starts_with(c.name)) << status.text;
    }
}

TEST(GenerationParams, FieldsAreTakenInTheirRangeAndRefusedByName) {
  for (Protocol protocol : {Protocol::kSalience, Protocol::kEvergreen})
    for (const auto& c : support::pb_cases(protocol)) {
      GenerationParams params;
      base::Status status;
      for (PbReader reader(c.value); status.ok() && reader.next();)
        status = read_param(reader, protocol, *find_param(protocol, reader.field()), params);
      EXPECT_EQ(status.ok(), c.good) << c.name << ": " << status.text;
      EXPECT_TRUE(c.good || status.text.starts_with(c.name)) << status.text;
    }
}

// A number of a tensor request is judged like one of a body, whether it comes as a number or as text.
TEST(GenerationParams, ParameterValuesHaveTheRangeOfJson) {
  for (const ParamRow& row : kGenerationParams) {
    using Of = ParamRow;
    const bool real = std::holds_alternative<Of::Of<std::optional<float>>>(row.member);
    const bool whole = std::holds_alternative<Of::Of<std::optional<uint32_t>>>(row.member) ||
                       std::holds_alternative<Of::Of<std::optional<int64_t>>>(row.member);
    if (!row.named || (!real && !whole)) continue;
    const std::string name(row.name);
    for (double value : {row.least, row.most, row.least - 1, row.most + 1, 0.5, 1.0, 2.0}) {
      GenerationParams from_json, other;
      const bool good = read_json(Protocol::kTriton, name, number_text(value), from_json).ok();
      EXPECT_EQ(good, value >= row.least && value <= row.most && (real || value == std::floor(value))) << name << value;
      auto agrees = [&](const msg::ParamValue& v) {
        const base::Status status = read_param(v, row, name, other);
        EXPECT_TRUE(good || status.text.starts_with(name + " must be ")) << status.text;
        return status.ok() == good;
      };
      EXPECT_TRUE(agrees(value)) << name << ' ' << value;
      EXPECT_TRUE(agrees(number_text(value))) << name << ' ' << value;
      if (value == std::floor(value)) {
        EXPECT_TRUE(agrees(int64_t(value))) << name << ' ' << value;
      }
      if (value == std::floor(value) && value >= 0) {
        EXPECT_TRUE(agrees(uint64_t(value))) << name << ' ' << value;
      }
    }
    GenerationParams unused;
    EXPECT_FALSE(read_param(std::string("1x"), row, name, unused).ok());
    EXPECT_FALSE(read_param(std::string(), row, name, unused).ok());
    EXPECT_FALSE(read_param(true, row, name, unused).ok());
  }
}

TEST(GenerationParams, AFlagIsAlsoANumberOrAText) {
  bool flag = false;
  for (const msg::ParamValue& yes :
       {msg::ParamValue(true), msg::ParamValue(std::string("true")), msg::ParamValue(int64_t(1)), msg::ParamValue(1.0),
        msg::ParamValue(std::string("1"))}) {
    EXPECT_TRUE(read_flag(yes, "x", flag).ok() && flag);
    flag = false;
  }
  for (const msg::ParamValue& no :
       {msg::ParamValue(false), msg::ParamValue(std::string("false")), msg::ParamValue(int64_t(0))}) {
    flag = true;
    EXPECT_TRUE(read_flag(no, "x", flag).ok() && !flag);
  }
  EXPECT_EQ(read_flag(int64_t(2), "x", flag).text, "x must be true or false, not 2");
  EXPECT_EQ(read_flag(std::string("yes"), "x", flag).text, "x must be true or false, not \"yes\"");
  EXPECT_EQ(read_flag(std::string(39, 'y'), "x", flag).text, "x must be true or false, not a string") << "too long";
}

TEST(GenerationParams, ASeedIsAnyWholeNumberOf64Bits) {
  const ParamRow& row = *find_param(Protocol::kTriton, "seed");
  GenerationParams params;
  auto seed = [&](const msg::ParamValue& v) -> std::optional<uint64_t> {
    params.seed.reset();
    return read_param(v, row, "seed", params).ok() ? params.seed : std::nullopt;
  };
  EXPECT_EQ(seed(int64_t(-1)), UINT64_MAX);
  EXPECT_EQ(seed(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(seed(0x1p53), uint64_t(1) << 53);
  EXPECT_EQ(seed(-0x1p53), uint64_t(0) - (uint64_t(1) << 53));
  EXPECT_EQ(seed(0x1p53 + 2), std::nullopt) << "a double does not hold each of them";
  EXPECT_EQ(seed(0.5), std::nullopt);
  EXPECT_EQ(seed(std::string("7")), 7u);
  for (auto [text, good] : {std::pair("18446744073709551615", true),
                            {"-9223372036854775808", true},
                            {"18446744073709551616", false},
                            {"-9223372036854775809", false},
                            {"1.5", false}})
    EXPECT_EQ(read_json(Protocol::kOpenAi, "seed", text, params).ok(), good) << text;
}

TEST(GenerationParams, AFlagOfAMessageIsWhetherItsNumberIsZero) {
  for (uint64_t number : {0, 1, 2}) {
    std::string message;
    put_tag(message, 11, PbType::kVarint);  // ignore_eos
    put_varint(message, number);
    GenerationParams params;
    PbReader reader(message);
    ASSERT_TRUE(reader.next());
    EXPECT_TRUE(read_param(reader, Protocol::kEvergreen, *find_param(Protocol::kEvergreen, 11), params).ok());
    EXPECT_EQ(params.ignore_eos, number != 0);
  }
}

TEST(GenerationParams, AProtocolsRangeIsNeverWiderThanTheCommonOne) {
  for (const ParamRow& row : kGenerationParams) {
    EXPECT_LE(row.openai_most, row.most) << row.name;
    EXPECT_LE(row.least, row.most) << row.name;
  }
}

TEST(GenerationParams, AnErrorSaysTheRangeAndTheValue) {
  GenerationParams params;
  EXPECT_EQ(read_json(Protocol::kOpenAi, "top_p", "1.5", params).text, "top_p must be >= 0 and <= 1, not 1.5");
  EXPECT_EQ(read_json(Protocol::kOpenAi, "top_k", "-2", params).text,
            "top_k must be a whole number >= -1 and <= 4294967295, not -2");
  EXPECT_EQ(read_json(Protocol::kOpenAi, "seed", "\"a\"", params).text,
            "seed must be a whole number of 64 bits, not a string");
  EXPECT_EQ(read_json(Protocol::kTriton, "repetition_penalty", "\"0\"", params).text,
            "repetition_penalty must be >= 0.001 and <= 100, not \"0\"");
  EXPECT_EQ(read_param(msg::ParamValue(std::nan("")), *find_param(Protocol::kTriton, "min_p"), "min_p", params).text,
            "min_p must be >= 0 and <= 1, not nan");
}

TEST(GenerationParams, OnlyTritonHasTensorRtNames) {
  EXPECT_TRUE(find_param(Protocol::kTriton, "random_seed"));
  EXPECT_FALSE(find_param(Protocol::kOpenAi, "random_seed"));
  EXPECT_FALSE(find_param(Protocol::kTriton, ""));
  EXPECT_FALSE(find_param(Protocol::kModelFile, "seed"));
  EXPECT_FALSE(find_param(Protocol::kSalience, 0U));
  EXPECT_FALSE(find_param(Protocol::kOpenAi, "top_logprobs")) << "completions call it logprobs";
}

TEST(GenerationParams, WhatIsNotGivenIsTheModels) {
  msg::TextSpec spec;
  spec.max_length = 10, spec.vocabulary = 5, spec.defaults.temperature = 0.25F, spec.defaults.top_k = 9;
  GenerationParams params;
  params.top_p = 0, params.top_k = -1;
  msg::Generation generation;
  ASSERT_TRUE(apply(params, spec, generation).status.ok());
  EXPECT_EQ(generation.sampling.temperature, 0.25F);
  EXPECT_EQ(generation.sampling.top_k, 0u);
  EXPECT_GT(generation.sampling.top_p, 0);
  EXPECT_LT(generation.sampling.top_p, 1e-6F);
  params.stop_ids = {5};
  EXPECT_EQ(apply(params, spec, generation).param, "stop_token_ids");
}

TEST(GenerationParams, ALimitIsNamedAsTheClientWroteIt) {
  msg::TextSpec spec;
  spec.max_length = 10, spec.vocabulary = 5;
  msg::Generation generation;
  generation.append = {1, 2};
  GenerationParams params;
  ASSERT_TRUE(read_json(Protocol::kTriton, "max_new_tokens", "9", params).ok());
  auto error = apply_length(params, spec, 4, generation);
  EXPECT_EQ(error.param, "max_new_tokens");
  const std::string why = "the prompt has 2 tokens, and this model's maximum context length is 10 tokens";
  EXPECT_EQ(error.status.text, "max_new_tokens must be <= 8, not 9: " + why);
  params.max_tokens = 3, params.min_tokens = 4;
  apply(params, generation);
  EXPECT_EQ(apply_length(params, spec, 4, generation).status.text, "min_tokens must be <= max_new_tokens, 3, not 4");
}

TEST(GenerationParams, EveryValueOfARequestIsLaidOverTheModels) {
  GenerationParams p;
  p.temperature = 0.5F, p.top_p = 0.25F, p.min_p = 0.125F, p.top_k = 7, p.presence_penalty = 1.5F;
  p.frequency_penalty = -1.5F, p.repetition_penalty = 1.25F, p.seed = 9, p.logit_bias = {{3, 2.F}};
  p.stop_ids = {4}, p.ignore_eos = true, p.min_tokens = 2, p.max_tokens = 6, p.top_logprobs = 5;
  msg::Generation g;
  apply(p, g);
  const msg::Sampling& s = g.sampling;
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.25F);
  EXPECT_EQ(s.min_p, 0.125F);
  EXPECT_EQ(s.top_k, 7u);
  EXPECT_EQ(s.presence_penalty, 1.5F);
  EXPECT_EQ(s.frequency_penalty, -1.5F);
  EXPECT_EQ(s.repetition_penalty, 1.25F);
  EXPECT_EQ(s.seed, 9u);
  EXPECT_EQ(s.logit_bias, (GenerationParams::Bias{{3, 2.F}}));
  EXPECT_EQ(g.stop_ids, std::vector<uint32_t>{4});
  EXPECT_TRUE(g.ignore_eos);
  EXPECT_EQ(g.min_tokens, 2u);
  EXPECT_EQ(g.max_tokens, 6u);
  EXPECT_EQ(g.top_logprobs, 5u);
  apply(GenerationParams{}, g);
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.seed, 9u);
  EXPECT_EQ(s.top_k, 7u);
  EXPECT_EQ(s.logit_bias.size(), 1u);
  EXPECT_EQ(g.max_tokens, 6u);
  EXPECT_FALSE(g.ignore_eos);
  EXPECT_TRUE(g.stop_ids.empty());
  p.top_k = 1;
  apply(p, g);
  EXPECT_EQ(s.top_k, 1u);
}

TEST(GenerationParams, IdsAreBelowTheVocabulary) {
  msg::TextSpec spec;
  spec.max_length = 10, spec.vocabulary = 5;
  for (uint32_t id : {4u, 5u, 6u}) {
    GenerationParams biased, stopped;
    biased.logit_bias = {{0, 1.F}, {id, 1.F}}, stopped.stop_ids = {0, id};
    msg::Generation g;
    EXPECT_EQ(apply(biased, spec, g).status.ok(), id < 5);
    EXPECT_EQ(apply(stopped, spec, g).status.ok(), id < 5);
    g.append = {0, id};
    EXPECT_EQ(apply_length({}, spec, 4, g).status.ok(), id < 5);
  }
  GenerationParams biased;
  biased.logit_bias = {{5, 1.F}};
  msg::Generation g;
  EXPECT_EQ(apply(biased, spec, g).status.text, "logit_bias: token id 5 is not below 5, the size of the vocabulary");
}

TEST(GenerationParams, PromptAndCompletionShareTheContext) {
  msg::TextSpec spec;
  spec.max_length = 4, spec.vocabulary = 5;
  auto error = [&](size_t prompt, std::optional<uint32_t> most, uint32_t usual = 100) {
    GenerationParams params;
    params.max_tokens = most;
    msg::Generation g;
    g.append.assign(prompt, 1);
    auto found = apply_length(params, spec, usual, g);
    return found.status.ok() ? std::to_string(g.max_tokens) : std::string(found.param);
  };
  EXPECT_EQ(error(0, {}), "prompt");
  EXPECT_EQ(error(1, {}), "3");
  EXPECT_EQ(error(1, {}, 2), "2");
  EXPECT_EQ(error(1, 3), "3");
  EXPECT_EQ(error(1, 4), "max_tokens");
  EXPECT_EQ(error(3, {}), "1");
  EXPECT_EQ(error(4, {}), "prompt") << "no room for a token";
  EXPECT_EQ(error(4, 0), "0") << "and none is wanted";
  EXPECT_EQ(error(4, 1), "max_tokens");
  EXPECT_EQ(error(5, 0), "prompt");
  msg::Generation g;
  g.min_tokens = g.max_tokens = 3;
  EXPECT_TRUE(check_min_tokens({}, g).status.ok());
  g.min_tokens = 4;
  EXPECT_FALSE(check_min_tokens({}, g).status.ok());
}

TEST(GenerationParams, TheTextEndsAtStopIdsAndAtTheModelsOwn) {
  msg::TextSpec spec;
  spec.eos_ids = {7, 8};
  GenerationParams params;
  params.stop_ids = {3};
  EXPECT_EQ(end_ids(params, spec), (std::vector<uint32_t>{3, 7, 8}));
  params.ignore_eos = true;
  EXPECT_EQ(end_ids(params, spec), std::vector<uint32_t>{3});
}

TEST(GenerationParams, ANumberMayBeTextForTritonAlone) {
  GenerationParams params;
  EXPECT_FALSE(read_json(Protocol::kOpenAi, "temperature", "\"0.5\"", params).ok());
  EXPECT_FALSE(read_json(Protocol::kModelFile, "temperature", "\"0.5\"", params).ok());
  EXPECT_FALSE(params.temperature);
  EXPECT_TRUE(read_json(Protocol::kTriton, "temperature", "\"0.5\"", params).ok());
  EXPECT_EQ(params.temperature, 0.5F);
  EXPECT_TRUE(read_json(Protocol::kTriton, "ignore_eos", "\"true\"", params).ok());
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_FALSE(read_json(Protocol::kOpenAi, "ignore_eos", "\"true\"", params).ok());
  const base::Status cut = read_json(Protocol::kTriton, "temperature", "\"\\x\"", params);
  EXPECT_TRUE(cut.text.starts_with("JSON: an unknown escape")) << cut.text;
  EXPECT_TRUE(read_json(Protocol::kTriton, "stop", "\"[1]\"", params).ok()) << "a text, though it looks like a list";
  EXPECT_EQ(params.stop, std::vector<std::string>{"[1]"});
  for (Protocol protocol : {Protocol::kOpenAi, Protocol::kTriton}) {
    GenerationParams other;
    EXPECT_EQ(read_json(protocol, "stop", "\"\"", other).ok(), protocol == Protocol::kTriton) << "none";
    EXPECT_TRUE(read_json(protocol, "stop", "[\"a\",\"b\"]", other).ok());
    EXPECT_TRUE(read_json(protocol, "stop", "\"c\"", other).ok());
    EXPECT_EQ(other.stop.size(), protocol == Protocol::kTriton ? 3 : 1) << "Triton's two names add up";
  }
}

TEST(GenerationParams, BiasesAreBoundedAndEachTokenHasOne) {
  auto biases = [](size_t n) {
    std::string out = "{\"0\":1";
    for (size_t i = 1; i < n; ++i) out += ",\"" + std::to_string(i) + "\":1";
    return out + "}";
  };
  GenerationParams params;
  EXPECT_TRUE(read_json(Protocol::kOpenAi, "logit_bias", biases(kMaxBiases), params).ok());
  EXPECT_EQ(params.logit_bias.size(), kMaxBiases);
  EXPECT_EQ(read_json(Protocol::kOpenAi, "logit_bias", biases(kMaxBiases + 1), params).text,
            "logit_bias: at most 1024 tokens");
  EXPECT_EQ(read_json(Protocol::kOpenAi, "logit_bias", R"({"7":1,"7":2})", params).text, "logit_bias: token 7 twice");
  for (auto bad : {R"({"":1})", R"({"1x":1})", R"({" 1":1})", R"({"1.0":1})"})
    EXPECT_EQ(read_json(Protocol::kOpenAi, "logit_bias", bad, params).text.substr(0, 21), "logit_bias: the key '");
  EXPECT_TRUE(read_json(Protocol::kOpenAi, "logit_bias", R"({"1":null,"2":3})", params).ok());
  EXPECT_EQ(params.logit_bias, (GenerationParams::Bias{{2, 3.F}})) << "the last object counts";
}

TEST(GenerationParams, ListsAndFormsOfTensorRequestsAreJsonInAString) {
  auto read = [](std::string_view name, const msg::ParamValue& value, GenerationParams& out) {
    return read_param(value, *find_param(Protocol::kTriton, name), name, out);
  };
  auto text = [](std::string value) { return msg::ParamValue(std::move(value)); };
  GenerationParams p;
  EXPECT_TRUE(read("stop_token_ids", text("[1,2]"), p).ok());
  EXPECT_EQ(p.stop_ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(read("stop_token_ids", text(""), p).ok());
  EXPECT_EQ(p.stop_ids.size(), 2u);
  EXPECT_EQ(read("stop_token_ids", text("[1] 2"), p).text, "stop_token_ids must be JSON in a string, not \"[1] 2\"");
  EXPECT_EQ(read("stop_token_ids", text("[1"), p).text, "stop_token_ids must be JSON in a string, not \"[1\"");
  EXPECT_EQ(read("stop_token_ids", int64_t(1), p).text, "stop_token_ids must be JSON in a string, not 1");
  EXPECT_EQ(read("stop_token_ids", text("[-1]"), p).text,
            "stop_token_ids must be a whole number >= 0 and <= 4294967295, not -1");
  EXPECT_TRUE(read("logit_bias", text(R"({"3":1.5})"), p).ok());
  EXPECT_EQ(p.logit_bias, (GenerationParams::Bias{{3, 1.5F}}));
  EXPECT_TRUE(read("stop", text(R"(["a","b"])"), p).ok());
  EXPECT_TRUE(read("stop", text("[c"), p).ok()) << "only begins like a list";
  EXPECT_TRUE(read("stop", text("[] d"), p).ok());
  EXPECT_EQ(p.stop, (std::vector<std::string>{"a", "b", "[c", "[] d"}));
  EXPECT_EQ(read("stop", true, p).text, "stop must be a string or a list of strings, not true");
  EXPECT_EQ(read("stop", text(std::string(4097, 'x')), p).text, "stop: at most 4096 bytes");
  EXPECT_TRUE(read("guided_regex", text("\"a\""), p).ok());
  EXPECT_EQ(p.structured->text, "\"a\"") << "the expression itself, quotes and all";
  p.structured.reset();
  EXPECT_TRUE(read("guided_choice", text(R"(["x"])"), p).ok());
  EXPECT_EQ(p.structured->choices, std::vector<std::string>{"x"});
  p.structured.reset();
  EXPECT_TRUE(read("guided_json", text(""), p).ok());
  EXPECT_FALSE(p.structured);
  EXPECT_EQ(read("guided_json", text("{} {}"), p).text, "guided_json must be JSON in a string, not \"{} {}\"");
  EXPECT_EQ(read("guided_json", 0.5, p).text, "guided_json must be a string, not 0.5");
}

TEST(GenerationParams, IdsOfAMessageArePackedOrOneByOne) {
  auto ids = [](const std::string& message, size_t most, std::vector<uint32_t>& out) {
    base::Status status;
    for (PbReader reader(message); status.ok() && reader.next();) status = read_ids(reader, "x", most, out);
    return status.text;
  };
  std::vector<uint32_t> out;
  std::string both, wide, cut, other;
  put_bytes(both, 1, "\x01\x82\x01");
  put_tag(both, 1, PbType::kVarint), put_varint(both, 3);
  EXPECT_EQ(ids(both, 3, out), "");
  EXPECT_EQ(out, (std::vector<uint32_t>{1, 130, 3}));
  EXPECT_EQ(ids(both, 5, out), "x must have at most 5 entries") << "they add up";
  out.clear();
  EXPECT_EQ(ids(both, 2, out), "x must have at most 2 entries");
  put_bytes(wide, 1, std::string("\x07\xff\xff\xff\xff\x0f\x80\x80\x80\x80\x10", 11));
  out.clear();
  EXPECT_EQ(ids(wide, 9, out), "x[2] must be <= 4294967295, not 4294967296");
  EXPECT_EQ(out, (std::vector<uint32_t>{7, UINT32_MAX}));
  put_bytes(cut, 1, "\x01\x80");
  EXPECT_EQ(ids(cut, 9, out), "x is malformed");
  put_tag(other, 1, PbType::kFixed32), other += "abcd";
  out.clear();
  EXPECT_EQ(ids(other, 9, out), "");
  EXPECT_TRUE(out.empty());
}

TEST(GenerationParams, StopStringsOfAMessageAreUtf8) {
  auto read = [](std::string_view text) {
    std::string message;
    put_bytes(message, 10, text);
    GenerationParams params;
    PbReader reader(message);
    EXPECT_TRUE(reader.next());
    return read_param(reader, Protocol::kEvergreen, *find_param(Protocol::kEvergreen, 10), params).text;
  };
  EXPECT_EQ(read("\xc3\xa9"), "");
  EXPECT_EQ(read("\xc3"), "stop[0] is not UTF-8");
  EXPECT_EQ(read(""), "stop: a stop string is empty");
}

}  // namespace
}  // namespace weir::marshal
