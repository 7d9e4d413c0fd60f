#include "generation/fit.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace weir::generation {
namespace {

using base::Code;
using base::failure;
using base::invalid;
using base::Status;
using msg::Generation;
using msg::TextSpec;

std::string number(size_t n) { return std::to_string(n); }

Status length_fits(const Generation& params, const TextSpec& text, TokenRoom room) {
  size_t length = params.length();
  if (length == 0) return invalid("the sequence is empty: at least one token is needed");
  if (length > text.max_length)
    return failure(Code::kOutOfRange, "the sequence has " + number(length) +
                                          " tokens, more than the model's context of " +
                                          number(size_t(text.max_length)));
  // Positions that are recomputed take a block beside the sequence.
  size_t beside = params.logprobs.empty() && params.readouts.empty() ? 0 : 1;
  size_t positions = (size_t(room.blocks) - std::min<size_t>(beside, room.blocks)) * room.block_size;
  if (length > positions)
    return failure(Code::kOutOfRange, "the sequence has " + number(length) +
                                          " tokens, but the server keeps keys and values of at most " +
                                          number(positions) + " for this model");
  return {};
}

Status ids_fit(const Generation& params, const TextSpec& text) {
  for (size_t i = 0; i < params.append.size(); ++i)
    if (params.append[i] >= text.vocabulary)
      return invalid("token " + number(params.history.size() + i) + " is id " + number(size_t(params.append[i])) +
                     "; ids are below " + number(size_t(text.vocabulary)));
  for (auto [id, bias] : params.sampling.logit_bias)
    if (id >= text.vocabulary || std::isnan(bias))
      return invalid("logit_bias of id " + number(size_t(id)) + " is not a number for an id below " +
                     number(size_t(text.vocabulary)));
  return {};
}

Status images_fit(const Generation& params, const TextSpec& text) {
  if (params.images.empty()) return {};
  if (!text.vision) return invalid("this model does not take images");
  size_t before = params.history.size();
  for (size_t i = 0; i < params.images.size(); ++i) {
    const auto& image = params.images[i];
    if (image.start < before || image.end > params.length() || image.end < image.start + 3)
      return invalid("image " + number(i) + " has positions [" + number(size_t(image.start)) + ", " +
                     number(size_t(image.end)) + "); they lie after " + number(before) + " and inside of " +
                     number(params.length()) + ", and hold at least one pad");
    before = image.end;
  }
  return {};
}

// One that was loaded stays as long as Calls may be for it.
Status adapter_fits(const msg::Call& call, const msg::ModelSpec& spec, const msg::AdapterLoader* adapters) {
  if (call.adapter <= spec.adapters.size()) return {};
  if (call.adapter < msg::kFirstLoadedAdapter)
    return failure(Code::kInternal, "model '" + spec.name + "' has no adapter " + number(call.adapter));
  if (adapters && adapters->has(call.adapter)) return {};
  return failure(Code::kUnavailable, "the adapter of model '" + spec.name + "' is not in memory");
}

}  // namespace

uint32_t TokenRoom::positions(const TextSpec& text) const {
  return uint32_t(std::min<uint64_t>(text.max_length, uint64_t(blocks) * block_size));
}

Status fits_tokens(const msg::Call& call, const msg::ModelSpec& spec, TokenRoom room,
                   const msg::AdapterLoader* adapters) {
  if (!call.generation) return invalid("model '" + spec.name + "' makes tokens; it does not take tensors this way");
  if (auto status = adapter_fits(call, spec, adapters); !status.ok()) return status;
  const auto& params = *call.generation;
  if (params.aim == msg::Aim::kRelease) {
    if (call.session) return {};
    return invalid("there is no session to release");
  }
  if (params.aim != msg::Aim::kGenerate && params.aim != msg::Aim::kEmbed) return invalid("an unknown aim");
  const auto& text = *spec.text;
  if (auto status = length_fits(params, text, room); !status.ok()) return status;
  if (auto status = ids_fit(params, text); !status.ok()) return status;
  return images_fit(params, text);
}

}  // namespace weir::generation
