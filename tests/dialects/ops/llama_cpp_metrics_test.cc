#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "bus/catalog.h"
#include "bus/token_stats.h"
#include "dialects/ops/metrics.h"

namespace weir::ops {
namespace {

TEST(LlamaCppMetrics, TheNumbersAreOfAllModelsTogether) {
  bus::Catalog catalog;
  std::string text;
  append_llama_cpp(text, catalog);
  EXPECT_EQ(text, "");
  for (const char* model : {"here", "there"}) {
    auto served = std::make_shared<bus::Served>();
    auto& stats = *(served->stats.tokens = std::make_unique<bus::TokenStats>());
    stats.prompt_total.add(10);
    if (model == std::string("here")) stats.prefix_queries.add(10), stats.prefix_hits.add(8);
    stats.generated_total.add(7);
    stats.prefill.record_ns(500'000'000);
    stats.decode.record_ns(3'500'000'000);
    stats.iteration_tokens.record_size(2);
    stats.running.set(3), stats.waiting.set(1);
    catalog.models[model].versions["1"] = served;
  }
  append_llama_cpp(text, catalog);
  for (const char* line :
       {"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 12\n",
        "llamacpp:prompt_tokens_cached_total 8\n", "llamacpp:prompt_seconds_total 1\n",
        "llamacpp:tokens_predicted_total 14\n", "llamacpp:tokens_predicted_seconds_total 7\n",
        "llamacpp:n_decode_total 2\n",
        "# TYPE llamacpp:prompt_tokens_seconds gauge\nllamacpp:prompt_tokens_seconds 12\n",
        "llamacpp:predicted_tokens_seconds 2\n", "llamacpp:requests_processing 6\n", "llamacpp:requests_deferred 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  size_t helped = 0, typed = 0, told = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    helped += line.starts_with("# HELP llamacpp:"), typed += line.starts_with("# TYPE llamacpp:");
    told += line.starts_with("llamacpp:");
  }
  EXPECT_EQ(told, 12u) << text;
  EXPECT_EQ(helped, told);
  EXPECT_EQ(typed, told);
}

TEST(LlamaCppMetrics, WithoutTokensThereIsNoRate) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  served->stats.tokens = std::make_unique<bus::TokenStats>();
  catalog.models["chat"].versions["1"] = served;
  std::string text;
  append_llama_cpp(text, catalog);
  EXPECT_NE(text.find("llamacpp:predicted_tokens_seconds 0\n"), std::string::npos) << text;
}

TEST(LlamaCppMetrics, LargeCountsAreExact) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  served->stats.tokens = std::make_unique<bus::TokenStats>();
  served->stats.tokens->generated_total.add(12'345'678'901'234);
  catalog.models["chat"].versions["1"] = served;
  std::string text;
  append_llama_cpp(text, catalog);
  EXPECT_NE(text.find("llamacpp:tokens_predicted_total 12345678901234\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace weir::ops
