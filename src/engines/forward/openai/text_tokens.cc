#include "engines/forward/openai/text_tokens.h"

#include <algorithm>

namespace weir::forward {
namespace {

constexpr std::string_view kAnchor = "\n";

}  // namespace

TextTokens::TextTokens(const msg::TextCodec& codec)
    : codec_(codec),
      anchor_(codec.encode(kAnchor, msg::AddSpecial::kNo)),
      anchor_text_(codec.decode(anchor_, msg::SkipSpecial::kNo)) {}

bool TextTokens::adds(const std::vector<uint32_t>& ids, std::string_view piece, msg::SkipSpecial skip) const {
  std::vector<uint32_t> all = anchor_;
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string text = codec_.decode(all, skip);
  return text.size() == anchor_text_.size() + piece.size() && text.starts_with(anchor_text_) && text.ends_with(piece);
}

std::vector<uint32_t> TextTokens::push(std::string_view piece) {
  if (piece.empty()) return {};
  std::vector<uint32_t> ids = codec_.encode(piece, msg::AddSpecial::kNo);
  if (adds(ids, piece, msg::SkipSpecial::kNo)) return ids;
  std::vector<uint32_t> behind = codec_.encode(std::string(kAnchor) + std::string(piece), msg::AddSpecial::kNo);
  if (behind.size() > anchor_.size() && std::equal(anchor_.begin(), anchor_.end(), behind.begin())) {
    behind.erase(behind.begin(), behind.begin() + ptrdiff_t(anchor_.size()));
    if (adds(behind, piece, msg::SkipSpecial::kNo)) return behind;
  }
  return ids;  // a text that the tokenizer normalizes: as near as it gets
}

}  // namespace weir::forward
