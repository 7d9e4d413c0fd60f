// Files in GGUF's form, as llama.cpp and Ollama have models of text: each is a model, whatever it is called, but for
// the parts that one was split into (NAME-00001-of-00003.gguf and so on).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/folder.h"

namespace weir::models {

bool is_gguf(std::string_view name);
// Whether a path leads to a regular file that is called so, or begins so: caches of Ollama and Hugging Face have theirs
// under names of another kind.
bool is_gguf_file(const std::string& path);
// The models among a folder's own files, by their names; a split one by that of its first part.
std::vector<std::string> gguf_models(const Stamps& stamps);

}  // namespace weir::models
