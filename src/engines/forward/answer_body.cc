#include "engines/forward/answer_body.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "wire/body_growth.h"

namespace weir::forward {
namespace {

constexpr size_t kMovedTimes = 4;  // bytes that move with each that comes: twice as many as would be enough

}  // namespace

void AnswerBody::expect(std::string_view content_length) {
  uint64_t length = 0;
  const char* const end = content_length.data() + content_length.size();
  const auto [at, error] = std::from_chars(content_length.data(), end, length);
  expected_ = at == end && error == std::errc() ? std::min(length, most_) : 0;
}

AnswerBody::Fate AnswerBody::append(std::span<const std::byte> piece) {
  const uint64_t size = block_.size() + piece.size();
  if (size > most_) return Fate::kLarge;
  if (piece.size() > block_.room() && !make_room(size)) return Fate::kStarved;
  block_.append(piece.data(), piece.size());
  move_on(piece.size());
  return Fate::kTaken;
}

// All of it moves at once: it is small, or there was no memory for it when it was time to begin.
bool AnswerBody::make_room(uint64_t size) {
  if (block_.moving()) block_.move(block_.size());
  if (size <= block_.capacity()) return true;
  if (!widen(size)) return false;
  block_.move(block_.size());
  return true;
}

bool AnswerBody::widen(uint64_t size) {
  const uint64_t doubled = std::max<uint64_t>({2 * uint64_t(block_.capacity()), size, wire::kFirstSlab});
  const uint64_t wanted = std::min(expected_ >= size ? wire::grown(slabs_, size, expected_) : doubled, most_);
  base::Slab* slab = slabs_.take_part(size_t(std::max(wanted, size)));
  if (slab) block_.widen(slab);
  return slab != nullptr;
}

// Begins once half of the slab is full. Where there is no memory yet, the next piece tries again.
void AnswerBody::move_on(size_t piece) {
  const uint64_t capacity = block_.capacity(), enough = expected_ >= block_.size() ? expected_ : most_;
  const bool half = block_.size() >= capacity / 2 && block_.size() < enough;
  if (!block_.moving() && capacity < enough && half) (void)widen(capacity + 1);
  if (block_.moving()) block_.move(kMovedTimes * piece);
}

base::Bytes AnswerBody::take() {
  base::Bytes out = block_.freeze();
  block_.clear();
  return out;
}

}  // namespace weir::forward
