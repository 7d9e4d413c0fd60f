#include "text/stream.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace weir::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, SkipSpecial skip)
    : tokenizer_(tokenizer),
      skip_(skip),
      begins_(!tokenizer.parts_->decoder.continuing.empty()),
      strip_(tokenizer.parts_->decoder.strip_start) {}

void Detokenizer::push(uint32_t id, std::string& out) {
  if (skip_ == SkipSpecial::kYes && tokenizer_.special(id)) return;
  if (std::exchange(begins_, false))
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

void Detokenizer::finish(std::string& out) {
  utf8_append_lossy(out, held_);
  held_.clear();
}

StopStrings::StopStrings(std::vector<std::string> stops, Keep keep) : keep_(keep) {
  std::erase_if(stops, [](const std::string& stop) { return stop.empty(); });
  stops_ = std::move(stops);
  for (const std::string& stop : stops_) {
    // The failure function of Knuth, Morris and Pratt: how much still matches after a mismatch behind i bytes.
    Progress progress{std::vector<uint32_t>(stop.size() + 1), 0};
    for (size_t i = 1, k = 0; i < stop.size(); ++i) {
      while (k > 0 && stop[i] != stop[k]) k = progress.back[k];
      if (stop[i] == stop[k]) ++k;
      progress.back[i + 1] = uint32_t(k);
    }
    progress_.push_back(std::move(progress));
  }
}

bool StopStrings::advance(char c) {
  bool complete = false;
  for (size_t s = 0; s < stops_.size(); ++s) {
    const std::string& stop = stops_[s];
    Progress& progress = progress_[s];
    uint32_t k = progress.matched;
    if (k == stop.size()) k = progress.back[k];
    while (k > 0 && stop[k] != c) k = progress.back[k];
    if (stop[k] == c) ++k;
    progress.matched = k;
    if (k < stop.size() || (complete && stop.size() <= stops_[which_].size())) continue;
    complete = true;  // of those that end here, the one that began first
    which_ = s;
  }
  return complete;
}

bool StopStrings::push(std::string_view piece, std::string& out) {
  if (stops_.empty()) {
    out += piece;
    return false;
  }
  for (size_t i = 0; i < piece.size(); ++i) {
    if (!advance(piece[i])) continue;
    held_ += piece.substr(0, i + 1);
    if (keep_ == Keep::kNo) held_.resize(held_.size() - stops_[which_].size());
    finish(out);
    return true;
  }
  held_ += piece;
  uint32_t keep_back = 0;
  for (const Progress& progress : progress_) keep_back = std::max(keep_back, progress.matched);
  size_t certain = held_.size() - keep_back;
  out.append(held_, 0, certain);
  held_.erase(0, certain);
  return false;
}

void StopStrings::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace weir::text
