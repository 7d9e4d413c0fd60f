#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace weir::text {

StopStrings::StopStrings(std::vector<std::string> stops, Keep keep) : keep_(keep) {
  std::erase_if(stops, [](const std::string& stop) { return stop.empty(); });
  stops_ = std::move(stops);
  for (const std::string& stop : stops_) {
    // The failure function of Knuth, Morris and Pratt: back[i] bytes still match when i bytes matched and the next
    // does not.
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
    complete = true;  // of several that end here the longest, which began first
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
