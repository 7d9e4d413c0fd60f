#include "text/grammar_cache.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/readers.h"

namespace weir::text {
namespace {

using msg::StructuredOutput;

// The most steps that compile() spends on finding masks in advance, about a second of a worker. The other masks are
// found while tokens are generated.
constexpr uint64_t kStepsAhead = 100'000'000;

std::string key_of(const StructuredOutput& form) {
  std::string key{char('0' + int(form.kind)), char('0' + int(form.thoughts)), char('0' + int(form.schema))};
  key += form.text;
  for (const std::string& choice : form.choices) key += '\0' + std::to_string(choice.size()) + ':' + choice;
  return key;
}

// The matcher of one completion, and the mask of its next token. Both are made for the first mask(): a sequence that
// waits to run holds neither, and start() takes no time.
class Constraint final : public msg::TokenConstraint {
 public:
  Constraint(std::shared_ptr<const grammar::TokenAutomaton> automaton, std::shared_ptr<const StructuredOutput> form,
             std::span<const uint32_t> ends)
      : automaton_(std::move(automaton)), form_(std::move(form)), ends_(ends.begin(), ends.end()) {}

  void prepare() override { (void)mask(); }
  std::span<const uint32_t> mask() override {
    std::lock_guard lock(mutex_);
    if (!ready_) find_mask();
    return possible_ ? std::span<const uint32_t>(words_) : std::span<const uint32_t>();
  }
  bool accept(uint32_t id) override {
    std::lock_guard lock(mutex_);
    ready_ = false;
    return matcher().accept_token(id);
  }
  bool complete() const override {
    std::lock_guard lock(mutex_);
    return matcher_ && matcher_->complete();
  }
  const StructuredOutput* form() const override { return form_.get(); }

 private:
  grammar::Matcher& matcher() { return matcher_ ? *matcher_ : matcher_.emplace(automaton_); }
  void find_mask() {
    const uint32_t vocabulary = automaton_->vocabulary().size();
    const size_t vocabulary_words = (vocabulary + 31) / 32;
    if (words_.empty()) {
      uint32_t size = vocabulary;
      for (uint32_t id : ends_) size = std::max(size, id + 1);
      words_.resize((size + 31) / 32);
    }
    std::fill(words_.begin() + ptrdiff_t(vocabulary_words), words_.end(), 0);
    possible_ = matcher().mask(std::span(words_).first(vocabulary_words));
    // An end token ends the text where the grammar may end, even if the grammar uses the token as a marker elsewhere.
    for (uint32_t id : ends_) words_[id / 32] &= ~(1u << id % 32);
    if (matcher().accepting())
      for (uint32_t id : ends_) words_[id / 32] |= 1u << id % 32;
    ready_ = true;
  }

  const std::shared_ptr<const grammar::TokenAutomaton> automaton_;
  const std::shared_ptr<const StructuredOutput> form_;
  const std::vector<uint32_t> ends_;
  mutable std::mutex mutex_;
  std::optional<grammar::Matcher> matcher_;  // this and the rest: under mutex_
  std::vector<uint32_t> words_;
  bool ready_ = false, possible_ = true;
};

// Without the thoughts that may come before it.
grammar::Result<grammar::Grammar> read_form(const StructuredOutput& form) {
  switch (form.kind) {
    case StructuredOutput::Kind::kRegex: return grammar::read_regex(form.text);
    case StructuredOutput::Kind::kChoice: return grammar::read_choice(form.choices);
    case StructuredOutput::Kind::kGrammar: return grammar::read_gbnf(form.text);
    case StructuredOutput::Kind::kJsonSchema: break;
    case StructuredOutput::Kind::kJsonObject:
    case StructuredOutput::Kind::kToolCalls: return grammar::json_object();
  }
  const bool guide = form.schema == StructuredOutput::Schema::kGuide;
  return grammar::read_json_schema(form.text, guide ? grammar::Unsupported::kIgnored : grammar::Unsupported::kRefused);
}

}  // namespace

class GrammarCache::Compiled final : public msg::TokenGrammar {
 public:
  Compiled(std::shared_ptr<const grammar::TokenAutomaton> automaton, const StructuredOutput& form)
      : automaton_(std::move(automaton)), form_(std::make_shared<const StructuredOutput>(form)) {}
  std::unique_ptr<msg::TokenConstraint> start(std::span<const uint32_t> end_ids) const override {
    return std::make_unique<Constraint>(automaton_, form_, end_ids);
  }
  size_t bytes() const { return automaton_->bytes(); }

