// What BERT's tokenizers do to a text before its words are looked up: cleaning, lower case, accents, and where words
// end. As the Rust library `tokenizers` does it, character by character. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace weir::text {

struct BertStep {
  bool clean = true;       // control characters go, white space becomes a space
  bool ideographs = true;  // a space on either side of each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};

// False: nothing changes, `out` is untouched. `text` is valid UTF-8.
bool bert_normalize(const BertStep& step, std::string_view text, std::string& out);

// One part of them each.
bool strip_accents(std::string_view text, std::string& out);  // canonical decomposition without its marks (Mn)
bool lower_case(std::string_view text, std::string& out);     // without regard to the neighbours: no final sigma

// The next word of a valid text at or after `at`, which moves behind it: a run without white space and punctuation, or
// one character of punctuation (any of ASCII's, and category P). Empty at the end.
std::string_view bert_word(std::string_view text, size_t& at);

}  // namespace weir::text
