// Tokenizer: text <-> token ids, from a Hugging Face tokenizer.json with a model of type BPE (byte-level, or in
// SentencePiece's manner with byte fallback), WordPiece or Unigram. Immutable; any thread.
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

// Two texts as one row for a model, with the ids that are put around them; of each id the number of its text (type_id).
struct Pair {
  std::vector<uint32_t> ids, types;
};
// A part of the template of such a row: one of the texts, or ids of its own.
struct PairPart {
  enum class What : uint8_t { kIds, kFirst, kSecond };
  What what = What::kIds;
  uint32_t type = 0;
  std::vector<uint32_t> ids;
};
using PairTemplate = std::vector<PairPart>;
// Puts two texts' ids into a template; into an empty one, one behind the other. Where that is more than `most` ids, the
// ends of the texts are cut: of the longer one down to the other's length, then of both, as Hugging Face's
// "longest_first" does. Where not even the template's own ids fit, they are all there is.
Pair join_pair(const PairTemplate& around, std::span<const uint32_t> first, std::span<const uint32_t> second,
               size_t most);

class Tokenizer {
 public:
  // The error names the part of the file that is wrong or that is not supported. The file has at most 256 MiB.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view tokenizer_json);
  ~Tokenizer();

  // Bytes that are not UTF-8 count as U+FFFD. Added tokens are recognised in the text. Linear in the length of the
  // text. Once `cancelled` (or null) is true it ends soon, with a part of the ids.
  std::vector<uint32_t> encode(std::string_view text, AddSpecial add,
                               const std::atomic<bool>* cancelled = nullptr) const;
  // Two texts' ids (of encode() with AddSpecial::kNo) by the post_processor's template for pairs.
  Pair join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second, size_t most) const;
  // How many ids the template for pairs adds.
  size_t pair_markers() const;
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
