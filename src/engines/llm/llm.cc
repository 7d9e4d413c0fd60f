#include "engines/llm/llm.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/cpu/transformer.h"
#include "engines/llm/cpu/weights.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/cuda/device_transformer.h"
#include "engines/llm/encoder_load.h"
#include "engines/llm/load/details.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/loading.h"
#include "engines/llm/options.h"
#include "engines/llm/text_model.h"
#include "engines/llm/turn.h"
#include "generation/kv_budget.h"
#include "marshal/generation_config.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

constexpr size_t kMaxConfig = 4 << 20, kMaxTokenizer = 256 << 20;

// Whatever it is called.
bool is_gguf(const Loading& l) {
  if (l.file.ends_with(".gguf")) return true;
  auto mapping = l.folder.map(l.file);
  return mapping && begins_as_gguf(mapping->bytes());
}

}  // namespace

base::Result<Store> open_store(const Loading& l, const Place& place) {
  if (!l.gguf) return Store::open(l.folder, place.loading);
  auto model = open_gguf(l.folder, l.file);
  return model ? Store::open(std::move(*model), place.loading) : model.error();
}

namespace {

base::Status read_processor(Loading& l) {
  std::string files[3];
  const char* names[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
  if (l.gguf) files[0] = std::move(l.gguf->tokenizer), files[1] = std::move(l.gguf->tokenizer_config);
  for (int i = l.gguf ? 2 : 0; i < 3; ++i) {
    auto text = i == 0 ? l.folder.read(names[i], kMaxTokenizer) : l.folder.read_if_there(names[i], kMaxConfig);
    if (!text) return text.error();
    files[i] = std::move(*text);
  }
  const auto tool_format = l.wanted.parameters.find("tool_format");
  auto processor =
      text::make_processor(files[0], files[1], files[2],
                           tool_format == l.wanted.parameters.end() ? std::string_view() : tool_format->second);
  if (!processor) return l.named(processor.error());
  l.eos = (*processor)->tokenizer->id((*processor)->eos);
  l.text->codec = *std::move(processor);
  return {};
}

base::Status read_defaults(Loading& l) {
  auto text = l.folder.read_if_there("generation_config.json", kMaxConfig);
  return text ? marshal::read_generation_config(*text, *l.text) : text.error();
}

base::Status read_text(Loading& l) {
  if (auto s = read_processor(l); !s.ok()) return s;
  const Shape& shape = l.model.shape;
  msg::TextSpec& text = *l.text;
  text.vocabulary = shape.vocabulary, text.hidden_size = shape.hidden, text.eos_ids = shape.eos_ids;
  text.max_length = context_length(l.options, l.wanted.name, shape.max_length);
  if (auto s = read_defaults(l); !s.ok()) return s;
  // Chat fine-tunes often leave the base model's eos_token_id in both configs, while their templates end turns by the
  // tokenizer's token.
  if (l.eos && *l.eos < shape.vocabulary && std::count(text.eos_ids.begin(), text.eos_ids.end(), *l.eos) == 0)
    text.eos_ids.push_back(*l.eos);
  text.concepts = l.model.readouts.concepts;
  text.readout_layers = l.model.readouts.layers;
  text.readout_dtype = l.model.readouts.dtype;
  return {};
}

}  // namespace

generation::TokenModel text_model(const Loading& l, std::unique_ptr<generation::TokenEngine> engine) {
  msg::ModelSpec spec = l.wanted;
  spec.engine = "llm";
  spec.text = l.text;
  return make_text_model(std::move(spec), std::move(engine), l.options.policy);
}

base::Result<std::unique_ptr<VisionEncoder>> read_vision_encoder(Loading& l, const Store& store, WeightFormat form,
                                                                 ThreadTeam& team) {
  const auto& vision = *l.model.shape.vision;
  auto vision_encoder = VisionEncoder::load(l.model.shape, store, form, team);
  if (vision_encoder)
    l.text->vision =
        msg::TextSpec::Vision{vision.start_id, vision.pad_id, vision.end_id, VisionEncoder::counter(vision)};
  return vision_encoder;
}

namespace {

base::Status read_weights(Loading& l, const Place& place, ThreadTeam& team) {
  auto store = open_store(l, place);
  if (!store) return store.error();
  Model& model = l.model;
  model.form = l.options.form.value_or(usual_form(model.shape, *store, l.options.keep));
  model.kv_format = l.options.kv_format;
  auto weights = load_weights(model.shape, *store, model.form, team, l.options.keep);
  if (!weights) return weights.error();
  model.weights = std::move(*weights);
  if (!model.shape.vision) return {};
  auto vision_encoder = read_vision_encoder(l, *store, model.form, team);
  if (!vision_encoder) return vision_encoder.error();
  model.vision_encoder = std::move(*vision_encoder);
  return {};
}

std::string adapter_named(const std::string& name) { return "adapter '" + name + "': "; }

base::Result<Adapter> open_adapter(const Loading& l, const std::string& name, const std::string& path) {
  auto adapter = Adapter::open(l.folder, path, l.model.shape);
  if (adapter) return adapter;
  return base::failure(adapter.error().code, adapter_named(name) + adapter.error().text);
}

// Before the model's weights are read, which takes longer.
base::Status check_adapters(const Loading& l) {
  for (const auto& [name, path] : l.wanted.adapters)
    if (auto adapter = open_adapter(l, name, path); !adapter) return adapter.error();
  return {};
}

base::Status read_adapters(Loading& l, ThreadTeam& team) {
  Model& model = l.model;
  for (const auto& [name, path] : l.wanted.adapters) {
    auto adapter = open_adapter(l, name, path);
    if (!adapter) return adapter.error();
    auto weights = load_adapter(*adapter, model, team);
    if (!weights) return base::failure(weights.error().code, adapter_named(name) + path + ": " + weights.error().text);
    base::log::info("adapter loaded",
                    {{"model", l.wanted.name}, {"adapter", name}, {"memory", base::show_size(weights->bytes())}});
    model.adapters.push_back(std::move(*weights));
  }
  return {};
}

constexpr base::Duration kStepTime = std::chrono::milliseconds(40);

// Whole contexts that the keys and values of a model may have room for where nobody says how many: a quarter of the
// sequences that run, and 512 MiB at least.
uint64_t useful_bytes(const Loading& l, const generation::TokenEngine& engine) {
  uint64_t contexts = std::max(l.options.policy.max_running / 4, 1u);
  return std::max<uint64_t>(generation::TokenPolicy().kv_bytes, contexts * engine.kv_bytes(l.text->max_length));
}

// The memory for keys and values: what was asked for, or a part of what is free.
base::Status reserve_kv(Loading& l, Transformer& engine, base::HostMemory& memory) {
  auto& policy = l.options.policy;
  if (l.options.kv_cache) {
    if (uint64_t free = memory.free(); *l.options.kv_cache > free)
      base::log::warning("kv_cache is more than what is free",
                         {{"model", l.wanted.name}, {"kv_cache", *l.options.kv_cache}, {"free", free}});
    engine.keep(memory.reserve(*l.options.kv_cache));
    return {};
  }
  auto part = memory.reserve_part(useful_bytes(l, engine));
  policy.kv_bytes = part.bytes();
  if (generation::kv_blocks(engine, policy, l.text->max_length) < 2)
    return base::failure(base::Code::kResourceExhausted, "no memory for keys and values: half of what is free is " +
                                                             base::show_size(part.bytes()) +
                                                             "; unload a model, or set the parameter kv_cache");
  engine.keep(std::move(part));
  return {};
}

// For adapters that come later.
std::function<uint64_t()> free_memory(const Place& place) {
  if (!place.host_memory) return {};
  return [memory = place.host_memory] { return memory->free(); };
}

base::Result<generation::TokenModel> load_on_cpu(Loading& l, const Place& place) {
  if (auto s = check_adapters(l); !s.ok()) return s;
  auto team = std::make_unique<ThreadTeam>(l.options.threads, l.options.cores);
  if (auto s = read_weights(l, place, *team); !s.ok()) return s;
  if (auto s = read_adapters(l, *team); !s.ok()) return s;
  l.model.text = l.text;
  uint64_t adapter_bytes = 0;
  for (const auto& adapter : l.model.adapters) adapter_bytes += adapter.bytes();
  if (!l.options.step_time) l.options.policy.step_time = kStepTime;
  auto engine = std::make_unique<Transformer>(std::move(l.model), *l.options.kernels, std::move(team),
                                              l.options.policy.step_tokens, free_memory(place));
  if (place.host_memory)
    if (auto s = reserve_kv(l, *engine, *place.host_memory); !s.ok()) return s;
  auto made = text_model(l, std::move(engine));
  made.adapter_bytes = adapter_bytes;
  return made;
}

// Reads what the configuration says of a model of tokens.
base::Status read_shape(Loading& l, std::string_view config) {
  auto shape = parse_shape(config, l.options.max_length);
  if (!shape) return l.named(shape.error());
  shape->encoder = false, shape->causal = true;
  l.model.shape = std::move(*shape);
  auto readouts = load_readouts(l.model.shape, l.folder);
  if (!readouts) return readouts.error();
  l.model.readouts = std::move(*readouts);
  return read_text(l);
}

base::Status read_gguf(Loading& l) {
  auto model = open_gguf(l.folder, l.file);
  if (!model) return model.error();
  auto texts = texts_of(*model);
  if (!texts) return texts.error();
  l.wanted.details = details_of(model->gguf);
  l.gguf = std::move(*texts);
  auto task = l.wanted.parameters.find("task");
  if (task == l.wanted.parameters.end() || task->second == "auto") return {};
  if (task->second != (l.gguf->embedding ? "embed" : "generate"))
    return base::invalid(l.gguf->embedding ? "parameter 'task': the GGUF file is an encoder"
                                           : "parameter 'task': the GGUF file is a model that makes tokens");
  return {};
}

base::Status refuse_for_encoder(const Options& options) {
  if (options.tensor_parallel > 1)
    return base::invalid("parameter 'tensor_parallel_size': this model makes no tokens, and one device computes it");
  if (options.adapters) return base::invalid("'adapters' are for models that make tokens, and this one does not");
  if (options.kv_format != KvFormat::kAsComputed)
    return base::invalid("parameter 'kv_cache_dtype': this model makes no tokens and keeps no keys and values");
  if (options.keep == Keep::kInt8 || options.keep == Keep::kInt4)
    return base::invalid(
        "parameter 'quantization': an encoder is not quantized while it loads; none and auto are for those that are "
        "stored so");
  return {};
}

base::Result<Loaded> load_gguf_encoder(const Loading& l, const Place& place) {
  if (auto s = refuse_for_encoder(l.options); !s.ok()) return s;
  const GgufEncoder gguf{l.file, *l.gguf};
  auto engine = load_encoder(l.wanted, l.options, l.folder, l.gguf->config, place, &gguf);
  if (!engine) return l.named(engine.error());
  return std::move(*engine);
}

base::Result<generation::TokenModel> load_somewhere(Loading& l, const Place& place) {
  auto device = cuda::choose_device(l.options, place.devices, l.wanted.name, [&](const auto& on, const auto& kernels) {
    return cuda::DeviceTransformer::check(l.model.shape, on, kernels);
  });
  if (!device) return device.error();
  if (!*device) return load_on_cpu(l, place);
  const Options as_asked = l.options;
  auto model = load_on_device(l, **device, place);
  if (model || l.options.device != "auto" || l.options.tensor_parallel > 1 ||
      model.error().code == base::Code::kInvalidArgument)
    return model;
  if (place.loading && !place.loading()) return not_wanted();
  base::log::warning("a model runs on the CPU", {{"model", l.wanted.name}, {"reason", model.error().text}});
  l.options = as_asked;
  return load_on_cpu(l, place);
}

}  // namespace

base::Result<Loaded> load(const msg::ModelSpec& wanted, const std::string& config, const Place& place) {
  auto options = read_options(wanted.parameters, wanted.batching);
  if (!options) return options.error();
  keep_beside(*options, wanted.parameters, allowed_cores(), place.pinned_shards);
  size_t slash = config.rfind('/');
  auto folder = Folder::open(slash == config.npos ? "." : config.substr(0, slash));
  if (!folder) return folder.error();
  options->adapters = !wanted.adapters.empty();
  Loading l{wanted, *options, std::move(*folder), config.substr(slash + 1), {}};
  if (is_gguf(l)) {
    if (auto s = read_gguf(l); !s.ok()) return s;
    if (l.gguf->embedding) return load_gguf_encoder(l, place);
    if (auto s = read_shape(l, l.gguf->config); !s.ok()) return s;
  } else {
    auto json = l.folder.read(l.file, kMaxConfig);
    if (!json) return json.error();
    auto encoder = is_encoder(l.folder, *json, wanted.parameters);
    if (!encoder) return encoder.error();
    l.wanted.details = details_of(l.folder, *json);
    if (*encoder) {
      if (auto s = refuse_for_encoder(l.options); !s.ok()) return s;
      return load_encoder(l.wanted, l.options, l.folder, *json, place);
    }
    if (auto s = read_shape(l, *json); !s.ok()) return s;
  }
  auto model = load_somewhere(l, place);
  if (!model) return model.error();
  return std::move(*model);
}

}  // namespace weir::llm
