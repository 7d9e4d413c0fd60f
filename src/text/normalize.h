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

// Every match of the pattern replaced.
std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content);

class Normalizer {
 public:
  void add(NormalizeStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // The normalized text: `text` itself where nothing changes, else `storage`.
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  std::vector<NormalizeStep> steps_;
};

}  // namespace weir::text
