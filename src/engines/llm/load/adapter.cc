#include "engines/llm/load/adapter.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "engines/llm/load/adapter_config.h"
#include "engines/llm/load/safetensors.h"

namespace weir::llm {
namespace {

constexpr size_t kMaxAdapterConfig = 1 << 20;
constexpr uint64_t kMaxAdapterHeader = 16 << 20;
constexpr std::string_view kAdapterPrefix = "base_model.model.";

std::vector<AdapterModule> adapter_modules(const Shape& s) {
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  std::vector<AdapterModule> out;
  if (s.fused)
    out = {{"self_attn.qkv_proj", s.hidden, q + 2 * kv}};
  else
    out = {{"self_attn.q_proj", s.hidden, q}, {"self_attn.k_proj", s.hidden, kv}, {"self_attn.v_proj", s.hidden, kv}};
  out.push_back({"self_attn.o_proj", q, s.hidden});
  bool dense = false;
  for (uint32_t layer = 0; layer < s.layers; ++layer) dense = dense || !s.is_mixture(layer);
  if (!dense) return out;
  if (s.fused)
    out.push_back({"mlp.gate_up_proj", s.hidden, 2 * s.intermediate});
  else
    out.insert(out.end(), {{"mlp.gate_proj", s.hidden, s.intermediate}, {"mlp.up_proj", s.hidden, s.intermediate}});
  out.push_back({"mlp.down_proj", s.intermediate, s.hidden});
  return out;
}

std::string show_shape(std::span<const uint64_t> shape) {
  std::string out = "[";
  for (uint64_t d : shape) out += (out.size() > 1 ? "," : "") + std::to_string(d);
  return out + "]";
}

base::Result<Folder> open_below(const Folder& model, std::string_view path) {
  const size_t slash = path.find('/');
  auto folder = model.inside(path.substr(0, slash));
  if (!folder || slash == path.npos) return folder;
  return open_below(*folder, path.substr(slash + 1));
}

// A name of an array, taken apart. The root is what a model's arrays have in front of "layers." ("model.").
struct ArrayName {
  std::string_view root, module;
  uint32_t layer = 0;
  bool is_a = false;
};

std::optional<ArrayName> parse_array_name(std::string_view name) {
  if (!name.starts_with(kAdapterPrefix)) return {};
  name.remove_prefix(kAdapterPrefix.size());
  ArrayName out;
  const size_t at = name.find("layers.");
  if (at == name.npos) return {};
  out.root = name.substr(0, at);
  if (out.root != "" && out.root != "model." && out.root != "language_model.model." &&
      out.root != "model.language_model.")
    return {};
  name.remove_prefix(at + 7);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out.layer);
  if (error != std::errc() || (name[0] == '0' && end != name.data() + 1)) return {};
  name.remove_prefix(size_t(end - name.data()));
  if (!name.starts_with('.')) return {};
  name.remove_prefix(1);
  out.is_a = name.ends_with(".lora_A.weight");
  if (!out.is_a && !name.ends_with(".lora_B.weight")) return {};
  out.module = name.substr(0, name.size() - 14);
  return out;
}

}  // namespace

class AdapterReading {
 public:
  AdapterReading(const std::string& path, const Shape& shape)
      : shape_(shape), config_place_(path + "/adapter_config.json"), modules_(adapter_modules(shape)) {
    out_.file_ = path + "/adapter_model.safetensors";
  }

  base::Result<Adapter> read(const Folder& folder) {
    if (auto s = read_config(folder); !s.ok()) return s;
    if (auto s = map_file(folder); !s.ok()) return s;
    for (const auto& [name, array] : out_.arrays_)
      if (auto s = take(name, array); !s.ok()) return base::failure(s.code, out_.file_ + ": " + s.text);
    if (auto s = check_complete(); !s.ok()) return base::failure(s.code, out_.file_ + ": " + s.text);
    return std::move(out_);
  }

 private:
  base::Status read_config(const Folder& folder) {
    auto text = folder.read("adapter_config.json", kMaxAdapterConfig);
    if (!text) return base::failure(text.error().code, config_place_ + ": " + text.error().text);
    std::vector<std::string> known;
    for (const auto& module : modules_) known.push_back(module.name.substr(module.name.find('.') + 1));
    auto config = parse_adapter_config(*text, config_place_, known);
    if (!config) return config.error();
    config_ = std::move(*config);
    return {};
  }

