// Transcripts: text that a session has had in front of a model, and the tokens that it was. A prompt that begins with
// the same text begins with the same tokens, also where the tokenizer would cut an answer otherwise than the model
// wrote it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dialects/evergreen/graph/session_memory.h"
#include "msg/spec.h"

namespace weir::evergreen {

struct Transcript {
  std::shared_ptr<const msg::TextSpec> model;
  std::string text;
  std::vector<uint32_t> ids;
};
using TranscriptList = std::deque<std::shared_ptr<const Transcript>>;  // workers read them while the session goes on

// The transcripts of one session, as spare bytes of its memory: all of them go where something else needs the room.
class Transcripts {
 public:
  explicit Transcripts(SessionMemory& memory);
  ~Transcripts();
  Transcripts(const Transcripts&) = delete;

  // The latest is the first. There are eight at most, which take an eighth of the session's memory at most: the oldest
  // go. A long one is not kept, and neither is one that finds no room.
  void remember(Transcript transcript);
  const TranscriptList& list() const { return list_; }

 private:
  void forget_oldest();
  void clear();

  SessionMemory& memory_;
  TranscriptList list_;
};

}  // namespace weir::evergreen
