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
