// GgufModel: the GGUF file of a model, or the parts that it was split into (NAME-00001-of-00003.gguf and so on: the
// fields are the first one's, the tensors those of all), in terms of a Hugging Face folder.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/files.h"
#include "engines/llm/load/gguf.h"

namespace weir::llm {

struct GgufModel {
  struct Part {
    std::string name;
    Mapping mapping;
  };
  std::vector<Part> parts;
  Gguf gguf;  // borrows from the parts
};

// The model that `file` is, or is a part of. Errors, naming the file: as parse_gguf() and Folder::map().
base::Result<GgufModel> open_gguf(const Folder& folder, const std::string& file);

// The tensors by the names that Llama-like models have in a Hugging Face folder, in its order of rows: llama.cpp turns
// neighbours of a head against each other where Hugging Face turns halves, so that files of some architectures have the
// rows of queries and keys in another order. Errors: INVALID_ARGUMENT, UNIMPLEMENTED (a tensor that such models do
// not have).
base::Result<Arrays> named_arrays(const Gguf& gguf);

}  // namespace weir::llm
