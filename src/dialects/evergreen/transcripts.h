// Transcripts: text that a session has had in front of a model, and the tokens that it was. A prompt that begins with
// the same text begins with the same tokens, also where the tokenizer would cut an answer otherwise than the model
// wrote it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "msg/spec.h"

namespace weir::evergreen {

struct Transcript {
  std::shared_ptr<const msg::TextSpec> model;
  std::string text;
  std::vector<uint32_t> ids;
};
using Transcripts = std::deque<std::shared_ptr<const Transcript>>;  // workers read them while the session goes on

// The latest is the first; the oldest go, and long ones are not kept.
inline void remember(Transcripts& transcripts, Transcript transcript) {
  constexpr size_t kMost = 8, kMostBytes = 1 << 20;
  if (transcript.text.size() > kMostBytes) return;
  transcripts.push_front(std::make_shared<const Transcript>(std::move(transcript)));
  if (transcripts.size() > kMost) transcripts.pop_back();
}

}  // namespace weir::evergreen
