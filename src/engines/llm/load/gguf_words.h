// How byte-level BPE cuts a text into words, by the name that a GGUF file has for it (tokenizer.ggml.pre).
#pragma once

#include <string_view>
#include <vector>

namespace weir::llm {

struct WordRule {
  // Each cuts what those before it have left whole: its matches, and what lies between them, are words.
  std::vector<std::string_view> patterns;
  bool nfc = false;            // texts are composed first
  bool ignore_merges = false;  // a word that is a token is that token
  bool add_bos = false;        // unless the file says otherwise
};

// An empty name stands for "default", as in files from before there were names. Null: it is not known here.
const WordRule* word_rule(std::string_view name);

}  // namespace weir::llm
