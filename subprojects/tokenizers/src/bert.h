// BERT's normalizer (cleaning, lower case, accents) and its pre-tokenizer (where words end), character by character as
// in Hugging Face's library. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace tokenizers {

struct BertNormalizer {
  bool clean = true;       // control characters go, white space becomes a space
  bool ideographs = true;  // a space on either side of each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};

// False: nothing changes, `out` is untouched. `text` is valid UTF-8.
bool bert_normalize(const BertNormalizer& step, std::string_view text, std::string& out);

bool lower_case(std::string_view text, std::string& out);  // without regard to the neighbours: no final sigma

// The next word of a valid text at or after `at`, which moves behind it: a run without white space and punctuation, or
// one character of punctuation (any of ASCII's, and category P). Empty at the end.
std::string_view bert_word(std::string_view text, size_t& at);

}  // namespace tokenizers
