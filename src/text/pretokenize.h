// PreTokenizer: cuts text into the words that the model works on, as the steps of a tokenizer.json's `pre_tokenizer`
// say. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace weir::text {

// What becomes of the matches of a pattern and of the gaps between them (names as in the file).
enum class SplitBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the gaps are the matches
};
struct PrefixSpaceStep {};  // ByteLevel's add_prefix_space: a space before a piece that has none
struct MetaspaceStep {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  std::string replacement;  // of the space; one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // before each replacement
};
struct BertWordsStep {};  // white space goes, punctuation stands alone
using PreTokenizeStep = std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep, BertWordsStep>;

class WordSink {
 public:
  virtual void word(std::string_view word) = 0;  // never empty; valid during the call

 protected:
  ~WordSink() = default;
};

class PreTokenizer {
 public:
  void add(PreTokenizeStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }

  // The working memory of one thread's encode().
  class Run {
   public:
    Run(const PreTokenizer& owner, Pattern::Patience& patience);  // both borrowed
    // `first`: the section is the beginning of the whole text.
    void split(std::string_view section, bool first, WordSink& sink) { step(0, section, first, sink); }

   private:
    void step(size_t number, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const SplitStep& split, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const PrefixSpaceStep&, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const MetaspaceStep& metaspace, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const BertWordsStep&, std::string_view piece, bool first, WordSink& sink);

    const std::vector<PreTokenizeStep>* steps_;
    std::vector<Pattern::Search> searches_;  // one per step; of steps without a pattern unused
  };

 private:
  std::vector<PreTokenizeStep> steps_;
};

}  // namespace weir::text
