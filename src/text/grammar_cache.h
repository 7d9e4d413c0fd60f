// GrammarCache: the forms of completions that were asked for lately, compiled for one vocabulary (subprojects/grammar).
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "msg/token_constraint.h"
#include "text/tool_format.h"
#include "tokenizers/tokenizer.h"

namespace grammar {
class MaskBudget;
class Vocabulary;
}  // namespace grammar

namespace weir::text {

// A least-recently-used cache of compiled grammars. Any thread. It keeps at most kMostGrammars of them, of at most
// kMostBytes together; a grammar that is dropped while a sequence uses it lives as long as the sequence. The masks of
// all grammars together take at most kMostMaskBytes: where more are needed, one above the average loses its own.
class GrammarCache {
 public:
  static constexpr size_t kMostGrammars = 128, kMostBytes = size_t(64) << 20, kMostMaskBytes = size_t(128) << 20;

  GrammarCache(std::shared_ptr<const tokenizers::Tokenizer> tokenizer, ToolStyle style);
  ~GrammarCache();

  // As in msg::TextCodec.
  base::Result<std::shared_ptr<const msg::TokenGrammar>> compile(const msg::StructuredOutput& form,
                                                                 const std::atomic<bool>* cancelled);
  std::shared_ptr<const msg::TokenGrammar> find(const msg::StructuredOutput& form);

 private:
  class Compiled;
  struct CachedGrammar {
    std::string key;
    std::shared_ptr<const Compiled> compiled;
  };

  std::shared_ptr<const Compiled> find_key(const std::string& key);
  grammar::Result<grammar::Grammar> read(const msg::StructuredOutput& form) const;
  void put(std::string key, std::shared_ptr<const Compiled> compiled);
  std::shared_ptr<const grammar::Vocabulary> vocabulary();

  const std::shared_ptr<const tokenizers::Tokenizer> tokenizer_;
  const ToolStyle style_;
  const std::shared_ptr<grammar::MaskBudget> masks_;
  std::once_flag once_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made when it is first needed

  std::mutex mutex_;
  std::list<CachedGrammar> entries_;  // this and the next: under mutex_; the most recently used first
  std::unordered_map<std::string, std::list<CachedGrammar>::iterator> at_;
};

}  // namespace weir::text
