#include "generation/sequence.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::generation {

using msg::PositionRange;

Sequence::Sequence(msg::Call* c, uint32_t l, uint64_t a)
    : call(c), params(*c->generation), level(l), arrival(a), prompt(uint32_t(params.length())) {
  if (is(msg::Aim::kGenerate)) scores = PositionSet(params.logprobs), readouts = PositionSet(params.readouts);
  for (const auto& image : params.history_images) image_states.push_back({&image, {}, {}});
  for (const auto& image : params.images) image_states.push_back({&image, {}, {}});
}

void Sequence::write_tokens() {
  if (tokens.size() >= prompt) return;
  if (tokens.empty()) tokens.reserve(size_t(prompt) + std::min<uint32_t>(params.max_tokens, 256));
  size_t from_history = std::min(tokens.size(), params.history.size());
  tokens.insert(tokens.end(), params.history.begin() + ptrdiff_t(from_history), params.history.end());
  tokens.insert(tokens.end(), params.append.begin(), params.append.end());
}

// A logprob of position p needs p - 1 fed; whatever is emitted of p waits until p is fed. Generated tokens were emitted
// when they were drawn.
void Sequence::find_recomputes() {
  std::vector<PositionRange> again;
  uint32_t end = std::min(stored, prompt);
  for (auto range : scores.all()) {
    uint32_t first = std::max(range.start, emitted);
    if (first >= range.end || first > stored || first >= prompt) continue;
    again.push_back({first > 0 ? first - 1 : 0, std::min(range.end, end)});
  }
  for (auto range : readouts.all()) again.push_back({std::max(range.start, emitted), std::min(range.end, end)});
  recomputes = PositionSet(again);
}

// By its pads: what stands before and after them is in the token ids.
std::span<Sequence::ImageState> Sequence::image_states_in(uint32_t from, uint32_t to) {
  auto first =
      std::partition_point(image_states.begin(), image_states.end(), [&](auto& s) { return s.image->end - 1 <= from; });
  auto last = std::partition_point(first, image_states.end(), [&](auto& s) { return s.image->start + 1 < to; });
  return {first, last};
}

void Sequence::request_images() {
  if (image_states.empty()) return;
  auto request = [&](uint32_t from, uint32_t to) {
    for (auto& state : image_states_in(from, to))
      images_missing += !state.encoded && !std::exchange(state.needed, true);
  };
  request(stored, length());
  for (auto range : recomputes.all()) request(range.start, range.end);
}

base::Status Sequence::take_features(ImageState& state, base::Result<ImageFeatures> features) {
  const auto& image = *state.image;
  auto named = [&] {
    return "image " + std::to_string(&state - image_states.data()) + " at positions [" + std::to_string(image.start) +
           ", " + std::to_string(image.end) + ")";
  };
  if (!features) {
    base::Status status = std::move(features).error();
    if (status.code == base::Code::kInvalidArgument) status.text = named() + ": " + status.text;
    return status;
  }
  uint32_t pads = image.end - image.start - 2;
  if (features->count != pads)
    return base::invalid(named() + " has " + std::to_string(pads) + " pads; the model makes " +
                         std::to_string(features->count) + " features of it");
  state.features = std::move(*features);
  state.encoded = true;
  --images_missing;
  return {};
}

void Sequence::forget_computed() {
  recomputes = {}, next_score = {};
  pool.clear();
  for (auto& state : image_states) state.features = {}, state.encoded = state.needed = false, state.job = 0;
  images_missing = 0;
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
