// The size, the age and a digest of a version's files, beside what its engine has read in them.
#pragma once

#include <memory>

#include "models/folder.h"
#include "msg/model_details.h"

namespace weir::models {

// `known`: the engine's; null: it knows nothing. The digest is of names, sizes and times: it is another one where a
// file is, though nobody has read the files for it.
std::shared_ptr<const msg::ModelDetails> with_files(const std::shared_ptr<const msg::ModelDetails>& known,
                                                    const ModelFolder& folder, uint64_t version);

}  // namespace weir::models
