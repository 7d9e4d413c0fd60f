#include "text/completion.h"

#include <algorithm>

#include "base/encoding.h"
#include "text/answer_parser.h"

namespace weir::text {
namespace {

// Few tokens of any tokenizer are longer. A text that is larger than this times the limit cannot fit, and is refused
// without being encoded.
constexpr size_t kMaxBytesPerToken = 128;

bool hides_some(const Completion::Options& options) {
  return options.parsed.has_value() && options.skip == msg::SkipSpecial::kYes;
}

}  // namespace

base::Status check_prompt(std::string_view text, uint32_t max_tokens) {
  if (text.size() / kMaxBytesPerToken <= max_tokens) return {};
  return base::failure(base::Code::kOutOfRange, std::to_string(text.size()) +
                                                    " bytes do not fit the model's context of " +
                                                    std::to_string(max_tokens) + " tokens");
}

void cut_prompt(std::string& text, uint32_t max_tokens, Part goes, uint32_t first) {
  if (check_prompt(text, max_tokens).ok()) return;
  const size_t most = kMaxBytesPerToken * max_tokens;
  const size_t front = goes == Part::kEnd ? most : goes == Part::kBeginning ? 0 : kMaxBytesPerToken * first;
  const size_t begin = base::cut_text(text, std::min(front, most)).size();
  size_t end = goes == Part::kEnd ? text.size() : text.size() - (most - begin);
  while (end < text.size() && (uint8_t(text[end]) & 0xC0) == 0x80) ++end;  // not through a character
  text.erase(begin, end - begin);
}

base::Result<std::vector<uint32_t>> encode_prompt(const msg::TextCodec& codec, std::string_view text,
                                                  msg::AddSpecial add, uint32_t max_tokens,
                                                  const msg::TextBudget& budget) {
  if (auto s = check_prompt(text, max_tokens); !s.ok()) return s;
  if (text.size() > budget.bytes) return base::failure(base::Code::kAborted, "the text is longer");
  auto ids = codec.encode(text, add, budget.cancelled);
  if (budget.stopped()) return base::failure(base::Code::kCancelled, "cancelled");
  return ids;
}

Completion::Completion(const msg::TextCodec& codec, Options options)
    : codec_(codec),
      hides_all_but_(hides_some(options) ? options.parsed : std::nullopt),
      decoder_(codec.decoder(hides_some(options) ? msg::SkipSpecial::kNo : options.skip)),
      stops_(options.stop.empty() ? StopStrings() : StopStrings(std::move(options.stop), options.keep)),
      end_ids_(std::move(options.end_ids)),
      keep_(options.keep),
      min_tokens_(options.min_tokens) {}

// The decoder needs the last tokens of the prompt only: a character has at most four bytes, and a token at least one.
void Completion::after(std::span<const uint32_t> prompt) {
  constexpr size_t kEnough = 8;
  for (uint32_t id : prompt.last(std::min(prompt.size(), kEnough))) decoder_->step(id, piece_);
  piece_.clear();
}

bool Completion::ends(uint32_t id) const { return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end(); }

bool Completion::hidden(uint32_t id) const {
  return hides_all_but_ && codec_.special(id) && !reads_marker(*hides_all_but_, codec_.piece(id));
}

Completion::State Completion::push(uint32_t id, std::string& out) {
  ++tokens_;
  bool last = tokens_ > min_tokens_ && ends(id);
  if (last && keep_ == StopStrings::Keep::kNo) return State::kEnded;
  piece_.clear();
  if (!hidden(id)) decoder_->step(id, piece_);
  State state = pass(out);
  return state == State::kGoing && last ? State::kEnded : state;
}

Completion::State Completion::pass(std::string& out) {
  if (piece_.empty()) return State::kGoing;
  if (tokens_ <= min_tokens_) {
    out += piece_;
    return State::kGoing;
  }
  stopped_ = stops_.push(piece_, out);
  return stopped_ ? State::kStopped : State::kGoing;
}

void Completion::finish(std::string& out) {
  if (stopped_) return;
  piece_.clear();
  decoder_->finish(piece_);
  if (pass(out) == State::kStopped) return;
  stops_.finish(out);
}

}  // namespace weir::text
