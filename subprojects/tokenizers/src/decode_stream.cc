#include "tokenizers/decode_stream.h"

#include <utility>

#include "pipeline.h"
#include "utf8.h"

namespace tokenizers {

DecodeStream::DecodeStream(const Tokenizer& tokenizer, SkipSpecial skip)
    : tokenizer_(tokenizer),
      skip_(skip),
      at_start_(!tokenizer.parts_->decoder.continuing.empty()),
      strip_(tokenizer.parts_->decoder.strip_start) {}

void DecodeStream::step(uint32_t id, std::string& out) {
  if (skip_ == SkipSpecial::kYes && tokenizer_.special(id)) return;
  if (std::exchange(at_start_, false))
    held_ += tokenizer_.parts_->decoder.first(tokenizer_.piece(id));
  else
    held_ += tokenizer_.bytes(id);
  size_t certain = held_.size() - utf8_cut_tail(held_);
  if (certain == 0) return;
  std::string_view text = std::string_view(held_).substr(0, certain);
  for (; strip_ > 0 && !text.empty(); --strip_) {
    if (text[0] != tokenizer_.parts_->decoder.strip)
      strip_ = 1;  // the text has begun: nothing more to take off
    else
      text.remove_prefix(1);
  }
  utf8_append_lossy(out, text);
  held_.erase(0, certain);
}

void DecodeStream::finish(std::string& out) {
  utf8_append_lossy(out, held_);
  held_.clear();
}

}  // namespace tokenizers
