#include "engines/llm/load/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/encoding.h"
#include "engines/llm/load/gguf_families.h"

namespace weir::llm {
namespace {

constexpr uint32_t kMaxParts = 1024;
constexpr std::string_view kGgufEnd = ".gguf";

// A number of five digits; 0: it is none.
uint32_t five_digits(std::string_view text) {
  uint32_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return text.size() == 5 && error == std::errc() && end == text.data() + 5 ? n : 0;
}

// The files of a model that one of them belongs to.
std::vector<std::string> parts_of(const std::string& file) {
  constexpr size_t kTail = std::string_view("-00001-of-00001.gguf").size();
  if (file.size() <= kTail || !file.ends_with(kGgufEnd)) return {file};
  const std::string_view tail = std::string_view(file).substr(file.size() - kTail);
  const uint32_t number = five_digits(tail.substr(1, 5)), count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || number == 0 || number > count || count > kMaxParts)
    return {file};
  std::vector<std::string> names;
  for (uint32_t i = 1; i <= count; ++i) {
    char place[32];
    std::snprintf(place, sizeof place, "-%05u-of-%05u", i, count);
    names.push_back(file.substr(0, file.size() - kTail) + place + std::string(kGgufEnd));
  }
  return names;
}

base::Status with_file(const base::Status& why, const std::string& file) {
  return base::failure(why.code, "'" + file + "': " + why.text);
}

// A part says nothing of its place, or the same as its name.
base::Status check_place(const Gguf& part, size_t number, size_t count) {
  const auto *no = part.get<int64_t>("split.no"), *of = part.get<int64_t>("split.count");
  if (of && *of > 1 && size_t(*of) != count)
    return base::invalid("GGUF: 'split.count' is " + std::to_string(*of) +
                         ": the parts of a model are called NAME-00001-of-00003.gguf and so on, as they were made");
  if (count > 1 && (!no || size_t(*no) != number)) return base::invalid("GGUF: 'split.no' is not what its name says");
  return {};
}

// --- names -----------------------------------------------------------------------------------------------------------

constexpr Renamed kOutside[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Renamed kInLayer[] = {{"attn_norm", "input_layernorm"},
                                {"ffn_norm", "post_attention_layernorm"},
                                {"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},
                                {"attn_output", "self_attn.o_proj"},
                                {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"},
                                {"ffn_gate", "mlp.gate_proj"},
                                {"ffn_up", "mlp.up_proj"},
                                {"ffn_down", "mlp.down_proj"},
                                {"ffn_gate_inp", "mlp.gate"},
                                {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
                                {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"}};
// A layer's experts are one tensor of three sizes.
constexpr Renamed kOfExperts[] = {
    {"ffn_gate_exps", "gate_proj"}, {"ffn_up_exps", "up_proj"}, {"ffn_down_exps", "down_proj"}};
constexpr Renamed kOfMixtral[] = {{"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
constexpr size_t kMostExpertArrays = 1 << 19, kLongestExpertName = 256;  // each expert's arrays have it

std::string_view our_name(std::span<const Renamed> names, std::string_view theirs) {
  for (const auto& name : names)
    if (name.theirs == theirs) return name.ours;
  return {};
}

// A tensor's name, as far as it is one of these: "blk.7.attn_q.weight".
struct TensorName {
  std::string_view layer, core, kind;  // "7", "attn_q", "weight"; outside of layers the first is empty

  explicit TensorName(std::string_view name) {
    constexpr std::string_view kBlock = "blk.";
    if (name.starts_with(kBlock)) {
      name.remove_prefix(kBlock.size());
      layer = name.substr(0, name.find('.'));
      name.remove_prefix(std::min(layer.size() + 1, name.size()));
    }
    core = name.substr(0, name.rfind('.'));
    kind = name.substr(std::min(core.size() + 1, name.size()));
  }
  bool is_numbered() const {
    return !layer.empty() && std::all_of(layer.begin(), layer.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  // In a Hugging Face folder; empty: it has none. `family`: null, or whose own names come first.
  std::string renamed(const GgufFamily* family) const {
    const bool digits = is_numbered();
    const bool own = family && !family->outside.empty();
    std::string_view ours = digits && family ? our_name(family->renamed, core) : std::string_view();
    if (own && layer.empty()) ours = our_name(family->outside, core);
    if (ours.empty() && !own)
      ours = digits ? our_name(kInLayer, core) : layer.empty() ? our_name(kOutside, core) : ours;
    const bool bare = kind.empty() && core == "attn_sinks";  // in Ollama's files
    if (ours.empty() || (kind != "weight" && kind != "bias" && !bare)) return {};
    return (digits ? std::string(family ? family->layers : GgufFamily().layers) + std::string(layer) + "." : "") +
           std::string(ours) + "." + std::string(bare ? "weight" : kind);
  }
};

// Frequencies, which the configuration has taken; and the encoder of pictures that Ollama's files of Gemma 3 have.
bool is_left_out(const TensorName& name, const GgufFamily* family) {
  if (!name.layer.empty()) return name.core == "attn_rot_embd";
  if (family && family->name == "gemma3" && (name.core.starts_with("v.") || name.core.starts_with("mm."))) return true;
  return name.core == "rope_freqs" || name.core == "rope_factors_long" || name.core == "rope_factors_short";
}

base::Status turn_rows(const Gguf& gguf, const GgufFamily& family, const std::string& name, std::string_view core,
                       Array& array) {
  const std::string prefix = std::string(family.name) + ".attention.";
  auto heads = number_of(gguf, prefix + "head_count");
  const auto fewer = number_of(gguf, prefix + "head_count_kv");
  if (core == "attn_k" && fewer) heads = fewer;
  const uint64_t rows = array.shape[0];
  if (!heads || *heads < 1 || rows % uint64_t(*heads) != 0 || rows / uint64_t(*heads) % 2 != 0 || rows > UINT32_MAX)
    return base::invalid("GGUF: '" + name + "' has no whole heads of an even size");
  array.head_rows = uint32_t(rows / uint64_t(*heads));
  return {};
}

bool is_mixtral(const Gguf& gguf) {
  const auto* architecture = gguf.get<std::string>("general.architecture");
  return architecture && *architecture == "llama" && gguf.has("llama.expert_count");
}

// An array for each expert of a layer.
base::Status part_experts(const Gguf& gguf, const std::string& name, const TensorName& parts, const Array& all,
                          Arrays& out) {
  std::string_view which = our_name(kOfExperts, parts.core);
  const bool mixtral = is_mixtral(gguf);
  if (mixtral) which = our_name(kOfMixtral, which);
  const bool bias = parts.kind == "bias";
  if (name.size() > kLongestExpertName || all.shape.size() != (bias ? 2 : 3) || all.shape[0] == 0 ||
      all.shape[0] > kMostExpertArrays || out.size() + all.shape[0] > kMostExpertArrays)
    return base::invalid("GGUF: '" + base::presentable(name, 100) + "' is not the experts of a layer");
  const std::string before = "model.layers." + std::string(parts.layer) +
                             (mixtral ? ".block_sparse_moe.experts." : ".mlp.experts."),
                    after = "." + std::string(which) + "." + std::string(parts.kind);
  const size_t bytes = all.data.size() / all.shape[0];
  for (uint64_t e = 0; e < all.shape[0]; ++e)
    out.emplace(before + std::to_string(e) + after,
                Array{all.dtype, {all.shape.begin() + 1, all.shape.end()}, all.data.subspan(e * bytes, bytes)});
  return {};
}

// The names and shapes that a mixture's other arrays have in a folder.
void name_mixture(const Gguf& gguf, const TensorName& parts, std::string& ours, Array& array) {
  if (parts.core == "ffn_gate_inp" && is_mixtral(gguf))
    ours = "model.layers." + std::string(parts.layer) + ".block_sparse_moe.gate.weight";
  if (parts.core == "ffn_gate_inp_shexp" && array.shape.size() == 1) array.shape.insert(array.shape.begin(), 1);
}

}  // namespace

base::Result<GgufModel> open_gguf(const Folder& folder, const std::string& file) {
  GgufModel model;
  const auto names = parts_of(file);
  for (size_t i = 0; i < names.size(); ++i) {
    auto mapping = folder.map(names[i]);
    if (!mapping) return mapping.error();
    auto part = parse_gguf(mapping->bytes());
    if (!part) return with_file(part.error(), names[i]);
    if (auto s = check_place(*part, i, names.size()); !s.ok()) return with_file(s, names[i]);
    if (i == 0) model.gguf.fields = std::move(part->fields);
    for (auto& [name, array] : part->tensors)
      if (!model.gguf.tensors.emplace(name, std::move(array)).second)
        return with_file(base::invalid("GGUF: '" + base::presentable(name, 100) + "' is there twice"), names[i]);
    model.parts.push_back({names[i], std::move(*mapping)});
  }
  const auto* count = model.gguf.get<int64_t>("split.tensors.count");
  if (count && uint64_t(*count) != model.gguf.tensors.size())
    return with_file(base::invalid("GGUF: 'split.tensors.count' is not how many tensors the parts have"), file);
  return model;
}

base::Result<Arrays> named_arrays(const Gguf& gguf) {
  const GgufFamily* family = gguf_family(gguf);
  Arrays out;
  for (const auto& [name, tensor] : gguf.tensors) {
    const TensorName parts(name);
    if (is_left_out(parts, family)) continue;
    if (parts.is_numbered() && (parts.kind == "weight" || parts.kind == "bias") &&
        !our_name(kOfExperts, parts.core).empty()) {
      if (auto s = part_experts(gguf, name, parts, tensor, out); !s.ok()) return s;
      continue;
    }
    std::string ours = parts.renamed(family);
    if (ours.empty())
      return base::failure(base::Code::kUnimplemented,
                           "GGUF: the tensor '" + base::presentable(name, 100) + "' is none that is known here");
    Array array = tensor;
    // ggml leaves out sizes of 1.
    if (parts.core == "token_types" && array.shape.size() == 1) array.shape.insert(array.shape.begin(), 1);
    name_mixture(gguf, parts, ours, array);
    if (family && family->turned && !parts.layer.empty() && (parts.core == "attn_q" || parts.core == "attn_k"))
      if (auto s = turn_rows(gguf, *family, base::presentable(name, 100), parts.core, array); !s.ok()) return s;
    out.emplace(std::move(ours), std::move(array));
  }
  return out;
}

}  // namespace weir::llm
