// Normalizer: the changes to a text before it is cut into words, as a tokenizer.json's `normalizer` lists them.
// Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bert.h"
#include "charsmap.h"
#include "pattern.h"

namespace tokenizers {

struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct StripAccents {};
struct Lowercase {};
struct Strip {  // white space at the text's ends
  bool left = true, right = true;
};
enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
using NormalizerStep =
    std::variant<Prepend, Replace, UnicodeForm, BertNormalizer, StripAccents, Lowercase, Charsmap, Strip>;

// Every match of the pattern replaced, from left to right while the result has at most `most` bytes.
std::string replace_all(std::string_view text, const Replace& step, size_t most, Pattern::FailureBudget& failures);

// The most bytes that a text of so many bytes may become; Unicode's own forms stay below 16 times.
constexpr size_t max_normalized(size_t bytes) { return 16 * bytes + 4096; }

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // The normalized text: `text` itself where nothing changes, else `storage`. Steps that would make it longer than
  // max_normalized() are not done, or not to the end.
  std::string_view apply(std::string_view text, std::string& storage, Pattern::FailureBudget& failures) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace tokenizers
