#include "app/roots.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "base/log.h"
#include "models/folder.h"
#include "models/gguf_files.h"

namespace weir::app {
namespace {

base::Status check_root(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(root, error)) return base::invalid("model repository '" + root + "' is not there");
  if (models::is_gguf_file(root) || (root.ends_with(".onnx") && fs::is_regular_file(root, error))) return {};
  if (!fs::is_directory(root, error))
    return base::invalid("model repository '" + root + "' is neither a folder nor an .onnx or .gguf file");
  const fs::path folder = root;
  for (const char* file : {"1/model.onnx", "1/config.json", "1/model.py"})
    if (fs::exists(folder / file, error))
      return base::invalid("'" + root + "' is a model, not a repository: serve the folder that it lies in");
  if (fs::exists(folder / "model.onnx", error))
    return base::invalid("'" + root + "' is a model's folder, not a repository: serve " +
                         (folder / "model.onnx").string() + ", or the folder that it lies in");
  return {};
}

// A server is ready when all models are that it was asked for, so nothing else tells of these.
void warn_of_empty_roots(const Config& config) {
  for (const auto& root : config.models.roots)
    if (auto names = models::list_models(root); names && names->empty())
      base::log::warning(
          "model repository has no models, and none will be looked for later",
          {{"folder", root},
           {"setting", "models.control"},
           {"wanted",
            "<name>/<version>/model.onnx, or a model's own folder: config.json and *.safetensors, or *.gguf"}});
}

}  // namespace

base::Status check_roots(const Config& config) {
  if (config.models.roots.empty() && config.cluster.nats.empty())  // a node without models of its own is a gateway
    return base::invalid("no model repository: give a folder (weir serve DIR) or set models.repository");
  for (const auto& root : config.models.roots)
    if (auto s = check_root(root); !s.ok()) return s;
  if (config.models.control == models::Control::kNone && config.cluster.nats.empty()) warn_of_empty_roots(config);
  return {};
}

}  // namespace weir::app
