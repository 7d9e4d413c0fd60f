// Loading an encoder: a Hugging Face folder becomes an Engine of tensors (encoder_engine.h).
//
// Parameters of model.yaml: threads, dtype, kernels, device, graphs, step_tokens (512: of one pack), max_length as for
// models of tokens; task (auto; embed or generate for folders that are good for both, embed also for the encoder below
// a classifier's head), pooling (auto: as the folder says; mean, cls, last), normalize (auto; on, off), tokenizer (on;
// off: only ids are taken, for tokenizers that are not known here).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engines/llm/llm.h"
#include "engines/llm/load/files.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/options.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::llm {

// Whether a folder is an encoder: of BERT's family, a sequence classifier, a model without its output matrix, one whose
// positions see each other in both directions, or one that sentence-transformers has saved; unless `task` says. Errors:
// INVALID_ARGUMENT.
base::Result<bool> is_encoder(const Folder& folder, std::string_view config_json,
                              const std::map<std::string, std::string>& parameters);

// A GGUF file in place of the folder's, and what it says.
struct GgufEncoder {
  const std::string& file;
  const GgufTexts& texts;  // with `embedding`
};

// `gguf`: null, or `config_json` is its. Errors: INVALID_ARGUMENT, UNIMPLEMENTED, NOT_FOUND, RESOURCE_EXHAUSTED, naming
// the file or the parameter. Any thread.
base::Result<std::unique_ptr<sched::Engine>> load_encoder(const msg::ModelSpec& wanted, const Options& options,
                                                          const Folder& folder, std::string_view config_json,
                                                          const Place& place, const GgufEncoder* gguf = nullptr);

}  // namespace weir::llm
