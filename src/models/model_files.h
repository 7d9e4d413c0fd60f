// Which file of a version is the model, and which engine it is for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/folder.h"

namespace weir::models {

struct ModelSource {
  std::string engine, file;  // a file's name in the version's folder
};

// The file that an engine looks for in a version's folder; empty for those that are built in and need none.
std::string_view usual_file(std::string_view engine);
// Where a configuration and the folder of a version, `place` in texts, lead; what `given` says already is kept. Without
// a file an engine that needs none. Errors: NOT_FOUND, there is no file of an engine; FAILED_PRECONDITION, it is not
// clear which.
base::Result<ModelSource> choose_source(ModelSource given, const Stamps& files, const std::string& place);
// The beginning of choose_source() for a root that is one model; `configured` is the file that its configuration names.
ModelSource lone_source(const ModelFolder& folder, const std::string& configured);
// Files of a model, beside the folders of versions, that belong into one, as the end of an error's text.
std::string hint_to_move(const ModelFolder& folder);

}  // namespace weir::models
