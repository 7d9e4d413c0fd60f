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
  EXPECT_EQ(error.status.text,
            "max_new_tokens must be <= 8, not 9: the prompt has 2 tokens of the model's context of 10");
  params.max_tokens = 3, params.min_tokens = 4;
  apply(params, generation);
  EXPECT_EQ(apply_length(params, spec, 4, generation).status.text, "min_tokens must be <= max_new_tokens, 3, not 4");
}

}  // namespace
}  // namespace weir::marshal
