// Two texts as one row: templates, types and cuts. The expected rows are those of Hugging Face's crate.
#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

using Ids = std::vector<uint32_t>;

Json with_processor(const char* processor) {
  Json file = byte_level_file({});
  file["post_processor"] = Json::parse(processor);
  return file;
}

constexpr const char* kBert = R"({"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
  "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
  "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": []}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": []}}})";

Pair join(const Tokenizer& tokenizer, Ids first, Ids second, size_t most = 100) {
  return tokenizer.join_pair(first, second, most);
}

TEST(Pairs, ATemplateSaysWhatIsAroundTheTextsAndTheirTypes) {
  auto tokenizer = tokenizer_of(with_processor(kBert));
  auto pair = join(*tokenizer, {10, 11}, {20});
  EXPECT_EQ(pair.ids, (Ids{1, 10, 11, 2, 20, 2}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(tokenizer->pair_markers(), 3u);
}

TEST(Pairs, TheOlderProcessorsHaveTemplatesOfTheirOwn) {
  auto bert = tokenizer_of(with_processor(R"({"type": "BertProcessing", "cls": ["c", 1], "sep": ["s", 2]})"));
  EXPECT_EQ(join(*bert, {10}, {20}).ids, (Ids{1, 10, 2, 20, 2}));
  EXPECT_EQ(join(*bert, {10}, {20}).types, (Ids{0, 0, 0, 1, 1}));
  auto roberta = tokenizer_of(with_processor(R"({"type": "Sequence", "processors": [
      {"type": "RobertaProcessing", "cls": ["c", 1], "sep": ["s", 2]}, {"type": "ByteLevel"}]})"));
  EXPECT_EQ(join(*roberta, {10}, {20}).ids, (Ids{1, 10, 2, 2, 20, 2}));
  EXPECT_EQ(join(*roberta, {10}, {20}).types, Ids(6, 0));
}

TEST(Pairs, WithoutATemplateTheTextsFollowEachOther) {
  auto pair = join(*tokenizer_of(byte_level_file({})), {10}, {20, 21});
  EXPECT_EQ(pair.ids, (Ids{10, 20, 21}));
  EXPECT_EQ(pair.types, (Ids{0, 1, 1}));
}

TEST(Pairs, TheLongerTextIsCutFirstAndThenBoth) {
  auto tokenizer = tokenizer_of(with_processor(kBert));
  auto lengths = [&](size_t n, size_t m, size_t most) {
    auto pair = join(*tokenizer, Ids(n, 10), Ids(m, 20), most);
    EXPECT_LE(pair.ids.size(), std::max<size_t>(most, 3));
    EXPECT_EQ(pair.ids.size(), pair.types.size());
    return std::pair{std::count(pair.ids.begin(), pair.ids.end(), 10u),
                     std::count(pair.ids.begin(), pair.ids.end(), 20u)};
  };
  using P = std::pair<ptrdiff_t, ptrdiff_t>;
  EXPECT_EQ(lengths(4, 3, 10), (P{4, 3}));
  EXPECT_EQ(lengths(4, 30, 13), (P{4, 6}));
  EXPECT_EQ(lengths(30, 4, 13), (P{6, 4}));
  EXPECT_EQ(lengths(30, 40, 14), (P{5, 6}));
  EXPECT_EQ(lengths(40, 30, 14), (P{6, 5}));
  EXPECT_EQ(lengths(7, 9, 14), (P{5, 6}));
  EXPECT_EQ(lengths(5, 5, 3), (P{0, 0}));
  EXPECT_EQ(lengths(5, 5, 0), (P{0, 0}));
}

TEST(Pairs, ATemplateThatLeavesATextOutIsRefused) {
  Json file = with_processor(kBert);
  file["post_processor"]["pair"].erase(3);
  EXPECT_NE(Tokenizer::parse(file.dump()).error().message.find("post_processor.pair"), std::string::npos);
  file = with_processor(kBert);
  file["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {100000};
  EXPECT_NE(Tokenizer::parse(file.dump()).error().message.find("not in the vocabulary"), std::string::npos);
}

}  // namespace
}  // namespace tokenizers
