// Drafts: guesses at a sequence's next tokens, which one step checks together.
//
// Where the newest tokens stood in the sequence before, what followed them there is guessed to follow again ("prompt
// lookup decoding", A. Saxena, 2023; https://github.com/apoorvumang/prompt-lookup-decoding). The step feeds the guesses
// behind the newest token and draws after each of them; a draw counts as long as all before it were as guessed. An
// engine's results do not depend on what else is in the step, so the tokens are those that would have been drawn one
// by one, to the last bit: a draft changes how many steps it takes. Reading the weights takes most of the time of a
// step with few rows; more rows are almost free then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace weir::generation {

// Guesses at the tokens after those of a sequence: the ones from `from` on, as often as it takes.
struct Draft {
  uint32_t from = 0, count = 0;

  // The guess number `index`, of the sequence that it was made of.
  uint32_t guess(std::span<const uint32_t> tokens, uint32_t index) const {
    return tokens[from + index % (uint32_t(tokens.size()) - from)];
  }
};

// At most `most` guesses; none where the last three tokens did not stand before within the last 16,384.
Draft find_draft(std::span<const uint32_t> tokens, uint32_t most);

// How many guesses are worth a try: more the better the last ones were; where they were all wrong, none for some steps.
class DraftLength {
 public:
  // For the next step, `most` at most.
  uint32_t next(uint32_t most);
  // So many of `count` guesses, at least one, were right.
  void record(uint32_t count, uint32_t right);

 private:
  static constexpr uint32_t kFirst = 2, kLongestPause = 32;
  uint32_t length_ = kFirst;
  uint32_t pause_ = 0, next_pause_ = 1;  // in steps
};

}  // namespace weir::generation
