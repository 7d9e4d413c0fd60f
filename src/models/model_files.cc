#include "models/model_files.h"

#include <algorithm>

#include "models/gguf_files.h"

namespace weir::models {
namespace {

// Engines without a row are built in and need no file.
struct UsualFile {
  std::string_view engine, file;
  std::string_view rest;  // what else belongs to it
};
constexpr std::string_view kLlm = "llm";
constexpr UsualFile kUsual[] = {
    {"onnx", "model.onnx", ""}, {kLlm, "config.json", " and all other files of the model"}, {"python", "model.py", ""}};

bool has_file(const Stamps& stamps, std::string_view path) {
  return std::any_of(stamps.begin(), stamps.end(), [&](const FileStamp& s) { return s.path == path; });
}

std::string_view engine_of(std::string_view file) {
  for (const auto& u : kUsual)
    if (u.file == file) return u.engine;
  return is_gguf(file) ? kLlm : kUsual[0].engine;
}

// Many who publish GGUF files put the config.json of the original beside them, whose weights are elsewhere. Weights in
// folders below are those of adapters.
bool is_without_weights(const Stamps& files) {
  return std::none_of(files.begin(), files.end(), [](const FileStamp& s) {
    return s.path.ends_with(".safetensors") && s.path.find('/') == std::string::npos;
  });
}

base::Status several(const std::string& place, const std::vector<std::string>& models) {
  return base::failure(base::Code::kFailedPrecondition,
                       place + " has more than one model: " + models[0] + ", " + models[1] +
                           (models.size() > 2 ? ", …" : "") +
                           "; leave one there, or say in model.yaml which: file: " + models[0]);
}

}  // namespace

std::string_view usual_file(std::string_view engine) {
  for (const auto& u : kUsual)
    if (u.engine == engine) return u.file;
  return {};
}

base::Result<ModelSource> choose_source(ModelSource given, const Stamps& files, const std::string& place) {
  if (given.engine.empty() && !given.file.empty()) given.engine = engine_of(given.file);
  if (!given.file.empty()) return given;
  if (given.engine.empty() && has_file(files, kUsual[0].file)) given.engine = kUsual[0].engine;
  const bool script = has_file(files, usual_file("python"));  // it may have a GGUF file of its own
  if (((given.engine.empty() && !script) || given.engine == kLlm) && is_without_weights(files)) {
    const auto models = gguf_models(files);
    if (models.size() > 1) return several(place, models);
    if (models.size() == 1) return ModelSource{std::string(kLlm), models.front()};
  }
  for (const auto& u : kUsual)
    if (given.engine.empty() && has_file(files, u.file)) given.engine = u.engine;
  if (given.engine.empty())
    return base::failure(base::Code::kNotFound,
                         "no model file in " + place + " (looked for model.onnx, config.json, *.gguf and model.py)");
  given.file = usual_file(given.engine);
  return given;
}

// A folder may have several files in GGUF's form. A file by itself may be one whatever it is called.
ModelSource lone_source(const ModelFolder& folder, const std::string& configured) {
  const std::string& file = folder.lone_file;
  if (is_gguf(file)) return {{}, configured};
  const bool usual = std::any_of(std::begin(kUsual), std::end(kUsual), [&](const auto& u) { return u.file == file; });
  if (!usual && is_gguf_file(folder.path + '/' + file)) return {std::string(kLlm), file};
  return {{}, file};
}

std::string hint_to_move(const ModelFolder& folder) {
  std::string hint;
  for (const auto& u : kUsual)
    if (folder.has(u.file))
      hint += "; move " + std::string(u.file) + std::string(u.rest) + " into " + folder.name + "/1/";
  for (const auto& file : gguf_models(folder.shared)) hint += "; move " + file + " into " + folder.name + "/1/";
  return hint;
}

}  // namespace weir::models
