// Tokenizer: text <-> token ids, from a Hugging Face tokenizer.json with a model of type BPE (byte-level, or in
// SentencePiece's manner with byte fallback) or WordPiece. Immutable; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/error.h"

namespace tokenizers {

enum class AddSpecial : uint8_t { kNo, kYes };   // the tokens of the file's post_processor (<s>, …)
enum class SkipSpecial : uint8_t { kNo, kYes };  // leave special tokens out of decoded text

class Tokenizer {
 public:
  // The error names the part of the file that is wrong or that is not supported. The file has at most 256 MiB.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view tokenizer_json);
  ~Tokenizer();

  // Bytes that are not UTF-8 count as U+FFFD. Added tokens are recognised in the text. Linear in the length of the
  // text. Once `cancelled` (or null) is true it ends soon, with a part of the ids.
  std::vector<uint32_t> encode(std::string_view text, AddSpecial add,
                               const std::atomic<bool>* cancelled = nullptr) const;
  // Ids that the vocabulary does not have decode to nothing.
  std::string decode(std::span<const uint32_t> ids, SkipSpecial skip) const;

  uint32_t size() const;  // ids are below this, added tokens included
  // As the vocabulary spells it ("Ġthe", "<0x0A>"); empty for ids that it does not have.
  std::string_view piece(uint32_t id) const;
  // The bytes that the token adds to a text ("Ġthe" -> " the"); may be a part of a UTF-8 sequence.
  std::string_view bytes(uint32_t id) const;
  std::optional<uint32_t> id(std::string_view piece) const;  // of a piece or an added token
  bool special(uint32_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  friend class DecodeStream;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace tokenizers
