// A model, as its files describe it for those who choose among models: msg::ModelDetails, as Ollama shows it.
#pragma once

#include <memory>
#include <string_view>

#include "engines/llm/load/files.h"
#include "engines/llm/load/gguf.h"
#include "msg/model_details.h"

namespace weir::llm {

// The details of a Hugging Face folder. Those that its arrays would tell are missing where they cannot be read, which
// is the load's to say.
std::shared_ptr<const msg::ModelDetails> details_of(const Folder& folder, std::string_view config_json);
// Those of a GGUF file. Lists are left out, and long texts are cut.
std::shared_ptr<const msg::ModelDetails> details_of(const Gguf& gguf);

}  // namespace weir::llm
