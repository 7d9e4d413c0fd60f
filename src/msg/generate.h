// Generation: what a Call asks of a model that makes tokens, and what comes back, token by token.
//
// A sequence is a list of token ids; positions are absolute and count from 0. What is new goes into `append`; a session
// lends what it already has as `history`, which the engine reads only where it no longer has keys and values for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "msg/token_constraint.h"

namespace weir::msg {

// Positions [start, end).
struct PositionRange {
  uint32_t start = 0, end = 0;
  bool has(uint32_t position) const { return position >= start && position < end; }
};

// The same positions in ascending ranges that neither overlap nor touch, so that a walk along positions needs no
// search. A range that holds no position is left out.
void merge(std::vector<PositionRange>& ranges);

// How the next token is drawn from the logits. Order: logit_bias, penalties (over the whole sequence for repetition, as
// in the CTRL paper; over the generated part for presence and frequency, as OpenAI does), temperature, top_k, top_p,
// min_p. The values are in range: dialects check them and name the field.
struct Sampling {
  float temperature = 1;  // 0 = greedy
  float top_p = 1;        // (0, 1]
  float min_p = 0;        // [0, 1]
  uint32_t top_k = 0;     // 0 = all
  float presence_penalty = 0, frequency_penalty = 0;
  float repetition_penalty = 1;
  std::optional<uint64_t> seed;  // the same seed draws the same tokens, whatever shares the batch
  std::vector<std::pair<uint32_t, float>> logit_bias;
};

// An image in a sequence: positions [start, end) hold vision_start, one pad per feature, vision_end.
struct Image {
  base::Bytes data;  // as the client sent it: PNG, JPEG, WebP
  std::string mime;
  uint32_t start = 0, end = 0;
  bool as_json = false;  // `data` is the JSON of OpenAI's image_url instead (TextSpec::remote_chat)
};

enum class Aim : uint8_t {
  kGenerate,  // Token events, then Done. With max_tokens = 0: only those for prefill positions that ranges cover
  kEmbed,     // one Outputs with one FP32 tensor [hidden_size]: the mean of the last hidden states over the sequence
  kRelease,   // Call::session is over: what the engine keeps for it goes. One Done.
};

struct Generation {
  Aim aim = Aim::kGenerate;
  // Positions [0, history.size()). Lent: neither changes nor dies before the last Event. Empty without a session.
  std::span<const uint32_t> history;
  std::vector<uint32_t> append;  // the positions after it
  std::span<const Image> history_images;
  std::vector<Image> images;  // inside `append`

  uint32_t max_tokens = 16;
  uint32_t min_tokens = 0;  // before these, no end-of-sequence and no stop id is drawn
  Sampling sampling;
  std::vector<uint32_t> stop_ids;  // beside the model's end-of-sequence ids; the stop token itself is sent and counted
  bool ignore_eos = false;
  // Positions whose Token events carry logprobs (of the token at the position, and of the top_logprobs best) or
  // readouts. They may lie anywhere in the sequence, also in `history`, and beyond its end (tokens to come).
  std::vector<PositionRange> logprobs;
  uint32_t top_logprobs = 0;
  std::vector<PositionRange> readouts;
  std::unique_ptr<TokenConstraint> constraint;  // null: any text. Used on the lane from put() to the last Event
  uint64_t cache_salt = 0;                      // sequences of different salts never share cached prefixes

  // Written by the engine before its first Event: positions whose keys and values were there already.
  uint32_t cached_tokens = 0;

  size_t length() const { return history.size() + append.size(); }
};

struct TokenLogprob {
  uint32_t id = 0;
  float logprob = 0;
};

// Details of a position, only where they were asked for.
struct TokenDetails {
  bool has_logprob = false;  // false at position 0, which nothing precedes
  float logprob = 0;         // of the token at this position, from the distribution before sampling's changes
  std::vector<TokenLogprob> top;
  std::vector<float> readout;  // [layers][concepts], as TextSpec names them
  // Texts of tokens that the vocabulary does not have (TextSpec::remote_chat): of this position's, then of those of
  // `top`, whose ids mean nothing. Else empty.
  std::vector<std::string> texts;
};

enum class Finish : uint8_t {
  kNone,
  kEos,       // the model ended it
  kStopId,    // one of Generation::stop_ids
  kLength,    // max_tokens, or the context is full
  kFiltered,  // a filter of contents, where the origin of a forwarded model has one
};

}  // namespace weir::msg
