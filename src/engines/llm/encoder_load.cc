#include "engines/llm/encoder_load.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/units.h"
#include "engines/llm/cpu/weights.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/device_bert.h"
#include "engines/llm/cuda/device_rotary.h"
#include "engines/llm/encoder/bert.h"
#include "engines/llm/encoder/classifier.h"
#include "engines/llm/encoder/encoder_engine.h"
#include "engines/llm/encoder/encoder_files.h"
#include "engines/llm/encoder/rotary_encoder.h"
#include "engines/llm/load/fields.h"
#include "engines/llm/turn.h"
#include "text/model_json.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

constexpr size_t kMaxEncoderConfig = 4 << 20, kMaxEncoderTokenizer = 256 << 20;

using Parameters = std::map<std::string, std::string>;

const std::string& parameter(const Parameters& all, const char* name, const std::string& otherwise) {
  auto found = all.find(name);
  return found == all.end() ? otherwise : found->second;
}

base::Status wrong(const char* name, const std::string& value, const char* expected) {
  return base::invalid("parameter '" + std::string(name) + "' is \"" + value + "\": " + expected + " is expected");
}

std::string architecture_of(std::string_view config_json) {
  auto config = text::parse_model_json(config_json, "config.json");
  if (!config || !config->is_object() || !config->contains("architectures")) return {};
  const auto& names = (*config)["architectures"];
  return names.is_array() && names.size() == 1 && names[0].is_string() ? names[0].get<std::string>() : std::string();
}

// A folder and what its small files say, before the weights are touched.
struct EncoderLoading {
  const msg::ModelSpec& wanted;
  const Options& options;
  const Folder& folder;
  std::string_view config;
  const Place& place;
  const GgufEncoder* gguf;
  EncoderFiles files;
  EncoderManners manners;
  std::unique_ptr<ThreadTeam> team;
  std::optional<ClassifierShape> head;
};

base::Status read_manners(EncoderLoading& l) {
  static const std::string kAuto = "auto";
  const Parameters& all = l.wanted.parameters;
  const std::string &pooling = parameter(all, "pooling", kAuto), &normalize = parameter(all, "normalize", kAuto);
  l.manners.scale = l.files.scale;
  if (pooling == "mean" || (pooling == "auto" && !l.files.pooling))
    l.manners.pooling = Pooling::kMean;
  else if (pooling == "cls")
    l.manners.pooling = Pooling::kFirst;
  else if (pooling == "last")
    l.manners.pooling = Pooling::kLast;
  else if (pooling == "auto")
    l.manners.pooling = *l.files.pooling;
  else
    return wrong("pooling", pooling, "auto, mean, cls or last");
  if (normalize == "auto") return {};
  auto on = base::parse_switch(normalize);
  if (!on) return wrong("normalize", normalize, "auto, on or off");
  l.manners.scale = *on ? Scale::kLengthOne : Scale::kAsItIs;
  return {};
}

EncoderFiles files_of(const GgufTexts::Embedding& embedding) {
  EncoderFiles files;
  const std::optional<Pooling> ways[] = {{}, Pooling::kMean, Pooling::kFirst, Pooling::kLast};
  files.pooling = ways[embedding.pooling];  // its config.json has seen that it is one of these
  files.scale = embedding.normalized ? Scale::kLengthOne : Scale::kAsItIs;
  return files;
}

// The folder of a classifier says nothing of pooling.
base::Status read_files(EncoderLoading& l) {
  static const std::string kAuto = "auto";
  const Parameters& all = l.wanted.parameters;
  if (!is_classifier(architecture_of(l.config)) || parameter(all, "task", kAuto) == "embed") {
    if (l.gguf) return l.files = files_of(*l.gguf->texts.embedding), read_manners(l);
    auto files = read_encoder_files(l.folder);
    if (!files) return files.error();
    l.files = *files;
    return read_manners(l);
  }
  for (const char* name : {"pooling", "normalize"})
    if (const std::string& value = parameter(all, name, kAuto); value != "auto")
      return wrong(name, value, "auto of a classifier, which gives no embeddings,");
  auto head = parse_classifier(l.config);
  if (!head) return head.error();
  l.head = std::move(*head);
  return {};
}

uint32_t length_of(const EncoderLoading& l, uint32_t most) {
  if (l.options.max_length > 0) return context_length(l.options, l.wanted.name, most);
  return std::min(l.files.max_length.value_or(most), most);
}

WeightFormat form_of(const EncoderLoading& l, const Store& store) {
  return l.options.form.value_or(exact_form(store.usual_form()));
}

