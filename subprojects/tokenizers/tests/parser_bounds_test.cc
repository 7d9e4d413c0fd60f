// The bounds of the loader: a file at the bound is loaded, one beyond it is refused, and time is linear.
#include <algorithm>
#include <functional>

#include "cpu_time.h"
#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

std::string tokenizer_fault(const Json& file) {
  auto parsed = Tokenizer::parse(file.dump());
  return parsed ? "" : parsed.error().message;
}

TEST(ParserBounds, TokenizersHaveSoManyStepsAndNoMore) {
  const Json lower = {{"type", "Lowercase"}};
  auto normalizers = [&](size_t n) {
    Json file = byte_level_file({});
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<Json>(n, lower)}};
    return tokenizer_fault(file);
  };
  EXPECT_EQ(normalizers(64), "");
  EXPECT_NE(normalizers(65).find("one step too many"), std::string::npos);
}

TEST(ParserBounds, TokenizersNestSoDeepAndNoDeeper) {
  auto nested = [&](size_t n) {
    Json step = {{"type", "Lowercase"}};
    for (size_t i = 0; i < n; ++i) step = {{"type", "Sequence"}, {"normalizers", Json::array({step})}};
    Json file = byte_level_file({});
    file["normalizer"] = step;
    return tokenizer_fault(file);
  };
  EXPECT_EQ(nested(16), "");
  EXPECT_NE(nested(17), "");
  EXPECT_FALSE(Tokenizer::parse(std::string(1'000'000, '[')));
  EXPECT_FALSE(Tokenizer::parse(repeated("{\"a\":", 1'000'000)));
}

TEST(ParserBounds, TokenizersAreReadInTimeThatIsLinear) {
  auto vocabulary = [](size_t n) {
    Json file = byte_level_file({});
    for (size_t i = 0; i < n; ++i) file["model"]["vocab"]["piece" + std::to_string(i)] = 1000 + i;
    return file.dump();
  };
  auto added = [](size_t n) {
    Json file = byte_level_file({});
    for (size_t i = 0; i < n; ++i)
      file["added_tokens"].push_back({{"id", 1000 + i}, {"content", "<" + std::to_string(i) + ">"}, {"special", true}});
    return file.dump();
  };
  for (const auto& make : {std::function<std::string(size_t)>(vocabulary), std::function<std::string(size_t)>(added)}) {
    const std::string once = make(10'000), twice = make(20'000);
    auto read = [](const std::string& file) { return cpu_of([&] { EXPECT_TRUE(Tokenizer::parse(file)); }); };
    double grew = 1e9;
    for (int i = 0; i < 8 && grew > 2.5; ++i) grew = std::min(grew, read(twice) / read(once));
    EXPECT_LE(grew, 2.5);
  }
}

}  // namespace
}  // namespace tokenizers
