// Classifier: the head of a sequence classifier or reranker: the state of one token of a text -> a score for each
// label.
//
//   BertForSequenceClassification                      pooler.dense, tanh, classifier       of the first token
//   Roberta-, XLMRoberta-, Camembert…                  classifier.dense, tanh, classifier.out_proj
//   DistilBert…                                        pre_classifier, ReLU, classifier
//   ModernBert…                                        head.dense, gelu, head.norm, classifier: of the first token, or
//                                                      of the mean of all (classifier_pooling)
//   Llama-, Mistral-, Qwen2-, Qwen3…                   score                                of the last token
// as Hugging Face's transformers has them (modeling_*.py). The scores are the logits' sigmoid where there is one label,
// their softmax else; config.json may say otherwise (problem_type, and what sentence-transformers' CrossEncoder writes:
// sentence_transformers.activation_fn, sbert_ce_default_activation_function), as vLLM reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/llm/encoder/encoder.h"
#include "engines/llm/load/store.h"

namespace weir::llm {

inline constexpr uint32_t kMaxLabels = 1 << 14;

// The head as config.json describes it, without the weights.
struct ClassifierShape {
  enum class Curve : uint8_t { kTanh, kRelu, kGelu };
  enum class Scores : uint8_t { kLogits, kSigmoid, kSoftmax };
  std::string dense, out;  // names of the matrices; `dense` is empty where there is one matrix alone
  std::string norm;        // of a layer norm without a bias between the two; empty: there is none
  float epsilon = 1e-5f;   // of it
  bool biased = true;      // the last one
  bool dense_biased = true;
  Curve curve = Curve::kTanh;
  Pooling pooling = Pooling::kFirst;
  Scores scores = Scores::kSigmoid;
  std::vector<std::string> labels;  // at least one
};

// Whether the architecture has such a head ("…ForSequenceClassification").
bool is_classifier(std::string_view architecture);
// Errors: INVALID_ARGUMENT, UNIMPLEMENTED, naming the field.
base::Result<ClassifierShape> parse_classifier(std::string_view config_json);

// Immutable; any thread.
class Classifier {
 public:
  // Errors: INVALID_ARGUMENT naming the array.
  static base::Result<Classifier> load(ClassifierShape shape, uint32_t hidden, const Store& store);

  const ClassifierShape& shape() const { return shape_; }
  // Takes the `hidden` floats of a state, and writes a float for each label to both. The same bits whatever else runs.
  void run(std::span<const float> state, float* scores, float* logits) const;

 private:
  // y[o] = bias[o] + Σ x[i] weight[i][o], in ascending order of i.
  struct Dense {
    uint32_t inputs = 0, outputs = 0;
    std::vector<float> weight, bias;
    void run(const float* x, float* y) const;
  };
  static base::Result<Dense> read(const Store& store, const std::string& name, uint32_t outputs, uint32_t inputs,
                                  bool biased);

  ClassifierShape shape_;
  Dense dense_, out_;
  std::vector<float> norm_;
};

}  // namespace weir::llm
