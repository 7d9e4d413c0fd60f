#include "generation/drafts.h"

namespace weir::generation {
namespace {

constexpr size_t kAlike = 3;        // tokens that have to stand there again
constexpr size_t kLooked = 16'384;  // tokens back, so that a step looks no longer than some microseconds

}  // namespace

// The last place is the likeliest one.
Draft find_draft(std::span<const uint32_t> tokens, uint32_t most) {
  if (most == 0 || tokens.size() <= kAlike) return {};
  const size_t begin = tokens.size() > kLooked ? tokens.size() - kLooked : 0;
  const uint32_t* newest = tokens.data() + tokens.size() - kAlike;
  for (size_t at = tokens.size() - 1; at >= begin + kAlike; --at)
    if (tokens[at - 1] == newest[2] && tokens[at - 2] == newest[1] && tokens[at - 3] == newest[0])
      return {uint32_t(at), most};
  return {};
}

uint32_t DraftLength::next(uint32_t most) {
  if (pause_ > 0) return --pause_, 0;
  return std::min(length_, most);
}

void DraftLength::record(uint32_t count, uint32_t right) {
  if (right == count)
    length_ = std::max(length_, 2 * count), next_pause_ = 1;
  else if (right > 0)
    length_ = right;
  else
    length_ = 1, pause_ = next_pause_, next_pause_ = std::min(2 * next_pause_, kLongestPause);
}

}  // namespace weir::generation
