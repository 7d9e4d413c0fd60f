// Normalizer: the changes to a text before it is cut into words, as a tokenizer.json's `normalizer` lists them.
// Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/bert.h"
#include "text/pattern.h"

namespace weir::text {

struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  Pattern pattern;
  std::string content;
};
struct StripAccentsStep {};
struct LowercaseStep {};
enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
using NormalizeStep = std::variant<PrependStep, ReplaceStep, UnicodeForm, BertStep, StripAccentsStep, LowercaseStep>;

// Every match of the pattern replaced, from left to right while the result has at most `most` bytes.
std::string replace_all(std::string_view text, const ReplaceStep& step, size_t most, Pattern::Patience& patience);

// What a text of that many bytes may become: Unicode's own forms stay below 16 times.
constexpr size_t longest_normalized(size_t bytes) { return 16 * bytes + 4096; }

class Normalizer {
 public:
  void add(NormalizeStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // The normalized text: `text` itself where nothing changes, else `storage`. Steps that would make it longer than
  // longest_normalized() are not done, or not to the end.
  std::string_view apply(std::string_view text, std::string& storage, Pattern::Patience& patience) const;

 private:
  std::vector<NormalizeStep> steps_;
};

}  // namespace weir::text
