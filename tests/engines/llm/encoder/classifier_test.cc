// The heads of classifiers: what config.json says of them. Their scores: encoder_test.cc.
#include "engines/llm/encoder/classifier.h"

#include <gtest/gtest.h>

namespace weir::llm {
namespace {

TEST(Classifiers, WhatConfigJsonSaysOfTheHead) {
  auto parse = [](const std::string& more) {
    return parse_classifier(R"({"architectures": ["BertForSequenceClassification"])" + more + "}");
  };
  using Scores = ClassifierShape::Scores;
  EXPECT_EQ(parse("")->labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(parse("")->scores, Scores::kSoftmax);
  EXPECT_EQ(parse(R"(,"num_labels": 1)")->scores, Scores::kSigmoid);
  EXPECT_EQ(parse(R"(,"num_labels": 3, "problem_type": "multi_label_classification")")->scores, Scores::kSigmoid);
  EXPECT_EQ(parse(R"(,"num_labels": 1, "problem_type": "regression")")->scores, Scores::kLogits);
  EXPECT_EQ(
      parse(
          R"(,"id2label": {"0": "x"}, "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"})")
          ->scores,
      Scores::kLogits);
  EXPECT_EQ(parse(R"(,"sentence_transformers": {"activation_fn": "os.system"})").error().code,
            base::Code::kUnimplemented);
  EXPECT_NE(parse(R"(,"id2label": {"1": "x"})").error().text.find("'id2label'"), std::string::npos);
  EXPECT_NE(parse(R"(,"id2label": {"0": 7})").error().text.find("'id2label'"), std::string::npos);
  EXPECT_NE(parse(R"(,"num_labels": 4000000000)").error().text.find("'num_labels'"), std::string::npos);
}

}  // namespace
}  // namespace weir::llm
