// The tokenizer of a model of text that another server runs: texts become tokens here.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "engines/forward/options.h"
#include "msg/spec.h"

namespace weir::forward {

// Reads tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json in the folder that the
// options name, else in `own`, the model's: codec, vocabulary, ends of the text, defaults. Errors: INVALID_ARGUMENT,
// FAILED_PRECONDITION, naming the file; NOT_FOUND where there is no tokenizer.json.
base::Result<std::shared_ptr<const msg::TextSpec>> read_tokenizer(const Options& options, const std::string& own);

}  // namespace weir::forward
