#include "engines/llm/llm.h"

#include <utility>

#include "engines/llm/encoder_load.h"
#include "engines/llm/fields.h"
#include "engines/llm/options.h"
#include "engines/llm/text_front.h"
#include "engines/llm/text_request.h"
#include "engines/llm/transformer.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

constexpr size_t kMaxConfig = 4 << 20, kMaxTokenizer = 256 << 20;

class LlmEngine final : public sched::Engine {
 public:
  LlmEngine(msg::ModelSpec spec, std::unique_ptr<Transformer> transformer, sched::TokenPolicy policy)
      : spec_(std::move(spec)), transformer_(std::move(transformer)), policy_(policy) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override {
    return base::failure(base::Code::kInternal, "a model of tokens is not stepped in rows");
  }
  std::unique_ptr<msg::Inbox> own_inbox(const msg::ModelSpec& spec, bus::ModelStats& stats,
                                        base::SlabSource&) override {
    return make_text_front(sched::make_token_lane(std::move(transformer_), policy_, spec, stats), spec, stats);
  }

 private:
  msg::ModelSpec spec_;
  std::unique_ptr<Transformer> transformer_;
  sched::TokenPolicy policy_;
};

// A folder and what its small files say, before the weights are touched.
struct Loading {
  const msg::ModelSpec& wanted;
  Options options;
  Folder folder;
  Model model;
  std::shared_ptr<msg::TextSpec> text = std::make_shared<msg::TextSpec>();
};

base::Status read_processor(Loading& l) {
  std::string files[3];
  const char* names[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
  for (int i = 0; i < 3; ++i) {
    auto text = i == 0 ? l.folder.read(names[i], kMaxTokenizer) : l.folder.read_if_there(names[i], kMaxConfig);
    if (!text) return text.error();
    files[i] = std::move(*text);
  }
  auto processor = text::make_processor(files[0], files[1], files[2]);
  if (!processor) return processor.error();
  l.text->processor = std::move(*processor);
  return {};
}

base::Status read_defaults(Loading& l) {
  auto text = l.folder.read_if_there("generation_config.json", kMaxConfig);
  if (!text) return text.error();
  if (text->empty()) return {};
  auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return base::invalid("generation_config.json is not a JSON object");
  base::Status status;
  Fields f(json, status, "generation_config.json: ");
  msg::Sampling& s = l.text->defaults;
  s.temperature = float(f.real_or("temperature", 0, 100, 1));
  s.top_p = float(f.real_or("top_p", 1e-9, 1, 1));
  s.min_p = float(f.real_or("min_p", 0, 1, 0));
  s.top_k = f.count_or("top_k", 0, 1u << 30, 0);
  s.repetition_penalty = float(f.real_or("repetition_penalty", 1e-3, 100, 1));
  auto ids = f.ids_or_none("eos_token_id", l.model.shape.vocabulary - 1);
  if (!ids.empty()) l.text->eos_ids = std::move(ids);
  return status;
}

base::Status read_text(Loading& l) {
  if (auto s = read_processor(l); !s.ok()) return s;
  const Shape& shape = l.model.shape;
  msg::TextSpec& text = *l.text;
  text.vocabulary = shape.vocabulary, text.hidden_size = shape.hidden, text.eos_ids = shape.eos_ids;
  text.max_length = l.options.max_length > 0 ? std::min(l.options.max_length, shape.max_length) : shape.max_length;
  if (auto s = read_defaults(l); !s.ok()) return s;
  const auto& processor = *text.processor;
  if (text.eos_ids.empty())
    if (auto id = processor.tokenizer->id(processor.eos); id && *id < shape.vocabulary) text.eos_ids.push_back(*id);
  text.concepts = l.model.readouts.concepts;
  text.readout_layers = l.model.readouts.layers;
  text.readout_dtype = l.model.readouts.dtype;
  return {};
}

msg::ModelSpec spec_of(const Loading& l) {
  msg::ModelSpec spec = l.wanted;
  spec.engine = "llm";
  if (spec.platform.empty()) spec.platform = "weir_llm";
  spec.max_batch = 0;
  spec.inputs = text_inputs();
  spec.outputs = {{"text_output", msg::DType::kBytes, {1}, false, {}}};
  spec.text = l.text;
  return spec;
}

base::Status read_weights(Loading& l, Team& team) {
  auto store = Store::open(l.folder);
  if (!store) return store.error();
  Stored stored = store->usual_form();
  Model& model = l.model;
  model.form = l.options.form.value_or(stored == Stored::kF32 ? Form::kF32 : Form::kBf16);
  auto weights = load_weights(model.shape, *store, model.form, team);
  if (!weights) return weights.error();
  model.weights = std::move(*weights);
  if (!model.shape.vision) return {};
  auto tower = Tower::load(model.shape, *store, model.form, team);
  if (!tower) return tower.error();
  model.tower = std::move(*tower);
  l.text->vision = msg::TextSpec::Vision{model.shape.vision->start_id, model.shape.vision->pad_id,
                                         model.shape.vision->end_id, Tower::counter(*model.shape.vision)};
  return {};
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const std::string& config) {
  auto options = read_options(wanted.parameters);
  if (!options) return options.error();
  size_t slash = config.rfind('/');
  auto folder = Folder::open(slash == config.npos ? "." : config.substr(0, slash));
  if (!folder) return folder.error();
  Loading l{wanted, *options, std::move(*folder), {}};
  auto json = l.folder.read(config.substr(slash + 1), kMaxConfig);
  if (!json) return json.error();
  auto encoder = is_encoder(l.folder, *json, wanted.parameters);
  if (!encoder) return encoder.error();
  if (*encoder) return load_encoder(wanted, l.options, l.folder, *json);
  if (wanted.instances > 1)
    return base::invalid("a model of tokens has one instance: it batches, and shares its keys and values");
  auto shape = parse_shape(*json);
  if (!shape) return shape.error();
  shape->encoder = false, shape->causal = true;
  l.model.shape = std::move(*shape);
  auto readouts = load_readouts(l.model.shape, l.folder);
  if (!readouts) return readouts.error();
  l.model.readouts = std::move(*readouts);
  if (auto s = read_text(l); !s.ok()) return s;
  auto team = std::make_unique<Team>(l.options.threads);
  if (auto s = read_weights(l, *team); !s.ok()) return s;
  l.model.text = l.text;
  auto transformer = std::make_unique<Transformer>(std::move(l.model), *l.options.kernels, std::move(team),
                                                   l.options.policy.step_tokens);
  return std::unique_ptr<sched::Engine>(
      std::make_unique<LlmEngine>(spec_of(l), std::move(transformer), l.options.policy));
}

}  // namespace weir::llm
