// Texts as ids and tensors, and the messages in which origins embed and rank them.
#include <gtest/gtest.h>

#include <cstring>

#include "base/encoding.h"
#include "engines/forward/openai/byte_ids.h"
#include "engines/forward/openai/rows_message.h"
#include "engines/forward/openai/text_rows.h"
#include "marshal/encoder.h"

namespace weir::forward {
namespace {

using Body = RowsForm::Body;
using Ids = std::vector<uint32_t>;

Ids bytes(std::string_view text) { return byte_ids::make_codec()->encode(text, msg::AddSpecial::kYes); }

msg::Tensor ids_row(const Ids& ids) { return marshal::ids_tensor(kIdsInput, ids); }

msg::Tensor strings(const char* name, const std::vector<std::string>& elements) {
  std::string data;
  for (const auto& one : elements) msg::append_string(data, one);
  return {name, msg::DType::kBytes, {int64_t(elements.size()), 1}, base::Bytes::adopt(data)};
}

base::Result<TextRows> read(RowsFor what, std::vector<msg::Tensor> inputs) {
  msg::Call call;
  call.inputs = std::move(inputs);
  return read_text_rows(call, what, byte_ids::kVocabulary);
}

std::string refusal(RowsFor what, std::vector<msg::Tensor> inputs) {
  auto rows = read(what, std::move(inputs));
  return rows ? "" : rows.error().text;
}

TEST(ByteIds, ATextIsItsBytes) {
  const auto codec = byte_ids::make_codec();
  const Ids ids = codec->encode("Grüße", msg::AddSpecial::kNo);
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(ids[0], byte_ids::kBytes + 'G');
  EXPECT_EQ(codec->decode(ids, msg::SkipSpecial::kYes), "Grüße");
  EXPECT_EQ(codec->decode(Ids{5, byte_ids::kPairMark, byte_ids::kBytes + 'x'}, msg::SkipSpecial::kYes), "x");
}

TEST(ByteIds, TheLongerTextOfAPairIsCutBetweenCharacters) {
  const auto codec = byte_ids::make_codec();
  const auto joined = [&](std::string_view first, std::string_view second, size_t most) {
    const auto pair = codec->join_pair(bytes(first), bytes(second), most);
    EXPECT_LE(pair.ids.size(), most);
    auto rows = read(RowsFor::kRanking, {ids_row(pair.ids)});
    return rows ? rows->query + "|" + rows->texts[0] : rows.error().text;
  };
  EXPECT_EQ(joined("ab", "cdef", 7), "ab|cdef");
  EXPECT_EQ(joined("ab", "cdef", 5), "ab|cd");
  EXPECT_EQ(joined("ab", "üöä", 6), "ab|ü");  // not half of a character
  EXPECT_EQ(joined("abcd", "efgh", 5), "ab|ef");
  EXPECT_EQ(codec->join_pair({}, {}, 0).ids.size(), 1u);
}

TEST(ByteIds, ADecoderTellsWholeCharacters) {
  auto decoder = byte_ids::make_codec()->decoder(msg::SkipSpecial::kYes);
  std::string out;
  const Ids ids = bytes("ü");
  decoder->step(ids[0], out);
  EXPECT_EQ(out, "");
  decoder->step(ids[1], out);
  EXPECT_EQ(out, "ü");
  decoder->step(ids[0], out);
  decoder->finish(out);
  EXPECT_EQ(out, "ü\xef\xbf\xbd");
}

TEST(TextRows, IdsOfTheOriginAndTextsAreToldApart) {
  auto tokens = read(RowsFor::kEmbeddings, {ids_row({5, 100000})});
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->ids, (std::vector<Ids>{{5, 100000}}));
  EXPECT_EQ(tokens->weight(0), 8u);
  auto text = read(RowsFor::kEmbeddings, {ids_row(bytes("Grüße"))});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->texts, std::vector<std::string>{"Grüße"});
  EXPECT_FALSE(same_kind(*tokens, *text));
  for (size_t cut : {1, 2, 3}) {
    Ids ids = bytes("a🙂");
    ids.resize(ids.size() - cut);
    EXPECT_EQ(read(RowsFor::kEmbeddings, {ids_row(ids)})->texts, std::vector<std::string>{"a"}) << cut;
  }
}

