// BERT in a GGUF file: an encoder with a tokenizer of WordPieces. RoBERTa's files are called bert, too, and have
// positions that begin where those of its texts do; their tokenizers are not known here.
#pragma once

#include <string>

#include "base/status.h"
#include "engines/llm/load/gguf.h"

namespace weir::llm {

bool is_gguf_bert(const Gguf& gguf);

// config.json. Errors: INVALID_ARGUMENT, UNIMPLEMENTED (a classifier), naming the field.
base::Result<std::string> bert_config_of(const Gguf& gguf);

// tokenizer.json, of a tokenizer "bert". Errors: the same.
base::Result<std::string> word_pieces_of(const Gguf& gguf);

}  // namespace weir::llm
