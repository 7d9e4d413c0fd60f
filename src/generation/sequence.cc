#include "generation/sequence.h"

#include <algorithm>

namespace weir::generation {

using msg::PositionRange;

Sequence::Sequence(msg::Call* c, uint32_t l, uint64_t a)
    : call(c), wish(*c->generation), level(l), arrival(a), prompt(uint32_t(wish.length())) {
  if (is(msg::Aim::kGenerate)) scores = PositionSet(wish.logprobs), readouts = PositionSet(wish.readouts);
  for (const auto& image : wish.history_images) image_states.push_back({&image, {}, {}});
  for (const auto& image : wish.images) image_states.push_back({&image, {}, {}});
}

void Sequence::write_tokens() {
  if (tokens.size() >= prompt) return;
  if (tokens.empty()) tokens.reserve(size_t(prompt) + std::min<uint32_t>(wish.max_tokens, 256));
  size_t from_history = std::min(tokens.size(), wish.history.size());
  tokens.insert(tokens.end(), wish.history.begin() + ptrdiff_t(from_history), wish.history.end());
  tokens.insert(tokens.end(), wish.append.begin(), wish.append.end());
}

// A logprob of position p needs p - 1 fed; whatever is told of p waits until p is fed. Generated tokens were told when
// they were drawn.
void Sequence::find_reviews() {
  std::vector<PositionRange> again;
  uint32_t end = std::min(stored, prompt);
  for (auto range : scores.all()) {
    uint32_t first = std::max(range.start, told);
    if (first >= range.end || first > stored || first >= prompt) continue;
    again.push_back({first > 0 ? first - 1 : 0, std::min(range.end, end)});
  }
  for (auto range : readouts.all()) again.push_back({std::max(range.start, told), std::min(range.end, end)});
  reviews = PositionSet(again);
}

// By its pads: what stands before and after them is in the token ids.
std::span<Sequence::ImageState> Sequence::image_states_in(uint32_t from, uint32_t to) {
  auto first =
      std::partition_point(image_states.begin(), image_states.end(), [&](auto& s) { return s.image->end - 1 <= from; });
  auto last = std::partition_point(first, image_states.end(), [&](auto& s) { return s.image->start + 1 < to; });
  return {first, last};
}

Digest Sequence::images_in(uint32_t from, uint32_t to, uint64_t key) {
  Digest all;
  for (auto& state : image_states_in(from, to)) {
    if (!state.digest) {
      auto data = digest_of(state.image->data.span(), key);
      auto mime = digest_of(std::as_bytes(std::span(state.image->mime)), key);
      uint64_t both[] = {data.low, data.high, mime.low, mime.high};
      state.digest = digest_of(std::as_bytes(std::span(both)), key);
    }
    uint64_t chain[] = {all.low, all.high, state.digest->low, state.digest->high, state.image->start};
    all = digest_of(std::as_bytes(std::span(chain)), key);
  }
  return all;
}

}  // namespace weir::generation