TEST(TextRows, WhatIsNoTextIsRefusedByItsRow) {
  constexpr auto kEmbed = RowsFor::kEmbeddings, kRank = RowsFor::kRanking;
  EXPECT_EQ(refusal(kEmbed, {}), "either 'input_ids' or 'text' is needed");
  EXPECT_EQ(refusal(kEmbed, {ids_row({1}), strings(kTextInput, {"a"})}), "either 'input_ids' or 'text' is needed");
  EXPECT_EQ(refusal(kEmbed, {ids_row({byte_ids::kVocabulary})}), "row 0: token id 16777473 is not in the vocabulary");
  EXPECT_EQ(refusal(kEmbed, {ids_row({byte_ids::kBytes + 'a', 1})}),
            "row 0: texts and token ids cannot be mixed in one row");
  EXPECT_EQ(refusal(kEmbed, {ids_row({byte_ids::kBytes + 0xc3, byte_ids::kBytes + 'a'})}),
            "row 0: the text is not UTF-8");
  EXPECT_EQ(refusal(kEmbed, {strings(kTextInput, {"a", "\xff"})}), "row 1: the text is not UTF-8");
  EXPECT_EQ(refusal(kEmbed, {strings(kTextInput, {std::string(kMostRowBytes, 'x'), "x"})}),
            "the texts of a request must have at most 1048576 bytes");
  EXPECT_EQ(refusal(kEmbed, {strings(kTextInput, {"a"}), strings(kQueryInput, {"a"})}), "'query' is for 'text' alone");
  EXPECT_EQ(refusal(kRank, {strings(kTextInput, {"a"})}), "'query' is missing");
  EXPECT_EQ(refusal(kRank, {ids_row({1, 2})}), "row 0: the model ranks texts, not token ids");
  EXPECT_EQ(refusal(kRank, {ids_row(bytes("a"))}), "row 0: a text without a query");
  EXPECT_EQ(refusal(kRank, {strings(kTextInput, {"a", "b"}), strings(kQueryInput, {"p", "q"})}),
            "row 1: all rows of a request must have the same query");
}

TEST(TextRows, WhatIsWrittenIsWhatWasRead) {
  for (RowsFor what : {RowsFor::kEmbeddings, RowsFor::kRanking}) {
    TextRows rows{.texts = {"Grüße", "b"}, .ids = {}, .query = what == RowsFor::kRanking ? "which?" : ""};
    auto again = read(what, write_text_rows(rows, what));
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_EQ(again->texts, rows.texts);
    EXPECT_EQ(again->query, rows.query);
  }
  TextRows ids{.texts = {}, .ids = {{1, 2, 3}, {4}}, .query = {}};
  auto again = read(RowsFor::kEmbeddings, write_text_rows(ids, RowsFor::kEmbeddings));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->ids, ids.ids);
}

TEST(RowsMessage, RequestsInEveryForm) {
  const TextRows texts{.texts = {"a \"b\"", "c"}, .ids = {}, .query = "q"};
  const TextRows ids{.texts = {}, .ids = {{1, 2}, {3}}, .query = {}};
  EXPECT_EQ(write_rows_request(texts, Body::kBase64, "m"),
            R"({"model":"m","input":["a \"b\"","c"],"encoding_format":"base64"})");
  EXPECT_EQ(write_rows_request(ids, Body::kFloats, "m"), R"({"model":"m","input":[[1,2],[3]]})");
  EXPECT_EQ(write_rows_request(texts, Body::kDocuments, "m"),
            R"({"model":"m","query":"q","documents":["a \"b\"","c"],"return_documents":false})");
  EXPECT_EQ(write_rows_request(texts, Body::kTexts, "m"), R"({"model":"m","query":"q","texts":["a \"b\"","c"]})");
  EXPECT_EQ(write_rows_request(texts, Body::kPairs, "m"), R"({"model":"m","text_1":"q","text_2":["a \"b\"","c"]})");
}

