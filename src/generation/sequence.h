// Sequence: a Call on its way through the token scheduler: its tokens, where their keys and values lie, and what has
// been emitted of them. Plain state; KvMemory gives and takes its blocks, the scheduler decides when it runs.
//
// Positions [0, stored) have keys and values. Feeding a position means running it through the model: that stores it,
// and its logits say something of the position after it. What was asked for at positions that are stored already
// (cached, or kept by a session) is found by feeding them again beside the sequence: `recomputes`.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "generation/drafts.h"
#include "generation/engine.h"
#include "generation/kv_blocks.h"
#include "generation/position_set.h"
#include "msg/call.h"

namespace weir::generation {

struct Sequence {
  // How far an image has been prepared.
  struct ImageState {
    const msg::Image* image;
    std::optional<Digest> digest;  // of its data and type
    ImageFeatures features;        // while positions that need them are to be fed
    bool encoded = false;          // features are there
    bool needed = false;           // positions are to be fed that need them
    uint64_t job = 0;              // the number of its encoding; 0: not asked for yet
  };

  Sequence(msg::Call* call, uint32_t level, uint64_t arrival);

  msg::Call* call;
  const msg::Generation& params;
  const uint32_t level;    // of priority; 0 is the most urgent
  const uint64_t arrival;  // the order of put()
  uint64_t tag = 0;        // its place within a level (base/fair_share.h); of equal ones the first to arrive is first
  size_t places = 0;       // others that waited when it came
  uint64_t seed = 0;
  base::Time queue_deadline = base::kNever;  // when its queue_timeout is over
  bool keeps_session = true;                 // its keys and values stay with its session

  std::vector<uint32_t> tokens;  // all of them, once it was admitted
  uint32_t prompt;               // tokens before the first generated one
  uint32_t generated = 0;
  std::vector<KvBlocks::Id> blocks;
  uint32_t stored = 0;
  uint32_t sealed = 0;  // blocks from the front that the prefix cache can find
  std::vector<ImageState> image_states;
  uint32_t images_missing = 0;  // of them, needed and not encoded: it waits for these
  bool sealable = true;         // until a block of it could not be sealed

  PositionSet scores, readouts;       // positions whose logprobs and readouts are asked for
  PositionSet recomputes;             // positions to be fed again
  std::vector<KvBlocks::Id> scratch;  // where recomputed positions are stored
  uint32_t emitted = 0;               // what was asked for at positions below has been emitted
  // The score of the position after the last one that was fed: known before that position is fed itself.
  struct NextScore {
    uint32_t position = ~uint32_t(0);
    float logprob = 0;
    std::vector<msg::TokenLogprob> best;
  } next_score;
  std::unique_ptr<msg::TokenDetails> held_details;  // of the newest token, whose readout is still to come
  msg::Finish ending = msg::Finish::kNone;          // ends with this once `held_details` is emitted
  std::vector<double> pool;                         // sums for an embedding

  // The state of the sequence; kPreempted is on its way back to the queue, kGone was answered.
  enum class Place : uint8_t { kWaiting, kActive, kPreempted, kGone } place = Place::kWaiting;
  bool planned = false;  // has a row in the step that is being laid out, or runs
  uint32_t feeding = 0;  // positions from `stored` on that the step that runs stores
  DraftLength draft_length;
  uint32_t blocks_lacked = 0;  // when it was last not admitted

  // When things happened.
  base::Time first_token = base::kNever, last_token = base::kNever;
  uint32_t cached = 0;      // positions of its prompt that it need not compute, until it was first preempted
  uint32_t recomputed = 0;  // those of them that were fed again
  bool started = false;     // was admitted before
  bool preempted = false;   // has been, at least once

  // Sequences with different salts never share blocks.
  uint64_t salt() const { return params.cache_salt ^ std::rotl(call->cache_scope, 32); }
  bool is(msg::Aim aim) const { return params.aim == aim; }
  // The most that it may cost, in tokens.
  uint64_t work() const { return uint64_t(prompt) + std::min(params.max_tokens, 256u); }
  uint32_t length() const { return tokens.empty() ? prompt : uint32_t(tokens.size()); }
  // Positions that neither are stored nor will be by the step that runs, and the first of them.
  uint32_t unfed() const { return length() - next(); }
  uint32_t next() const { return stored + feeding; }
  bool parked() const { return call->credit.load(std::memory_order_acquire) <= 0; }
  // A Call of a session that leaves its keys and values there.
  bool resides() const { return bool(call->session) && is(msg::Aim::kGenerate); }
  // Something will be drawn after the last token. `limit`: the most positions of any sequence here.
  bool draws(uint32_t limit) const {
    return is(msg::Aim::kGenerate) && generated < params.max_tokens && length() < limit && ending == msg::Finish::kNone;
  }
  // Its next draws depend on nothing but the tokens before them: no form, no penalties, no readouts.
  bool can_be_guessed() const {
    const auto& how = params.sampling;
    return is(msg::Aim::kGenerate) && !params.constraint && readouts.empty() && how.presence_penalty == 0 &&
           how.frequency_penalty == 0 && how.repetition_penalty == 1;
  }
  // Something is asked for at this position of the prompt, and has not been emitted.
  bool has_pending_details(uint32_t position) const {
    return position >= emitted && position < prompt && (scores.has(position) || readouts.has(position));
  }
  // Before the other one in every order here.
  bool precedes(const Sequence& other) const {
    return std::tie(level, tag, arrival) < std::tie(other.level, other.tag, other.arrival);
  }

  // Fills `tokens` after what a session has left in it.
  void write_tokens();
  // Finds the positions that must be fed again when [0, stored) is there already.
  void find_recomputes();
  // Counts the images that it has to have encoded before it can run. Only those at positions that are to be fed: what
  // is stored was right when it was computed.
  void request_images();
  // Features of one of its images. INVALID_ARGUMENT: they do not fit its pads; or the failure to encode it.
  base::Status take_features(ImageState& state, base::Result<ImageFeatures> features);
  // It has lost its blocks: everything that would be computed again is as at its beginning.
  void forget_computed();
  // The digest of the images whose pads reach into positions [from, to), and of where they begin; zero without.
  Digest images_in(uint32_t from, uint32_t to, uint64_t key);
  // Images whose pads overlap [from, to): a range of `image_states`.
  std::span<ImageState> image_states_in(uint32_t from, uint32_t to);
};

}  // namespace weir::generation
