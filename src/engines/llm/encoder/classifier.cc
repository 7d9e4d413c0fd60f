#include "engines/llm/encoder/classifier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engines/llm/load/fields.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

constexpr std::string_view kClassifies = "ForSequenceClassification";
constexpr size_t kMaxLabelText = 512;

using Curve = ClassifierShape::Curve;
using Scores = ClassifierShape::Scores;

struct Head {
  std::string_view family, dense, out;
  Curve curve;
};
constexpr Head kHeads[] = {{"Bert", "bert.pooler.dense", "classifier", Curve::kTanh},
                           {"Roberta", "classifier.dense", "classifier.out_proj", Curve::kTanh},
                           {"XLMRoberta", "classifier.dense", "classifier.out_proj", Curve::kTanh},
                           {"Camembert", "classifier.dense", "classifier.out_proj", Curve::kTanh},
                           {"DistilBert", "pre_classifier", "classifier", Curve::kRelu},
                           {"ModernBert", "head.dense", "classifier", Curve::kGelu}};

// {"0": "negative", "1": "positive"}, or as many as num_labels says: LABEL_0, …
void read_labels(ConfigFields& f, std::vector<std::string>& out) {
  const bool named = f.has("id2label") && f["id2label"].is_object() && !f["id2label"].empty();
  const uint32_t count = named ? uint32_t(std::min<size_t>(f["id2label"].size(), kMaxLabels + 1))
                               : f.count_or("num_labels", 1, kMaxLabels, 2);
  if (count > kMaxLabels) return f.fail("id2label", "has too many labels");
  for (uint32_t i = 0; i < count; ++i) {
    if (!named) {
      out.push_back("LABEL_" + std::to_string(i));
      continue;
    }
    const auto& labels = f["id2label"];
    auto label = labels.find(std::to_string(i));
    if (label == labels.end() || !label->is_string() || label->get_ref<const std::string&>().size() > kMaxLabelText)
      return f.fail("id2label", "has no label of at most 512 bytes for " + std::to_string(i));
    out.push_back(label->get<std::string>());
  }
}

// The activation that sentence-transformers' CrossEncoder wrote down: of one label.
std::optional<Scores> said_by_cross_encoder(ConfigFields& f, base::Status& status) {
  std::string name = f.text_or("sbert_ce_default_activation_function", "");
  if (f.has("sentence_transformers") && f["sentence_transformers"].is_object()) {
    ConfigFields inner(f["sentence_transformers"], status, "config.json: sentence_transformers: ");
    name = inner.text_or("activation_fn", name);
  }
  if (name.empty()) return std::nullopt;
  if (name.ends_with(".Identity")) return Scores::kLogits;
  if (name.ends_with(".Sigmoid")) return Scores::kSigmoid;
  if (name.ends_with(".Softmax")) return Scores::kSoftmax;
  f.fail("activation_fn", "is no activation that is known here: Identity, Sigmoid, Softmax",
         base::Code::kUnimplemented);
  return std::nullopt;
}

Scores scores_of(ConfigFields& f, size_t labels, base::Status& status) {
  if (auto said = said_by_cross_encoder(f, status)) return *said;
  const std::string problem = f.text_or("problem_type", "");
  if (problem == "regression") return Scores::kLogits;
  if (problem == "multi_label_classification" || labels == 1) return Scores::kSigmoid;
  return Scores::kSoftmax;
}

void read_modern_head(ConfigFields& f, ClassifierShape& shape) {
  const std::string pooling = f.text_or("classifier_pooling", "cls"), act = f.text_or("classifier_activation", "gelu");
  if (pooling != "cls" && pooling != "mean")
    f.fail("classifier_pooling", "is neither cls nor mean", base::Code::kUnimplemented);
  if (act != "gelu") f.fail("classifier_activation", "is not gelu", base::Code::kUnimplemented);
  if (f.flag_or("norm_bias", false)) f.fail("norm_bias", "is not supported", base::Code::kUnimplemented);
  shape.pooling = pooling == "cls" ? Pooling::kFirst : Pooling::kMean;
  shape.norm = "head.norm", shape.epsilon = float(f.real_or("norm_eps", 0, 1, 1e-5));
  shape.dense_biased = f.flag_or("classifier_bias", false);
}

void normalize(const std::vector<float>& weight, float epsilon, std::vector<float>& x) {
  double mean = 0, squares = 0;
  for (float v : x) mean += v;
  mean /= double(x.size());
  for (float v : x) squares += (v - mean) * (v - mean);
  const double scale = 1 / std::sqrt(squares / double(x.size()) + epsilon);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float((x[i] - mean) * scale * weight[i]);
}

