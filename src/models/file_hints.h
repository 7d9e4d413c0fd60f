// file_hints: mistakes that people make with downloaded models, found in the files of a version that did not load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/folder.h"

namespace weir::models {

// The end of the error for a model of an engine that is not here: what may be done about it.
std::string hint_of_engine(std::string_view engine);

// To be put behind the engine's error: "; model.onnx is a Git LFS pointer: run 'git lfs pull' where it was cloned".
// Empty: nothing is known. Files that cannot be read are passed over. Reads small files; the thread that loads.
std::string hint_of_files(const ModelFolder& folder, uint64_t version, const std::string& engine);

}  // namespace weir::models
