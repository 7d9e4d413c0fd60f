// The small files of an encoder's folder.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/encoder/encoder_files.h"
#include "engines/llm/encoder_load.h"

namespace weir::llm {
namespace {

class EncoderFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(path + "/1_Pooling"); }
  void TearDown() override { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path + "/" + name) << text; }
  base::Result<EncoderFiles> read() { return read_encoder_files(*Folder::open(path)); }
  std::string refusal() {
    auto files = read();
    return files ? "taken" : files.error().text;
  }
  std::string path = std::filesystem::temp_directory_path() / ("weir_encoder_files_" + std::to_string(getpid()));
  const std::string steps = R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
    {"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])";
};

TEST_F(EncoderFolder, SaysHowStatesBecomeOneEmbedding) {
  write("modules.json", steps);
  write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  write("sentence_bert_config.json", R"({"max_seq_length":256,"do_lower_case":false})");
  auto files = read();
  ASSERT_TRUE(bool(files)) << files.error().text;
  EXPECT_EQ(files->pooling, Pooling::kFirst);
  EXPECT_EQ(files->scale, Scale::kAsItIs);
  EXPECT_EQ(files->max_length, 256u);
}

TEST_F(EncoderFolder, WhatWouldChangeAnswersIsRefusedByName) {
  write("modules.json", steps);
  EXPECT_NE(refusal().find("1_Pooling"), std::string::npos);
  write("1_Pooling/config.json", R"({"pooling_mode_max_tokens":true})");
  EXPECT_NE(refusal().find("pooling_mode_max_tokens"), std::string::npos);
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true})");
  EXPECT_NE(refusal().find("second way"), std::string::npos);
  write("1_Pooling/config.json", "{}");
  EXPECT_NE(refusal().find("no way of pooling"), std::string::npos);
  for (const char* module : {R"({"path":"2_Dense","type":"sentence_transformers.models.Dense"})", "7",
                             R"({"path":7,"type":"x"})", R"({"path":"../x","type":"a.Pooling"})"}) {
    write("modules.json", "[" + std::string(module) + "]");
    EXPECT_NE(refusal(), "taken") << module;
  }
  write("modules.json", "{}");
  EXPECT_NE(refusal().find("list of steps"), std::string::npos);
}

TEST_F(EncoderFolder, ALinkedFolderIsNotFollowed) {
  write("modules.json", steps);
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  EXPECT_EQ(refusal(), "taken");
  std::filesystem::rename(path + "/1_Pooling", path + "/elsewhere");
  std::filesystem::create_directory_symlink("elsewhere", path + "/1_Pooling");
  EXPECT_EQ(refusal(), "'1_Pooling' is a link");
}

TEST_F(EncoderFolder, AHeadThatIsNotServedIsNamedUnlessTheEncoderIsAskedFor) {
  for (const char* name :
       {"BertForMultipleChoice", "XLMRobertaForQuestionAnswering", "RobertaForTokenClassification"}) {
    const std::string config = R"({"architectures":[")" + std::string(name) + "\"]}";
    auto read = is_encoder(*Folder::open(path), config, {});
    ASSERT_FALSE(bool(read)) << name;
    EXPECT_NE(read.error().text.find(name), std::string::npos) << read.error().text;
    EXPECT_NE(read.error().text.find("task: embed"), std::string::npos);
    EXPECT_TRUE(*is_encoder(*Folder::open(path), config, {{"task", "embed"}}));
  }
  for (const char* name : {"BertForMaskedLM", "BertForSequenceClassification", "Qwen3ForSequenceClassification"})
    EXPECT_TRUE(*is_encoder(*Folder::open(path), R"({"architectures":[")" + std::string(name) + "\"]}", {})) << name;
}

TEST(BertShapes, WhatIsWrongIsNamed) {
  auto with = [](const std::string& more) {
    auto shape = parse_bert_shape(R"({"architectures":["BertModel"],"vocab_size":32,"hidden_size":16,
      "intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":64)" +
                                  more + "}");
    return shape ? std::string("taken") : shape.error().text;
  };
  EXPECT_EQ(with(""), "taken");
  for (auto [more, field] :
       {std::pair(R"(,"hidden_size":15)", "num_attention_heads"), std::pair(R"(,"hidden_act":"relu")", "hidden_act"),
        std::pair(R"(,"position_embedding_type":"relative_key")", "position_embedding_type"),
        std::pair(R"(,"is_decoder":true)", "is_decoder"), std::pair(R"(,"vocab_size":-1)", "vocab_size"),
        std::pair(R"(,"num_hidden_layers":4294967297)", "num_hidden_layers"),
        std::pair(R"(,"architectures":["RobertaModel"],"pad_token_id":63)", "max_position"),
        std::pair(R"(,"architectures":["GPT2Model"])", "architectures")})
    EXPECT_NE(with(more).find(field), std::string::npos) << more << ": " << with(more);
}

}  // namespace
}  // namespace weir::llm