float curved(Curve curve, float x) {
  if (curve == Curve::kTanh) return std::tanh(x);
  return curve == Curve::kRelu ? std::max(x, 0.0f) : 0.5f * x * (1 + std::erf(x / std::sqrt(2.0f)));
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void softmax(const float* logits, size_t count, float* out) {
  const float most = *std::max_element(logits, logits + count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(double(logits[i]) - most);
  for (size_t i = 0; i < count; ++i) out[i] = float(std::exp(double(logits[i]) - most) / sum);
}

}  // namespace

bool is_classifier(std::string_view architecture) { return architecture.ends_with(kClassifies); }

base::Result<ClassifierShape> parse_classifier(std::string_view config_json) {
  auto parsed = text::parse_model_json(config_json, "config.json");
  if (!parsed) return parsed.error();
  const nlohmann::json& config = *parsed;
  if (!config.is_object()) return base::invalid("config.json is not a JSON object");
  base::Status status;
  ConfigFields f(config, status, "config.json: ");
  std::string architecture;
  if (f.has("architectures") && f["architectures"].is_array() && f["architectures"].size() == 1 &&
      f["architectures"][0].is_string())
    architecture = f["architectures"][0].get<std::string>();
  if (!is_classifier(architecture)) return base::invalid("config.json: 'architectures' is no sequence classifier");
  const auto family = std::string_view(architecture).substr(0, architecture.size() - kClassifies.size());
  ClassifierShape shape;
  const auto* head =
      std::find_if(std::begin(kHeads), std::end(kHeads), [&](const Head& h) { return h.family == family; });
  if (head != std::end(kHeads))
    shape.dense = head->dense, shape.out = head->out, shape.curve = head->curve;
  else
    shape.out = "score", shape.biased = false, shape.pooling = Pooling::kLast;
  if (family == "ModernBert") read_modern_head(f, shape);
  read_labels(f, shape.labels);
  shape.scores = scores_of(f, shape.labels.size(), status);
  if (!status.ok()) return status;
  return shape;
}

base::Result<Classifier> Classifier::load(ClassifierShape shape, uint32_t hidden, const Store& store) {
  Classifier out;
  if (!shape.dense.empty()) {
    auto dense = read(store, shape.dense, hidden, hidden, shape.dense_biased);
    if (!dense) return dense.error();
    out.dense_ = std::move(*dense);
  }
  if (!shape.norm.empty()) {
    auto norm = store.floats(shape.norm + ".weight", {hidden});
    if (!norm) return norm.error();
    out.norm_ = std::move(*norm);
  }
  auto last = read(store, shape.out, uint32_t(shape.labels.size()), hidden, shape.biased);
  if (!last) return last.error();
  out.out_ = std::move(*last);
  out.shape_ = std::move(shape);
  return out;
}

// Files have [outputs][inputs].
base::Result<Classifier::Dense> Classifier::read(const Store& store, const std::string& name, uint32_t outputs,
                                                 uint32_t inputs, bool biased) {
  auto weight = store.floats(name + ".weight", {outputs, inputs});
  if (!weight) return weight.error();
  Dense out{inputs, outputs, std::vector<float>(weight->size()), std::vector<float>(outputs, 0.0f)};
  for (size_t o = 0; o < outputs; ++o)
    for (size_t i = 0; i < inputs; ++i) out.weight[i * outputs + o] = (*weight)[o * inputs + i];
  if (!biased) return out;
  auto bias = store.floats(name + ".bias", {outputs});
  if (!bias) return bias.error();
  out.bias = std::move(*bias);
  return out;
}

void Classifier::Dense::run(const float* x, float* y) const {
  std::copy(bias.begin(), bias.end(), y);
  for (size_t i = 0; i < inputs; ++i) {
    const float* row = weight.data() + i * outputs;
    for (size_t o = 0; o < outputs; ++o) y[o] += x[i] * row[o];
  }
}

void Classifier::run(std::span<const float> state, float* scores, float* logits) const {
  std::vector<float> inner(state.begin(), state.end());
  if (dense_.outputs > 0) {
    dense_.run(state.data(), inner.data());
    for (float& v : inner) v = curved(shape_.curve, v);
    if (!norm_.empty()) normalize(norm_, shape_.epsilon, inner);
  }
  out_.run(inner.data(), logits);
  const size_t count = shape_.labels.size();
  switch (shape_.scores) {
    case Scores::kLogits: std::copy_n(logits, count, scores); break;
    case Scores::kSigmoid: std::transform(logits, logits + count, scores, sigmoid); break;
    case Scores::kSoftmax: softmax(logits, count, scores); break;
  }
}

}  // namespace weir::llm
