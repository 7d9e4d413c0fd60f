#include "pre_tokenizer.h"

#include "bert.h"
#include "utf8.h"

namespace tokenizers {

namespace {

// Joins matches and gaps to pieces, as a behaviour says; calls `emit(from, to)`. Borders come from left to right.
template <class Emit>
class Joiner {
 public:
  Joiner(SplitDelimiterBehavior behavior, Emit emit) : behavior_(behavior), emit_(emit) {}

  void part(size_t from, size_t to, bool match) {
    if (from == to) return;
    switch (behavior_) {
      case SplitDelimiterBehavior::kIsolated: return emit_(from, to);
      case SplitDelimiterBehavior::kRemoved: return match ? void() : emit_(from, to);
      case SplitDelimiterBehavior::kMergedWithPrevious:
        // A match closes the gap before it; a match behind a match stands alone.
        if (match && open_ && !open_match_) return close(to);
        break;
      case SplitDelimiterBehavior::kMergedWithNext:
        if (!match && open_ && open_match_) return close(to);
        break;
      case SplitDelimiterBehavior::kContiguous:
        if (open_ && open_match_ == match) {
          open_to_ = to;
          return;
        }
        break;
    }
    flush();
    open_ = true, open_from_ = from, open_to_ = to, open_match_ = match;
  }
  void flush() {
    if (open_) close(open_to_);
  }

 private:
  void close(size_t to) {
    open_ = false;
    emit_(open_from_, to);
  }

  SplitDelimiterBehavior behavior_;
  Emit emit_;
  bool open_ = false, open_match_ = false;
  size_t open_from_ = 0, open_to_ = 0;
};

}  // namespace

PreTokenizer::Run::Run(const PreTokenizer& owner, Pattern::FailureBudget& failures) : steps_(&owner.steps_) {
  static const Pattern kNothing = Pattern::literal("");
  for (const auto& step : *steps_) {
    const auto* split = std::get_if<Split>(&step);
    searches_.emplace_back(split ? split->pattern : kNothing, failures);
  }
}

void PreTokenizer::Run::step(size_t number, std::string_view piece, bool first, WordSink& sink) {
  if (piece.empty()) return;
  if (number == steps_->size()) return sink.word(piece);
  std::visit([&](const auto& what) { apply(number, what, piece, first, sink); }, (*steps_)[number]);
}

void PreTokenizer::Run::apply(size_t number, const Split& split, std::string_view piece, bool first, WordSink& sink) {
  auto emit = [&](size_t from, size_t to) {
    step(number + 1, piece.substr(from, to - from), first && from == 0, sink);
  };
  Joiner joiner(split.behavior, emit);
  size_t done = 0;  // everything before is emitted
  for (size_t from = 0; from < piece.size();) {
    auto match = searches_[number].next(piece, from);
    if (!match) break;
    joiner.part(done, match->from, split.invert);
    joiner.part(match->from, match->to, !split.invert);
    done = from = match->to;
    if (match->from == match->to && from < piece.size()) from += utf8_size(piece[from]);  // an empty match: a border
  }
  joiner.part(done, piece.size(), split.invert);
  joiner.flush();
}

void PreTokenizer::Run::apply(size_t number, const BertPreTokenizer&, std::string_view piece, bool first,
                              WordSink& sink) {
  for (size_t at = 0; at < piece.size();) {
    std::string_view word = bert_word(piece, at);
    step(number + 1, word, first && word.data() == piece.data(), sink);
  }
}

void PreTokenizer::Run::apply(size_t number, const AddPrefixSpace&, std::string_view piece, bool first,
                              WordSink& sink) {
  if (piece.starts_with(' ')) return step(number + 1, piece, first, sink);
  std::string spaced = " ";
  spaced += piece;
  step(number + 1, spaced, first, sink);
}

void PreTokenizer::Run::apply(size_t number, const Metaspace& metaspace, std::string_view piece, bool first,
                              WordSink& sink) {
  using PrependScheme = Metaspace::PrependScheme;
  const std::string& mark = metaspace.replacement;
  std::string text;
  text.reserve(piece.size() + piece.size() / 2 + mark.size());
  for (char c : piece) c == ' ' ? text += mark : text += c;
  bool wanted = metaspace.prepend_scheme == PrependScheme::kAlways ||
                (metaspace.prepend_scheme == PrependScheme::kFirst && first);
  if (wanted && !text.starts_with(mark)) text.insert(0, mark);
  if (!metaspace.split) return step(number + 1, text, first, sink);
  std::string_view rest = text;
  for (bool head = first; !rest.empty(); head = false) {
    size_t end = rest.find(mark, rest.starts_with(mark) ? mark.size() : 0);
    std::string_view word = rest.substr(0, end);
    step(number + 1, word, head, sink);
    rest.remove_prefix(word.size());
  }
}

}  // namespace tokenizers