 private:
  const std::shared_ptr<const grammar::TokenAutomaton> automaton_;
  const std::shared_ptr<const StructuredOutput> form_;
};

GrammarCache::GrammarCache(std::shared_ptr<const tokenizers::Tokenizer> tokenizer, ToolStyle style)
    : tokenizer_(std::move(tokenizer)), style_(style), masks_(std::make_shared<grammar::MaskBudget>(kMostMaskBytes)) {}
GrammarCache::~GrammarCache() = default;

// A special token is 0xff followed by its text. UTF-8 has no byte 0xff, so only a grammar that names the token can
// match it. An ordinary token with this byte is left out.
std::shared_ptr<const grammar::Vocabulary> GrammarCache::vocabulary() {
  std::call_once(once_, [this] {
    std::vector<std::string_view> bytes(tokenizer_->size());
    std::vector<std::string> markers;
    markers.reserve(bytes.size());
    for (uint32_t id = 0; id < bytes.size(); ++id) {
      if (tokenizer_->special(id))
        bytes[id] = markers.emplace_back("\xff" + std::string(tokenizer_->piece(id)));
      else if (auto text = tokenizer_->bytes(id); text.find('\xff') == text.npos)
        bytes[id] = text;
    }
    vocabulary_ = std::make_shared<grammar::Vocabulary>(bytes);
  });
  return vocabulary_;
}

grammar::Result<grammar::Grammar> GrammarCache::read(const StructuredOutput& form) const {
  if (form.kind == StructuredOutput::Kind::kToolCalls) return read_tool_calls(form, style_, *tokenizer_);
  auto alone = read_form(form);
  if (!alone || form.thoughts == StructuredOutput::Thoughts::kNone) return alone;
  grammar::Segments segments;
  add_thoughts(form, style_, *tokenizer_, segments);
  return grammar::put_between(segments, std::move(*alone));
}

base::Result<std::shared_ptr<const msg::TokenGrammar>> GrammarCache::compile(const StructuredOutput& form,
                                                                             const std::atomic<bool>* cancelled) {
  using Made = std::shared_ptr<const msg::TokenGrammar>;
  std::string key = key_of(form);
  if (auto found = find_key(key)) return Made(std::move(found));
  auto wrong = [&](const grammar::Error& error) {
    if (cancelled && cancelled->load(std::memory_order_relaxed))
      return base::failure(base::Code::kCancelled, "cancelled");
    return base::invalid(std::string(form.param) + ": " + error.message);
  };
  auto grammar = read(form);
  if (!grammar) return wrong(grammar.error());
  auto automaton = grammar::Automaton::compile(*grammar, cancelled);
  if (!automaton) return wrong(automaton.error());
  auto tokens = std::make_shared<const grammar::TokenAutomaton>(*automaton, vocabulary(), masks_);
  (void)tokens->find_masks(kStepsAhead, cancelled);
  auto compiled = std::make_shared<const Compiled>(std::move(tokens), form);
  put(std::move(key), compiled);
  return Made(std::move(compiled));
}

std::shared_ptr<const msg::TokenGrammar> GrammarCache::find(const StructuredOutput& form) {
  return find_key(key_of(form));
}

std::shared_ptr<const GrammarCache::Compiled> GrammarCache::find_key(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto at = at_.find(key);
  if (at == at_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->compiled;
}

// Grammars that go are destroyed without the lock, which shards take: one may have a hundred thousand masks.
void GrammarCache::put(std::string key, std::shared_ptr<const Compiled> compiled) {
  std::list<CachedGrammar> gone;
  std::lock_guard lock(mutex_);
  if (at_.contains(key)) return;
  entries_.push_front({key, std::move(compiled)});
  at_.emplace(std::move(key), entries_.begin());
  size_t bytes = 0;
  for (const CachedGrammar& entry : entries_) bytes += 3 * entry.key.size() + entry.compiled->bytes();
  while (entries_.size() > 1 && (entries_.size() > kMostGrammars || bytes > kMostBytes)) {
    const CachedGrammar& last = entries_.back();
    bytes -= std::min(bytes, 3 * last.key.size() + last.compiled->bytes());
    at_.erase(last.key);
    gone.splice(gone.begin(), entries_, std::prev(entries_.end()));
  }
}

}  // namespace weir::text
