#include "models/file_hints.h"

#include <algorithm>
#include <string_view>

namespace weir::models {
namespace {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: a pointer begins so, and has less than 1024 bytes.
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
constexpr size_t kLongestPointer = 1024;

bool is_lfs_pointer(const ModelFolder& folder, uint64_t version, const FileStamp& file) {
  if (file.size < kPointer.size() || file.size >= kLongestPointer) return false;
  auto text = read_file(folder.path, folder.relative(version, file.path), kLongestPointer);
  return text && text->starts_with(kPointer);
}

// Backends of Triton, and what serves their models here.
struct OtherBackend {
  std::string_view name, instead;
};
constexpr std::string_view kExport = "export the model to ONNX, or run it in a model.py (backend: \"python\")";
constexpr std::string_view kOwnEngine =
    "put its folder from Hugging Face, or a GGUF file, into the version's folder, and name backend: \"llm\"";
constexpr OtherBackend kOtherBackends[] = {
    {"tensorrt", kExport},
    {"tensorrt_plan", kExport},
    {"pytorch", kExport},
    {"pytorch_libtorch", kExport},
    {"openvino", kExport},
    {"tensorflow", kExport},
    {"tensorflow_graphdef", kExport},
    {"tensorflow_savedmodel", kExport},
    {"fil", kExport},
    {"dali", "write what it does as a model.py (backend: \"python\")"},
    {"vllm", kOwnEngine},
    {"tensorrtllm", kOwnEngine},
};

}  // namespace

std::string hint_of_engine(std::string_view engine) {
  for (const auto& other : kOtherBackends)
    if (other.name == engine) return "; " + std::string(other.instead);
  return "; a backend of your own can be a program in a process of its own (engine process)";
}

std::string hint_of_files(const ModelFolder& folder, uint64_t version, const std::string& engine) {
  const auto found = folder.versions.find(version);
  if (found == folder.versions.end()) return {};
  const Stamps& files = found->second;
  for (const FileStamp& file : files)
    if (is_lfs_pointer(folder, version, file))
      return "; " + file.path + " is a Git LFS pointer: run 'git lfs pull' where it was cloned";
  auto any = [&](auto is) { return std::any_of(files.begin(), files.end(), is); };
  const bool pickled = any([](const FileStamp& f) { return f.path.starts_with("pytorch_model"); });
  if (engine != "llm" || !pickled || any([](const FileStamp& f) { return f.path.ends_with(".safetensors"); }))
    return {};
  return "; weights are read from safetensors alone, not from pytorch_model.bin: transformers writes them with "
         "save_pretrained() of a model that from_pretrained() has read";
}

}  // namespace weir::models
