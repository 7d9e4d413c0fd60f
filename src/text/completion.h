// The two ends of making text: a prompt becomes tokens, and tokens become text until something ends it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "msg/text_codec.h"
#include "text/stop_strings.h"

namespace weir::text {

// OUT_OF_RANGE for text that no context of `max_tokens` can hold, by its bytes alone.
base::Status check_prompt(std::string_view text, uint32_t max_tokens);
// Takes a part out of such a text, so that it is as long as check_prompt() allows. The rest has more tokens than the
// context: for those who cut the tokens there afterwards. Of the beginning kMiddle leaves `first` tokens at least.
enum class Part : uint8_t { kBeginning, kMiddle, kEnd };
void cut_prompt(std::string& text, uint32_t max_tokens, Part goes, uint32_t first = 0);

// The ids of a prompt for a context of `max_tokens`. Bounded by bytes before a byte is looked at: check_prompt();
// ABORTED for text longer than the budget's bytes, CANCELLED. How many ids there are is for the caller to check. Any
// thread.
base::Result<std::vector<uint32_t>> encode_prompt(const msg::TextCodec& codec, std::string_view text,
                                                  msg::AddSpecial add, uint32_t max_tokens,
                                                  const msg::TextBudget& budget = {});

// The text of one sequence as its tokens come. One thread.
class Completion {
 public:
  struct Options {
    msg::SkipSpecial skip = msg::SkipSpecial::kYes;
    std::vector<std::string> stop;
    StopStrings::Keep keep = StopStrings::Keep::kNo;  // whether what ended it, string or token, is part of the text
    std::vector<uint32_t> end_ids;                    // tokens that end it
    uint32_t min_tokens = 0;                          // before these no stop string counts
    std::optional<msg::AnswerFormat> parsed = {};     // special tokens that its parser reads are text all the same
  };
  Completion(const msg::TextCodec& codec, Options options);  // the codec is borrowed

  // Sets the prompt that it continues: the first token may begin with a space only behind other text.
  void after(std::span<const uint32_t> prompt);

  enum class State : uint8_t {
    kGoing,
    kEnded,    // by this token: whoever makes the tokens knows as well
    kStopped,  // by a stop string: nobody else knows
  };
  // Appends the text that this token makes certain to `out`: whole UTF-8 sequences. Not after kStopped.
  State push(uint32_t id, std::string& out);
  // The tokens are over: appends what was held back. Harmless after kStopped.
  void finish(std::string& out);

  uint32_t tokens() const { return tokens_; }
  // The stop string that ended it; null unless a push() or finish() found one.
  const std::string* stop_string() const { return stopped_ ? &stops_.which() : nullptr; }

 private:
  bool ends(uint32_t id) const;
  bool hidden(uint32_t id) const;
  State pass(std::string& out);

  const msg::TextCodec& codec_;
  const std::optional<msg::AnswerFormat> hides_all_but_;  // of special tokens
  std::unique_ptr<msg::TokenDecoder> decoder_;
  StopStrings stops_;
  std::vector<uint32_t> end_ids_;
  StopStrings::Keep keep_;
  uint32_t min_tokens_;
  uint32_t tokens_ = 0;
  bool stopped_ = false;
  std::string piece_;  // keeps its capacity
};

}  // namespace weir::text
