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

// Any thread. Forms that were not used for longest go where there are more than kMost, or where they take more than
// kMostBytes; who uses one keeps it. The masks of all together take kMostMaskBytes; what does not fit is found anew.
class GrammarCache {
 public:
  static constexpr size_t kMost = 128, kMostBytes = size_t(64) << 20, kMostMaskBytes = size_t(128) << 20;

  GrammarCache(std::shared_ptr<const tokenizers::Tokenizer> tokenizer, ToolStyle style);
  ~GrammarCache();

  // As msg::TextCodec has them.
  base::Result<std::shared_ptr<const msg::TokenGrammar>> compile(const msg::StructuredOutput& form,
                                                                 const std::atomic<bool>* cancelled);
  std::shared_ptr<const msg::TokenGrammar> find(const msg::StructuredOutput& form);

 private:
  class Compiled;
  struct Entry {
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
  std::list<Entry> entries_;  // this and the next: under mutex_; the last used in front
  std::unordered_map<std::string, std::list<Entry>::iterator> at_;
};

}  // namespace weir::text
