// ModelScope: the models that a caller may see and use, as patterns of names: "chat", "chat*", "*-small", "v?". `*`
// stands for any characters, `?` for one. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::base {

// Whether the whole of `text` is as `pattern` says. The work is at most the product of both lengths.
bool matches_glob(std::string_view pattern, std::string_view text);

class ModelScope {
 public:
  // No patterns: no model.
  explicit ModelScope(std::vector<std::string> patterns);

  bool allows(std::string_view model) const;
  // The same text for the same patterns.
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> patterns_;
  std::string text_;
};

}  // namespace weir::base
