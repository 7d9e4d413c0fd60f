// TextTokens: the token ids of a text that an origin sends without them, piece by piece, so that it can go on as
// tokens: ids that decode to the same text, though not always those that the model has drawn. One text; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msg/text_codec.h"

namespace weir::forward {

class TextTokens {
 public:
  explicit TextTokens(const msg::TextCodec& codec);  // borrowed

  // The ids that the next piece adds; empty where there are none for it.
  std::vector<uint32_t> push(std::string_view piece);
  // Whether these ids add that piece to a text; special tokens with their names or without.
  bool spell(const std::vector<uint32_t>& ids, std::string_view piece) const {
    return adds(ids, piece, msg::SkipSpecial::kNo) || adds(ids, piece, msg::SkipSpecial::kYes);
  }

 private:
  bool adds(const std::vector<uint32_t>& ids, std::string_view piece, msg::SkipSpecial skip) const;

  const msg::TextCodec& codec_;
  // In front of a piece, so that tokenizers which put a space before a text put it elsewhere.
  std::vector<uint32_t> anchor_;
  std::string anchor_text_;
};

}  // namespace weir::forward
