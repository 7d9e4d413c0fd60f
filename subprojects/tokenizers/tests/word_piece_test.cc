#include "tiny_tokenizers.h"

namespace tokenizers {
namespace {

using Pieces = std::vector<std::string>;

Json word_piece_file(std::vector<std::string> pieces) {
  Json file = Json::parse(R"({
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
      "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
        "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "added_tokens": [{"id": 1, "content": "[CLS]", "special": true}, {"id": 2, "content": "[SEP]", "special": true}],
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}}})");
  for (const auto& piece : pieces) file["model"]["vocab"][piece] = file["model"]["vocab"].size();
  return file;
}

TEST(WordPiece, TheLongestPieceComesFirstAndTheRestGoesOn) {
  auto tokenizer = tokenizer_of(word_piece_file({"un", "una", "##aff", "##ff", "##able", "##a", "##b"}));
  EXPECT_EQ(pieces(*tokenizer, "unaffable"), (Pieces{"una", "##ff", "##able"}));
  EXPECT_EQ(pieces(*tokenizer, "un unab", AddSpecial::kYes), (Pieces{"[CLS]", "un", "una", "##b", "[SEP]"}));
}

TEST(WordPiece, AWordWithAnUnknownPartIsUnknownAsAWhole) {
  auto tokenizer = tokenizer_of(word_piece_file({"a", "##b"}));
  EXPECT_EQ(pieces(*tokenizer, "abb abc b a"), (Pieces{"a", "##b", "##b", "[UNK]", "[UNK]", "a"}));
}

TEST(WordPiece, LongWordsAreUnknownByTheirCharacters) {
  Json file = word_piece_file({"é", "##é"});
  file["normalizer"]["strip_accents"] = false;
  file["model"]["max_input_chars_per_word"] = 3;
  auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(pieces(*tokenizer, "ééé"), (Pieces{"é", "##é", "##é"}));
  EXPECT_EQ(pieces(*tokenizer, "éééé"), (Pieces{"[UNK]"}));
}

TEST(WordPiece, TextIsCleanedLoweredAndCutAtPunctuationAndIdeographs) {
  auto tokenizer = tokenizer_of(word_piece_file({"a", "e", "##e", "!", "中", "文"}));
  EXPECT_EQ(pieces(*tokenizer, "A\tÉe!!\x01 中文a"), (Pieces{"a", "e", "##e", "!", "!", "中", "文", "a"}));
}

TEST(WordPiece, DecodingPutsSpacesBetweenWordsAndNoneBeforePunctuation) {
  auto tokenizer = tokenizer_of(word_piece_file({"it", "##s", "'", "."}));
  auto ids = tokenizer->encode("Its its.", AddSpecial::kYes);
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kYes), "its its.");
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kNo), "[CLS] its its. [SEP]");
}

TEST(WordPiece, AFileThatIsWrongIsRefusedByTheNameOfItsPart) {
  auto with = [&](const char* pointer, Json value) {
    Json file = word_piece_file({"a"});
    file[Json::json_pointer(pointer)] = std::move(value);
    auto tokenizer = Tokenizer::parse(file.dump());
    return tokenizer ? std::string("taken") : tokenizer.error().message;
  };
  EXPECT_NE(with("/model/unk_token", "nobody").find("model.unk_token"), std::string::npos);
  EXPECT_NE(with("/model/continuing_subword_prefix", "").find("continuing_subword_prefix"), std::string::npos);
  EXPECT_NE(with("/model/max_input_chars_per_word", 0).find("max_input_chars_per_word"), std::string::npos);
  EXPECT_NE(with("/decoder/prefix", "").find("decoder.prefix"), std::string::npos);
  EXPECT_NE(with("/pre_tokenizer/type", "ByteLevel").find("model"), std::string::npos);
  EXPECT_NE(with("/post_processor/special_tokens/[SEP]/ids", Json{99}).find("post_processor"), std::string::npos);
}

}  // namespace
}  // namespace tokenizers
