// TokenEngine: the forward pass of a model that makes tokens, one step of many sequences at a time.
//
// The scheduler (generation/scheduler.h) decides which sequences run, where keys and values live, and what is shared.
// The engine sees one flat list of tokens per step, with a position and a slot each, and block tables: the form in
// which a device takes them. Keys and values live in blocks of block_size() positions; block b holds slots [b *
// block_size, (b + 1) * block_size).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "msg/adapter_loader.h"
#include "msg/generate.h"
#include "msg/spec.h"

namespace weir::generation {

// An encoded image: `count` rows of hidden_size floats, one per pad position.
struct ImageFeatures {
  uint32_t count = 0;
  std::vector<float> rows;
};

// One forward pass. All arrays are the lane's and are reused from step to step.
struct TokenStep {
  // A run of tokens of one sequence, at consecutive positions: a decode step has one, a prefill chunk many. A sequence
  // may have two rows: what was asked for at positions that are stored already is computed again in blocks beside it,
  // which only that row's table names.
  struct Row {
    uint32_t first = 0, count = 0;   // in ids, positions and slots
    uint32_t length = 0;             // positions of the sequence that have keys and values after this step
    uint32_t table = 0, blocks = 0;  // its block table: entries [table, table + blocks) of `tables`
    uint32_t adapter = 0;            // Call::adapter
  };
  std::vector<Row> rows;
  std::vector<uint32_t> ids, positions, slots;  // flat, in row order
  // An id with this bit stands for a token that the step before has drawn; without the bit it is the index of its
  // logits request there.
  static constexpr uint32_t kSampled = 1u << 31;
  std::vector<uint32_t> tables;

  // Tokens whose embedding is an image's feature instead of their id's.
  struct Patch {
    uint32_t token = 0;  // flat index
    const float* feature = nullptr;
  };
  std::vector<Patch> patches;  // ascending by token

  // Logits that are asked for: those that follow flat token `token`.
  struct LogitsRequest {
    enum class Kind : uint8_t { kSample, kScore } kind = Kind::kSample;
    uint32_t token = 0;
    uint32_t row = 0;
    const msg::Generation* params = nullptr;  // for sampling; of kSample
    // All tokens up to `token`, for penalties; with it, but if it is kSampled. Behind guesses (generation/drafts.h),
    // which are fed where there are no penalties: all tokens but these.
    std::span<const uint32_t> sequence;
    uint32_t prompt = 0;    // of these, how many were not generated
    uint64_t draw = 0;      // which random number of the sequence: its generated tokens so far
    uint64_t seed = 0;      // the sequence's own; from Sampling::seed, or random
    bool hold_eos = false;  // min_tokens is not reached: no end-of-sequence or stop id
    bool wants_logprob = false;
    uint32_t top = 0;                     // that many best logprobs
    uint32_t id = 0;                      // kScore: whose logprob; kSample: what the engine drew, UINT32_MAX if nothing
    float logprob = 0;                    // filled by the engine
    std::vector<msg::TokenLogprob> best;  // filled by the engine, the best first
  };
  std::vector<LogitsRequest> logits_requests;  // ascending by token

  // Readouts: hidden state after each readout layer times each concept vector.
  struct Readout {
    uint32_t token = 0;
    std::vector<float> values;  // filled by the engine: [layers][concepts]
  };
  std::vector<Readout> readouts;  // ascending by token

  // Sums of the last hidden states (after the final norm) over a sequence's tokens, for embeddings. The engine adds
  // those of the row's tokens in their order to what the sequence's earlier rows have left (empty: zeros), so that the
  // sums do not depend on where a prompt was divided.
  struct Pool {
    uint32_t row = 0;
    std::vector<double> sum;  // [hidden_size]
  };
  std::vector<Pool> pools;

  void clear();
};

// Used by one lane thread at a time.
class TokenEngine {
 public:
  virtual ~TokenEngine() = default;

  virtual const msg::TextSpec& text() const = 0;
  // How many adapters it was made with; rows name them by 1 to this.
  virtual uint32_t adapters() const { return 0; }
  // The way to others, which rows name by the numbers that they were loaded with; null: there is none.
  virtual std::shared_ptr<msg::AdapterLoader> adapter_loader() const { return nullptr; }
  // Bytes of keys and values that `positions` positions take, over all layers.
  virtual size_t kv_bytes(size_t positions) const = 0;
  // Makes room for `blocks` blocks of `block_size` positions, before the first step. Where there is room for as many
  // already it does nothing. RESOURCE_EXHAUSTED.
  virtual base::Status reserve(uint32_t blocks, uint32_t block_size) = 0;
  // Runs one step to its end. A failure fails every sequence of the step. Results do not depend on what else is in the
  // step: greedy and seeded draws are the same alone and in any batch.
  virtual base::Status step(TokenStep& step) = 0;
  // An engine that runs elsewhere takes the next step while one still runs: submit() queues it and returns, collect()
  // waits for the oldest one and fills it in, and is called for each that was submitted without a failure, also after
  // that of another one. At most two are under way; only the second has ids with kSampled. What a step lends (spans,
  // params, features) is read in submit(). Where this is false only step() is called.
  virtual bool overlaps() const { return false; }
  virtual base::Status submit(TokenStep& next) { return step(next); }
  virtual base::Status collect(TokenStep& /*oldest*/) { return {}; }
  // Copies the first `positions` positions of a block to another one; in the order of the steps.
  virtual void copy_block(uint32_t from, uint32_t to, uint32_t positions) = 0;
  // Errors: INVALID_ARGUMENT (cannot be decoded, too large), UNIMPLEMENTED (the model takes no images).
  virtual base::Result<ImageFeatures> encode_image(const msg::Image& image) = 0;
  // Where true, encode_image_aside() may be called on one other thread while step() runs, never while encode_image()
  // does, and its result is the same to the last bit. Elsewhere images are encoded between two steps, which holds up
  // the sequences that run.
  virtual bool encodes_aside() const { return false; }
  virtual base::Result<ImageFeatures> encode_image_aside(const msg::Image& image) { return encode_image(image); }
};

}  // namespace weir::generation
