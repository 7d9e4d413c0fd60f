// PreTokenizer: cuts text into the words that the model works on, as the steps of a tokenizer.json's `pre_tokenizer`
// say. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pattern.h"

namespace tokenizers {

// How the matches of a pattern and the gaps between them become words (the names are those of the file).
enum class SplitDelimiterBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Split {
  Pattern pattern;
  SplitDelimiterBehavior behavior = SplitDelimiterBehavior::kIsolated;
  bool invert = false;  // the gaps are the matches
};
struct AddPrefixSpace {};  // ByteLevel's add_prefix_space: a space before a piece that has none
struct Metaspace {
  enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };
  std::string replacement;  // of the space; one character
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;  // before each replacement
};
struct BertPreTokenizer {};  // white space goes, punctuation stands alone
using PreTokenizerStep = std::variant<Split, AddPrefixSpace, Metaspace, BertPreTokenizer>;

class WordSink {
 public:
  virtual void word(std::string_view word) = 0;  // never empty; valid during the call

 protected:
  ~WordSink() = default;
};

class PreTokenizer {
 public:
  void add(PreTokenizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }

  // The working memory of one thread's encode().
  class Run {
   public:
    Run(const PreTokenizer& owner, Pattern::FailureBudget& failures);  // both borrowed
    // `first`: the section is the beginning of the whole text.
    void split(std::string_view section, bool first, WordSink& sink) { step(0, section, first, sink); }

   private:
    void step(size_t number, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const Split& split, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const AddPrefixSpace&, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const Metaspace& metaspace, std::string_view piece, bool first, WordSink& sink);
    void apply(size_t number, const BertPreTokenizer&, std::string_view piece, bool first, WordSink& sink);

    const std::vector<PreTokenizerStep>* steps_;
    std::vector<Pattern::Search> searches_;  // one per step; of steps without a pattern unused
  };

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace tokenizers