base::Status load_head(EncoderLoading& l, uint32_t hidden, const Store& store) {
  if (!l.head) return {};
  l.manners.pooling = l.head->pooling;
  auto head = Classifier::load(*std::move(l.head), hidden, store);
  if (!head) return head.error();
  l.manners.classifier = *std::move(head);
  return {};
}

// A device that was lost begins anew.
base::Result<const cuda::Kernels*> start(const EncoderLoading& l, device::Device& device) {
  if (auto s = device.restart(); !s.ok()) return s;
  return cuda::open_kernels(device, *l.place.devices);
}

cuda::DeviceEncoderOptions options_on(const EncoderLoading& l, const device::Device& device) {
  return {.broken = l.place.broken, .graphs = l.options.graphs, .capture_time = cuda::capture_time(device) / 2};
}

base::Result<std::unique_ptr<Encoder>> load_on_device(EncoderLoading& l, const BertShape& shape, const Store& store,
                                                      device::Device& device) {
  auto turn = take_turn(l.place, device);
  if (!turn) return turn.error();
  auto kernels = start(l, device);
  if (!kernels) return kernels.error();
  if (auto s = cuda::DeviceBert::check(shape, device, **kernels); !s.ok()) return s;
  auto weights = cuda::load_device_bert(shape, store, device);
  if (!weights) return weights.error();
  auto bert = cuda::DeviceBert::make(device, **kernels, shape, std::move(*weights), length_of(l, shape.max_length()),
                                     l.options.policy.step_tokens, options_on(l, device));
  if (!bert) return bert.error();
  return std::unique_ptr<Encoder>(std::move(*bert));
}

base::Result<Store> open_encoder_store(const EncoderLoading& l) {
  if (!l.gguf) return Store::open(l.folder, l.place.loading);
  auto model = open_gguf(l.folder, l.gguf->file);
  return model ? Store::open(std::move(*model), l.place.loading) : model.error();
}

base::Result<std::unique_ptr<Encoder>> load_bert(EncoderLoading& l) {
  auto shape = parse_bert_shape(l.config);
  if (!shape) return shape.error();
  l.manners.pad_id = shape->pad_id;
  auto store = open_encoder_store(l);
  if (!store) return store.error();
  if (auto s = load_head(l, shape->hidden, *store); !s.ok()) return s;
  auto device = cuda::choose_device(
      l.options, l.place.devices, l.wanted.name,
      [&](const auto& on, const auto& kernels) { return cuda::DeviceBert::check(*shape, on, kernels); });
  if (!device) return device.error();
  if (*device) return load_on_device(l, *shape, *store, **device);
  const WeightFormat form = form_of(l, *store);
  auto weights = load_bert_weights(*shape, *store, form, *l.team);
  if (!weights) return weights.error();
  const uint32_t length = length_of(l, shape->max_length());
  auto bert = Bert::make(std::move(*shape), std::move(*weights), form, *l.options.kernels, std::move(l.team), length,
                         l.options.policy.step_tokens);
  if (!bert) return bert.error();
  return std::unique_ptr<Encoder>(std::move(*bert));
}

base::Result<std::unique_ptr<Encoder>> load_on_device(EncoderLoading& l, const Shape& shape,
                                                      const EncoderLimits& limits, const Store& store,
                                                      device::Device& device) {
  auto turn = take_turn(l.place, device);
  if (!turn) return turn.error();
  auto kernels = start(l, device);
  if (!kernels) return kernels.error();
  if (auto s = cuda::DeviceRotary::check(shape, device, **kernels); !s.ok()) return s;
  auto weights = cuda::load_device_weights(shape, {}, store, device, {}, {l.options.keep, l.options.threads});
  if (!weights) return weights.error();
  auto encoder = cuda::DeviceRotary::make(device, **kernels, shape, std::move(*weights), limits, options_on(l, device));
  if (!encoder) return encoder.error();
  return std::unique_ptr<Encoder>(std::move(*encoder));
}

base::Result<std::unique_ptr<Encoder>> load_on_cpu(EncoderLoading& l, Shape shape, const EncoderLimits& limits,
                                                   const Store& store) {
  Model model;
  model.form = l.options.form.value_or(usual_form(shape, store, l.options.keep));
  auto weights = load_weights(shape, store, model.form, *l.team, l.options.keep);
  if (!weights) return weights.error();
  model.shape = std::move(shape), model.weights = std::move(*weights);
  model.text = std::make_shared<msg::TextSpec>();
  return make_rotary_encoder(
      std::make_unique<Transformer>(std::move(model), *l.options.kernels, std::move(l.team), limits.pack_tokens),
      limits);
}

