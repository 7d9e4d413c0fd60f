// ChunkTokens: the tokens of a completion's chunks, handed on part by part. An origin may put a whole text into one
// chunk: to tokenize that, and to hand on its tokens, would take longer than the other connections of a shard may wait;
// and while the client has no room, a text takes less of it than its tokens. On one shard's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/forward/kind.h"
#include "engines/forward/openai/json_scanner.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/openai/text_tokens.h"

namespace weir::forward {

class ChunkTokens {
 public:
  static constexpr size_t kPart = 1024, kPartBytes = 2048;  // tokens, and bytes of text that are tokenized, at once

  // `asked` and `receiver` outlive this.
  ChunkTokens(const Asked& asked, Attempt::Receiver& receiver);

  // All that came has been handed on.
  bool empty() const { return next_ == (chat_ ? logprobs_.size() : ids_.size()) && at_ == text_.size(); }
  // Only while empty(): takes text, ids and log-probabilities of the chunk. Errors: INTERNAL.
  base::Status take(CompletionChunk& chunk);
  // Hands on the next part, none while the receiver holds. Errors: INTERNAL: tokens that were not asked for;
  // RESOURCE_EXHAUSTED: no memory to keep them.
  base::Status emit();

  bool has_ids() const { return has_ids_; }  // the origin sends them
  size_t count() const { return count_; }    // that were handed on
  uint32_t last_id() const { return last_id_; }
  size_t most() const { return most_; }  // tokens that the origin was asked for
  // Ids that they may be: texts may have more than the model has drawn, and bytes are many for each.
  size_t most_ids() const;

 private:
  enum class Form : uint8_t { kHeld, kAside };  // of a token: whether the text's form is held against it
  base::Status emit_token(uint32_t id, const NamedLogprob* named, Form form);
  void take_chat(CompletionChunk& chunk);
  base::Status emit_chat();
  std::vector<uint32_t> named_ids(const CompletionChunk& chunk) const;
  void tokenize();
  bool holds_form(uint32_t id);
  std::optional<uint32_t> find_id(const NamedToken& token) const;
  std::shared_ptr<const msg::TokenDetails> details_of(const NamedLogprob& named) const;

  const Asked& asked_;
  const msg::Generation& params_;
  Attempt::Receiver& receiver_;
  const bool chat_;
  const size_t most_;
  size_t position_;  // of the next token
  TextTokens text_tokens_;
  std::optional<JsonScanner> json_;  // where the form is JSON
  const bool to_schema_;             // and a schema's, in a chat
  bool has_ids_ = false;
  size_t count_ = 0;
  uint32_t last_id_ = 0;

  // The chunk: ids that are handed on from next_ on, of the text before at_ where it came without ids. The
  // log-probabilities are those of the last ids. Of a chat: log-probabilities from next_ on, the next one at due_ of
  // the text, whose bytes are ids from at_ on; no form is held against those before aside_.
  std::vector<uint32_t> ids_;
  std::string text_;
  std::vector<NamedLogprob> logprobs_;
  size_t next_ = 0, at_ = 0, due_ = 0, aside_ = 0;
};

}  // namespace weir::forward
