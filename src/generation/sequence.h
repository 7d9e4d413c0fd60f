// Sequence: a Call on its way through the token scheduler: its tokens, where their keys and values lie, and what has
// been said of them. Plain state; KvMemory gives and takes its blocks, TokenScheduler decides when it runs.
//
// Positions [0, stored) have keys and values. Feeding a position means running it through the model: that stores it,
// and its logits say something of the position after it. What was asked for at positions that are stored already
// (cached, or kept by a session) is found by feeding them again beside the sequence: `reviews`.
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
#include "generation/engine.h"
#include "generation/kv_blocks.h"
#include "generation/position_set.h"
#include "msg/call.h"

namespace weir::generation {

struct Sequence {
  // Of an image, what was worked out so far.
  struct ImageState {
    const msg::Image* image;
    std::optional<Digest> digest;  // of its data and type
    ImageFeatures features;        // while positions that need them are to be fed
    bool seen = false;             // features are there
    bool wanted = false;           // positions are to be fed that need them
    uint64_t job = 0;              // who is looking at it; 0: nobody
  };

  Sequence(msg::Call* call, uint32_t level, uint64_t arrival);

  msg::Call* call;
  const msg::Generation& wish;
  const uint32_t level;    // of priority; 0 is the most urgent
  const uint64_t arrival;  // the order of put()
  uint64_t tag = 0;        // its place within a level (fair_share.h); of equal ones the first to arrive is first
  uint64_t seed = 0;
  base::Time leaves = base::kNever;  // when its queue_timeout is over
  bool keeps = true;                 // its session wants it back

  std::vector<uint32_t> tokens;  // all of them, once it was admitted
  uint32_t prompt;               // tokens before the first generated one
  uint32_t generated = 0;
  std::vector<KvBlocks::Id> blocks;
  uint32_t stored = 0;
  uint32_t sealed = 0;  // blocks from the front that the prefix cache can find
  std::vector<ImageState> image_states;
  uint32_t unseen = 0;  // of them, wanted and not seen: it waits for these
  bool sealable = true;

  PositionSet scores, readouts;       // positions whose logprobs and readouts are asked for
  PositionSet reviews;                // positions to be fed again
  std::vector<KvBlocks::Id> scratch;  // where reviews store
  uint32_t told = 0;                  // what was asked for at positions below has been said
  // What is known of the next position to be told before it is fed.
  struct Ahead {
    uint32_t position = ~uint32_t(0);
    float logprob = 0;
    std::vector<msg::TokenLogprob> best;
  } ahead;
  std::unique_ptr<msg::TokenDetails> held;  // of the newest token, whose readout is still to come
  msg::Finish ending = msg::Finish::kNone;  // ends with this once `held` is told
  std::vector<double> pool;                 // sums for an embedding

  // Where it is; kEvicted is on its way back to the queue, kGone was answered.
  enum class Place : uint8_t { kWaiting, kActive, kEvicted, kGone } place = Place::kWaiting;
  bool planned = false;  // has a row in the step that is being laid out
  uint32_t wanted = 0;   // blocks that it lacked when it was last refused

  // When things happened.
  base::Time first_token = base::kNever, last_token = base::kNever;
  uint32_t cached = 0;    // positions that were there when it was first admitted
  uint32_t reviewed = 0;  // those of them that were fed again
  bool started = false;   // was admitted before

  // Sequences of different ones never share blocks.
  uint64_t salt() const { return wish.cache_salt ^ std::rotl(call->cache_scope, 32); }
  bool is(msg::Aim aim) const { return wish.aim == aim; }
  // What it may cost, in tokens.
  uint64_t work() const { return uint64_t(prompt) + std::min(wish.max_tokens, 256u); }
  uint32_t length() const { return tokens.empty() ? prompt : uint32_t(tokens.size()); }
  uint32_t unfed() const { return length() - stored; }
  bool parked() const { return call->credit.load(std::memory_order_acquire) <= 0; }
  // A Call of a session that leaves its keys and values there.
  bool resides() const { return bool(call->session) && is(msg::Aim::kGenerate); }
  // Something will be drawn after the last token. `limit`: the most positions of any sequence here.
  bool draws(uint32_t limit) const {
    return is(msg::Aim::kGenerate) && generated < wish.max_tokens && length() < limit && ending == msg::Finish::kNone;
  }
  // Something is asked for at this position of the prompt, and has not been said.
  bool has_pending_details(uint32_t position) const {
    return position >= told && position < prompt && (scores.has(position) || readouts.has(position));
  }
  // Before the other one in every order here.
  bool precedes(const Sequence& other) const {
    return std::tie(level, tag, arrival) < std::tie(other.level, other.tag, other.arrival);
  }

  // Fills `tokens` after what a session has left in it.
  void write_tokens();
  // What must be fed again when [0, stored) is there already.
  void find_reviews();
  // The digest of the images whose pads reach into positions [from, to), and of where they begin; zero without.
  Digest images_in(uint32_t from, uint32_t to, uint64_t key);
  // Images whose pads overlap [from, to): a range of `image_states`.
  std::span<ImageState> image_states_in(uint32_t from, uint32_t to);
};

}  // namespace weir::generation
