#include "engines/forward/answer_body.h"

#include <algorithm>
#include <utility>

namespace weir::forward {
namespace {

constexpr uint64_t kFirstSlab = 4096;

}  // namespace

AnswerBody::Fate AnswerBody::append(std::span<const std::byte> piece) {
  const uint64_t size = block_.size() + piece.size();
  if (size > most_) return Fate::kLarge;
  if (piece.size() > block_.room()) {
    const uint64_t wanted = std::min<uint64_t>(std::max<uint64_t>({2 * block_.capacity(), size, kFirstSlab}), most_);
    base::Block wider(slabs_.take_part(std::max(wanted, size)));
    if (!wider) return Fate::kStarved;
    if (block_.size() > 0) wider.append(block_.data(), block_.size());
    block_ = std::move(wider);
  }
  block_.append(piece.data(), piece.size());
  return Fate::kTaken;
}

}  // namespace weir::forward