TEST(RowsMessage, EmbeddingsInAnyOrderAndEitherForm) {
  const float values[] = {0.5f, -2};
  const std::string coded = base::base64_encode({reinterpret_cast<const char*>(values), sizeof values});
  auto answer = read_embeddings(R"({"data":[{"index":1,"embedding":[1,2.5]},{"embedding":")" + coded +
                                    R"(","index":0}],"usage":{"prompt_tokens":7,"total_tokens":9}})",
                                2, 2);
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ(answer->values, (std::vector<float>{0.5f, -2, 1, 2.5f}));
  EXPECT_EQ(answer->tokens, 7u);
  auto unnumbered = read_embeddings(R"({"data":[{"embedding":[1]},{"embedding":[2]}]})", 2, 0);
  ASSERT_TRUE(unnumbered) << unnumbered.error().text;
  EXPECT_EQ(unnumbered->values, (std::vector<float>{1, 2}));
  EXPECT_FALSE(unnumbered->tokens);
}

TEST(RowsMessage, EmbeddingsThatAreWrongAreRefused) {
  for (std::string_view json :
       {R"({})", R"({"data":null})", R"({"data":[]})", R"({"data":[{"index":0,"embedding":[]}]})",
        R"({"data":[{"index":0,"embedding":[1]}]})", R"({"data":[{"index":0,"embedding":[1,2,3]}]})",
        R"({"data":[{"index":0,"embedding":[1,"2"]}]})", R"({"data":[{"index":0,"embedding":[1,1e99]}]})",
        R"({"data":[{"index":-1,"embedding":[1,2]}]})", R"({"data":[{"index":1,"embedding":[1,2]}]})",
        R"({"data":[{"index":0,"embedding":"AAAA"}]})", R"({"data":[{"index":0}]})",
        R"({"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]})",
        R"({"data":[{"index":0,"embedding":"AADAfwAAwH8="}]})", R"([])", "<html>", ""}) {
    auto answer = read_embeddings(json, 1, 2);
    ASSERT_FALSE(answer) << json;
    EXPECT_EQ(answer.error().code, base::Code::kInternal) << json;
  }
  EXPECT_FALSE(read_embeddings(R"({"data":[{"index":0,"embedding":[1]},{"embedding":[2]}]})", 2, 1));
}

TEST(RowsMessage, RankingsOfEveryServer) {
  for (std::string_view json :
       {R"({"results":[{"index":1,"relevance_score":0.25},{"index":0,"relevance_score":-3}]})",
        R"([{"index":1,"score":0.25},{"index":0,"score":-3}])",
        R"({"object":"list","data":[{"index":0,"object":"score","score":-3},{"index":1,"score":0.25}]})"}) {
    auto answer = read_ranking(json, 2);
    ASSERT_TRUE(answer) << answer.error().text;
    EXPECT_EQ(answer->values, (std::vector<float>{-3, 0.25f}));
  }
  auto cohere = read_ranking(
      R"({"results":[{"index":0,"relevance_score":1}],"meta":{"billed_units":{"search_units":1},"tokens":{"input_tokens":5}}})",
      1);
  ASSERT_TRUE(cohere) << cohere.error().text;
  EXPECT_EQ(cohere->tokens, 5u);
  EXPECT_FALSE(read_ranking(R"({"results":[{"relevance_score":1}]})", 1));
  EXPECT_FALSE(read_ranking(R"({"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]})", 2));
  auto told = read_ranking(R"({"error":{"message":"out of luck","code":429}})", 1);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().text, "out of luck");
  EXPECT_EQ(read_ranking(R"({"error":{}})", 1).error().text, "it answered with an error, without a word");
}

}  // namespace
}  // namespace weir::forward
