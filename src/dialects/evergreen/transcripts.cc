#include "dialects/evergreen/transcripts.h"

#include <utility>

namespace weir::evergreen {
namespace {

uint64_t charge_for(const Transcript& transcript) {
  constexpr uint64_t kTranscript = 256;
  return kTranscript + transcript.text.capacity() + transcript.ids.capacity() * sizeof(uint32_t);
}

}  // namespace

Transcripts::Transcripts(SessionMemory& memory) : memory_(memory) {
  memory_.on_shortage = [this] { clear(); };
}

Transcripts::~Transcripts() {
  memory_.on_shortage = {};
  clear();
}

void Transcripts::remember(Transcript transcript) {
  constexpr size_t kMost = 8, kLongestText = 1 << 20;
  if (transcript.text.size() > kLongestText) return;
  transcript.text.shrink_to_fit(), transcript.ids.shrink_to_fit();
  const uint64_t bytes = charge_for(transcript), most = memory_.limit() / 8;
  if (bytes > most) return;
  while (!list_.empty() && (list_.size() >= kMost || memory_.spare() > most - bytes)) forget_oldest();
  if (!memory_.take_spare(bytes).ok()) return;
  list_.push_front(std::make_shared<const Transcript>(std::move(transcript)));
}

void Transcripts::forget_oldest() {
  memory_.give_spare(charge_for(*list_.back()));
  list_.pop_back();
}

void Transcripts::clear() {
  while (!list_.empty()) forget_oldest();
}

}  // namespace weir::evergreen