base::Result<std::unique_ptr<Encoder>> load_rotary(EncoderLoading& l) {
  auto shape = parse_shape(l.config);
  if (!shape) return shape.error();
  shape->encoder = true;
  shape->vision.reset();
  auto store = Store::open(l.folder, l.place.loading);
  if (!store) return store.error();
  if (auto s = load_head(l, shape->hidden, *store); !s.ok()) return s;
  EncoderLimits limits{shape->vocabulary,   0, shape->hidden, length_of(l, shape->max_length), 0, 0,
                       Places::kAmongTokens};
  limits.pack_tokens = EncoderLimits::taken(std::max(limits.max_length, l.options.policy.step_tokens));
  auto device = cuda::choose_device(
      l.options, l.place.devices, l.wanted.name,
      [&](const auto& on, const auto& kernels) { return cuda::DeviceRotary::check(*shape, on, kernels); });
  if (!device) return device.error();
  if (*device) return load_on_device(l, *shape, limits, *store, **device);
  return load_on_cpu(l, std::move(*shape), limits, *store);
}

// Null without a tokenizer.
base::Result<std::shared_ptr<const text::Processor>> read_processor(const EncoderLoading& l) {
  static const std::string kOn = "on";
  const std::string& said = parameter(l.wanted.parameters, "tokenizer", kOn);
  auto on = base::parse_switch(said);
  if (!on) return wrong("tokenizer", said, "on or off");
  auto tokenizer = l.gguf ? base::Result<std::string>(l.gguf->texts.tokenizer)
                          : l.folder.read_if_there("tokenizer.json", kMaxEncoderTokenizer);
  if (!tokenizer) return tokenizer.error();
  if (!*on || tokenizer->empty()) return std::shared_ptr<const text::Processor>();
  auto config = l.gguf ? base::Result<std::string>(l.gguf->texts.tokenizer_config)
                       : l.folder.read_if_there("tokenizer_config.json", kMaxEncoderConfig);
  if (!config) return config.error();
  auto processor = text::make_processor(*tokenizer, *config, "");
  if (!processor)
    return base::failure(processor.error().code,
                         processor.error().text + " (with the parameter tokenizer: off the model takes token ids)");
  return *processor;
}

}  // namespace

base::Result<bool> is_encoder(const Folder& folder, std::string_view config_json, const Parameters& parameters) {
  static const std::string kAuto = "auto";
  const std::string& task = parameter(parameters, "task", kAuto);
  if (task == "embed" || task == "generate") return task == "embed";
  if (task != "auto") return wrong("task", task, "auto, embed or generate");
  std::string architecture = architecture_of(config_json);
  if (is_classifier(architecture)) return true;
  for (const char* head : {"ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"})
    if (architecture.ends_with(head))
      return base::failure(base::Code::kUnimplemented,
                           "config.json: 'architectures' is " + base::presentable(architecture, 200) +
                               ", whose head is not served; the parameter task: embed serves the encoder below "
                               "it, for embeddings");
  if (is_bert(architecture)) return true;
  if (!architecture.ends_with("Model") && !architecture.ends_with("ForCausalLM")) return false;
  auto modules = folder.read_if_there("modules.json", kMaxEncoderConfig);
  if (!modules) return modules.error();
  if (!modules->empty()) return true;
  auto shape = parse_shape(config_json);
  return shape && shape->encoder;
}

base::Result<std::unique_ptr<sched::Engine>> load_encoder(const msg::ModelSpec& wanted, const Options& options,
                                                          const Folder& folder, std::string_view config_json,
                                                          const Place& place, const GgufEncoder* gguf) {
  EncoderLoading l{wanted, options, folder, config_json, place, gguf, {}, {}, nullptr, {}};
  if (auto s = read_files(l); !s.ok()) return s;
  auto processor = read_processor(l);
  if (!processor) return processor.error();
  l.team = std::make_unique<ThreadTeam>(options.threads, options.cores);
  auto encoder = is_bert(architecture_of(config_json)) ? load_bert(l) : load_rotary(l);
  if (!encoder) return encoder.error();
  const EncoderLimits& limits = (*encoder)->limits();
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = limits.max_length, text->vocabulary = limits.vocabulary, text->hidden_size = limits.hidden;
  text->normalized = l.manners.scale == Scale::kLengthOne;
  if (l.manners.classifier) text->labels = uint32_t(l.manners.classifier->shape().labels.size());
  text->codec = std::move(*processor);
  msg::ModelSpec spec = wanted;
  spec.engine = "llm";
  if (spec.platform.empty()) spec.platform = "weir_llm";
  if (spec.max_batch == 0) spec.max_batch = UINT32_MAX;
  spec.encoder = std::move(text);
  describe_encoder(limits, l.manners, spec);
  return make_encoder_engine(std::move(spec), std::move(*encoder), std::move(l.manners));
}

}  // namespace weir::llm