  base::Status map_file(const Folder& folder) {
    auto mapping = folder.map("adapter_model.safetensors");
    if (!mapping) {
      const bool pickled = mapping.error().code == base::Code::kNotFound && folder.map("adapter_model.bin");
      return base::failure(
          mapping.error().code,
          out_.file_ + ": " + mapping.error().text +
              (pickled ? "; adapter_model.bin is not read: save it with safe_serialization=True" : ""));
    }
    uint64_t header = 0;
    if (mapping->bytes().size() >= 8) std::memcpy(&header, mapping->bytes().data(), 8);
    if (header > kMaxAdapterHeader)
      return base::invalid(out_.file_ + ": its header has " + std::to_string(header) + " bytes; an adapter's has " +
                           std::to_string(kMaxAdapterHeader) + " at most");
    if (auto s = parse_safetensors(mapping->bytes(), out_.arrays_); !s.ok())
      return base::failure(s.code, out_.file_ + ": " + s.text);
    out_.mapping_ = std::move(*mapping);
    return {};
  }

  const AdapterModule* find_module(uint32_t layer, std::string_view name) const {
    if (layer >= shape_.layers || (shape_.is_mixture(layer) && name.starts_with("mlp."))) return nullptr;
    for (const auto& module : modules_)
      if (module.name == name) return &module;
    return nullptr;
  }

  static std::string module_name(std::string_view root, uint32_t layer, std::string_view module) {
    return std::string(root) + "layers." + std::to_string(layer) + '.' + std::string(module);
  }

  base::Status take(const std::string& name, const Array& array) {
    const auto parts = parse_array_name(name);
    const AdapterModule* module = parts ? find_module(parts->layer, parts->module) : nullptr;
    const std::string shown = "'" + name.substr(0, 256) + "'";
    if (!module) return base::failure(base::Code::kUnimplemented, shown + " is of nothing that an adapter can change");
    const std::string full = module_name(parts->root, parts->layer, parts->module);
    const uint64_t rank = config_.rank_of(full);
    const uint64_t expected[2] = {parts->is_a ? rank : module->outputs, parts->is_a ? module->inputs : rank};
    if (!std::equal(array.shape.begin(), array.shape.end(), expected, expected + 2))
      return base::invalid(shown + " has shape " + show_shape(array.shape) + "; " + show_shape(expected) +
                           " is expected");
    if (!is_float(array.dtype)) return base::invalid(shown + " is not of type F32, F16 or BF16");
    auto& to = out_.modules_[{parts->layer, std::string(parts->module)}];
    const Array*& place = parts->is_a ? to.a : to.b;
    if (place) return base::invalid(shown + " is there twice, under two names");
    to.rank = uint32_t(rank), to.scale = config_.scale_of(full);
    place = &array;
    root_ = parts->root;
    return {};
  }

  base::Status check_complete() const {
    if (out_.modules_.empty()) return base::invalid("there are no arrays in it");
    for (uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (const auto& module : modules_) {
        if (!find_module(layer, module.name)) continue;
        const std::string full = module_name(root_, layer, module.name);
        const auto* low = out_.find(layer, module.name);
        if (!low && !config_.names(full, layer)) continue;
        if (low && low->a && low->b) continue;
        const bool lacks_a = !low || !low->a;
        const uint64_t rank = config_.rank_of(full);
        const uint64_t expected[2] = {lacks_a ? rank : module.outputs, lacks_a ? module.inputs : rank};
        return base::invalid("the weights have no '" + std::string(kAdapterPrefix) + full +
                             (lacks_a ? ".lora_A.weight'; " : ".lora_B.weight'; ") + show_shape(expected) +
                             " is expected");
      }
    return {};
  }

  const Shape& shape_;
  const std::string config_place_;
  const std::vector<AdapterModule> modules_;
  AdapterConfig config_;
  std::string root_ = "model.";
  Adapter out_;
};

base::Result<Adapter> Adapter::open(const Folder& model, const std::string& path, const Shape& shape) {
  auto folder = open_below(model, path);
  if (!folder && folder.error().code == base::Code::kNotFound)
    return base::failure(base::Code::kNotFound, path + ": there is no such folder beside the model's own files");
  if (!folder) return base::failure(folder.error().code, path + ": " + folder.error().text);
  return AdapterReading(path, shape).read(*folder);
}

const Adapter::LowRank* Adapter::find(uint32_t layer, std::string_view module) const {
  auto found = modules_.find(std::pair(layer, std::string(module)));
  return found == modules_.end() ? nullptr : &found->second;
}

base::Status Adapter::intact() const {
  if (!mapping_.lost()) return {};
  return base::try_again(base::Code::kUnavailable, "'" + file_ + "' changed while it was read, or cannot be read");
}

}  // namespace weir::llm
