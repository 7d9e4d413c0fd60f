// ThoughtMarks: the thoughts and the text of a chat's answer as one text, the way models write them, so that whoever
// reads answers takes them apart again: <think> … </think>, then the text. Thoughts behind the text's beginning have no
// place there and are left out. Thoughts about the mark that ends them do not end them: it becomes "</think >" there.
// One answer; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engines/forward/openai/message.h"

namespace weir::forward {

class ThoughtMarks {
 public:
  // Without this call all thoughts are left out.
  void show() { shows_ = true; }

  // Puts the chunk's thoughts, and a refusal, in front of its text, as bytes that are `aside`. Those that are left out
  // are `unseen`.
  void join(CompletionChunk& chunk) {
    std::string front;
    if (shows_ && place_ != Place::kText && !chunk.thoughts.empty()) {
      if (std::exchange(place_, Place::kThoughts) == Place::kStart) front = kBegin;
      add(chunk.thoughts, front);
    } else if (!chunk.thoughts.empty()) {
      chunk.unseen += chunk.thoughts.size();
      if (chunk.text.empty()) chunk.logprobs.clear();  // they are of what is left out
    }
    chunk.thoughts.clear();
    if (!chunk.text.empty() || !chunk.refusal.empty()) front += end();
    front += chunk.refusal;
    chunk.refusal.clear();
    chunk.aside = front.size();
    chunk.text.insert(0, front);
  }
  // Text follows: the mark between them, where there are thoughts.
  std::string_view end() { return std::exchange(place_, Place::kText) == Place::kThoughts ? kEnd : std::string_view(); }

 private:
  static constexpr std::string_view kBegin = "<think>\n", kEnd = "\n</think>\n\n", kMark = "</think>";

  // The mark may be cut by chunks anywhere. Its first character is in it once.
  void add(std::string_view thoughts, std::string& out) {
    for (char c : thoughts) {
      matched_ = c == kMark[matched_] ? matched_ + 1 : c == kMark[0] ? 1 : 0;
      if (matched_ == kMark.size()) out += ' ', matched_ = 0;
      out += c;
    }
  }

  bool shows_ = false;
  size_t matched_ = 0;  // characters of kMark at the end of the thoughts so far
  enum class Place : uint8_t { kStart, kThoughts, kText } place_ = Place::kStart;
};

}  // namespace weir::forward
