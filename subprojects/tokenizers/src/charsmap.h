// Charsmap: SentencePiece's table of normalized spellings, a tokenizer.json's `precompiled_charsmap`, in base64:
//   charsmap = size:u32le, trie:[u32le] of `size` bytes, texts: UTF-8 texts that each end with a zero byte
// The trie is a double array as Darts-clone writes it (S. Yata, https://github.com/s-yata/darts-clone); a value is
// where its text begins. Read as Hugging Face's library reads it (crate spm_precompiled): of the spellings that begin a
// grapheme cluster (Unicode's UAX 29) of less than six bytes, the shortest replaces the whole of it; longer clusters
// and those that no spelling begins go character by character. Not trusted: a unit or a text beyond the table's end is
// no spelling. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tokenizers {

class Charsmap {
 public:
  static constexpr size_t kMaxTable = 16u << 20;  // bytes
  static constexpr size_t kMaxText = 1024;        // bytes of one normalized spelling

  // Nothing where it is not of that form.
  static std::optional<Charsmap> parse(std::string_view base64);

  // False: nothing changes, `out` is untouched. Once that would be more than `most` bytes, the rest stays as it is.
  bool apply(std::string_view text, std::string& out, size_t most) const;

 private:
  std::optional<std::string_view> replacement(std::string_view spelling) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

// Bytes of the grapheme cluster that begins at `at` of a valid text.
size_t grapheme_size(std::string_view text, size_t at);

}  // namespace tokenizers
