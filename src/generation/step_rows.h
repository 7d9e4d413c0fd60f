// StepRows: lays sequences into a TokenStep, and remembers whose rows are whose.
#pragma once

#include <cstdint>
#include <vector>

#include "generation/engine.h"
#include "generation/sequence.h"

namespace weir::generation {

// Positions [from, from + count) of a sequence, in the row of the same index.
struct TokenRun {
  enum class Kind : uint8_t { kFeed, kRecompute } kind;  // kRecompute stores into the sequence's scratch blocks
  Sequence* sequence;
  uint32_t from, count;
  Draft draft{};  // guesses that are fed after these positions, in the same row
};

class StepRows {
 public:
  // `limit`: positions at which a sequence is full.
  StepRows(uint32_t block_size, uint32_t limit) : block_size_(block_size), limit_(limit) {}

  void clear();
  // The sequence has blocks for these positions. Borrowed until clear().
  void add(TokenRun run);
  // The same for one position whose token is not known yet: logits request `request` of the step before draws it. kNo:
  // nothing is drawn after it.
  enum class Draws : uint8_t { kNo, kYes };
  void add_ahead(TokenRun run, uint32_t request, Draws draws);
  // This is the step that runs now: its sequences know what it stores of them.
  void begin();

  TokenStep step;
  std::vector<TokenRun> runs;

 private:
  void add_table(const TokenRun& run, TokenStep::Row& row);
  void add_patches(const TokenRun& run, uint32_t first);
  void add_logits_requests(const TokenRun& run, uint32_t first);
  void request_draw(const TokenRun& run, uint32_t token, uint32_t guesses);
  void request_logits(const TokenRun& run, uint32_t position, TokenStep::LogitsRequest request);
  void add_readouts(const TokenRun& run, uint32_t first);

  const uint32_t block_size_, limit_;
};

}  // namespace weir::generation
