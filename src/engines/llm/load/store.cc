#include "engines/llm/load/store.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engines/llm/load/expert_arrays.h"
#include "engines/llm/load/fields.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

constexpr size_t kMaxIndex = 64 << 20, kMaxReadoutJson = 4 << 20, kMaxFiles = 1024;
constexpr const char* kOne = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string show(std::span<const uint64_t> shape) {
  std::string out = "[";
  for (uint64_t d : shape) out += (out.size() > 1 ? "," : "") + std::to_string(d);
  return out + "]";
}

std::string_view name_of(Stored stored) {
  switch (stored) {
    case Stored::kFp8: return "F8_E4M3";
    case Stored::kInt8: return "I8";
    case Stored::kUint8: return "U8";
    default: return "I32";
  }
}

base::Result<std::set<std::string>> files_of(const std::string& index) {
  auto parsed = text::parse_model_json(index, kIndex);
  if (!parsed) return parsed.error();
  const nlohmann::json& json = *parsed;
  std::set<std::string> files;
  if (json.is_object() && json.contains("weight_map") && json["weight_map"].is_object())
    for (const auto& file : json["weight_map"])
      if (file.is_string() && files.size() < kMaxFiles) files.insert(file.get<std::string>());
  if (files.empty()) return base::invalid(std::string("'") + kIndex + "' names no files in weight_map");
  return files;
}

}  // namespace

uint64_t machine_memory() {
  long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? uint64_t(pages) * uint64_t(sysconf(_SC_PAGESIZE)) : UINT64_MAX;
}

base::Status Store::add(const Folder& folder, const std::string& file) {
  auto mapping = folder.map(file);
  if (!mapping) return mapping.error();
  if (auto s = parse_safetensors(mapping->bytes(), arrays_); !s.ok())
    return base::failure(s.code, file + ": " + s.text);
  files_.push_back({file, std::move(*mapping)});
  return {};
}

base::Status Store::intact() const {
  for (const File& file : files_)
    if (file.mapping.lost())
      return base::try_again(base::Code::kUnavailable,
                             "'" + file.name + "' changed while it was read, or cannot be read");
  return {};
}

base::Result<Store> Store::open(const Folder& folder, std::function<bool()> wanted) {
  Store store;
  store.wanted_ = std::move(wanted);
  auto index = folder.read_if_there(kIndex, kMaxIndex);
  if (!index) return index.error();
  std::set<std::string> files{kOne};
  if (!index->empty()) {
    auto named = files_of(*index);
    if (!named) return named.error();
    files = std::move(*named);
  }
  for (const auto& file : files)
    if (auto s = store.add(folder, file); !s.ok()) return s;
  if (auto s = part_packed_experts(store.arrays_); !s.ok()) return s;
  return store;
}

base::Result<Store> Store::open(GgufModel model, std::function<bool()> wanted) {
  auto arrays = named_arrays(model.gguf);
  if (!arrays) return base::failure(arrays.error().code, "'" + model.parts.front().name + "': " + arrays.error().text);
  Store store;
  store.wanted_ = std::move(wanted);
  store.arrays_ = std::move(*arrays);
  for (auto& part : model.parts) store.files_.push_back({std::move(part.name), std::move(part.mapping)});
  return store;
}

const Array* Store::look_up(const std::string& name) const {
  auto at = arrays_.find(name);
  return at == arrays_.end() ? nullptr : &at->second;
}

base::Result<const Array*> Store::find(const std::string& name, std::initializer_list<uint64_t> shape,
                                       std::optional<Stored> stored) const {
  if (wanted_ && !wanted_()) return base::failure(base::Code::kUnavailable, "the server is shutting down");
  auto at = arrays_.find(name);
  if (at == arrays_.end()) return base::invalid("the weights have no '" + name + "'");
  const Array& array = at->second;
  if (!std::equal(array.shape.begin(), array.shape.end(), shape.begin(), shape.end()))
    return base::invalid("'" + name + "' has shape " + show(array.shape) + "; " +
                         show(std::span(shape.begin(), shape.size())) + " is expected");
  if (stored ? array.dtype != *stored : !is_float(array.dtype))
    return base::invalid("'" + name + "' is not of type " +
                         (stored ? std::string(name_of(*stored)) : "F32, F16 or BF16"));
  return &array;
}

base::Result<std::vector<float>> Store::floats(const std::string& name, std::initializer_list<uint64_t> shape) const {
  auto array = find(name, shape);
  if (!array) return array.error();
  if ((*array)->elements() > machine_memory() / 2 / sizeof(float))
    return base::failure(base::Code::kResourceExhausted,
                         "'" + name + "' takes more than half of this machine's memory");
  std::vector<float> out((*array)->elements());
  read_floats(**array, 0, out.size(), out.data());
  if (auto s = intact(); !s.ok()) return s;
  return out;
}

Stored Store::usual_form() const {
  std::map<Stored, uint64_t> bytes;
  for (const auto& [name, array] : arrays_) bytes[array.dtype] += array.data.size();
  auto most = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == bytes.end() ? Stored::kOther : most->first;
}

std::string root_of(const Store& store) {
  for (const char* root : {"", "language_model.model.", "model.language_model."})
    if (store.has(root + std::string("embed_tokens.weight"))) return root;
  return "model.";
}

std::string head_of(const Store& store) {
  const std::string inner = "language_model.lm_head";
  return store.has(inner + ".weight") ? inner : "lm_head";
}

base::Result<Readouts> load_readouts(const Shape& shape, const Folder& folder) {
  Readouts out;
  auto text = folder.read_if_there("readout.json", kMaxReadoutJson);
  if (!text) return text.error();
  if (text->empty()) return out;
  auto json = text::parse_model_json(*text, "readout.json");
  if (!json) return json.error();
  base::Status status;
  ConfigFields f(*json, status, "readout.json: ");
  out.layers = f.ids_or_none("layers", shape.layers - 1);
  out.dtype = f.text_or("dtype", "float32");
  if (f.has("concepts") && f["concepts"].is_array())
    for (const auto& name : f["concepts"])
      if (name.is_string()) out.concepts.push_back(name.get<std::string>());
  if (out.concepts.empty() || out.concepts.size() > 4096 || out.concepts.size() != f["concepts"].size())
    f.fail("concepts", "is not a list of names");
  if (out.layers.empty()) f.fail("layers", "is not a list of layers of the model");
  if (out.dtype != "float32" && out.dtype != "bfloat16") f.fail("dtype", "is neither float32 nor bfloat16");
  if (!status.ok()) return status;
  Store store;
  if (auto s = store.add(folder, "readout.safetensors"); !s.ok()) return s;
  auto vectors = store.floats("readout", {out.layers.size(), out.concepts.size(), shape.hidden});
  if (!vectors) return vectors.error();
  out.vectors = std::move(*vectors);
  return out;
}

}  // namespace weir::llm
