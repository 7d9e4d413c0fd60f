#include "wire/kept_input.h"

#include <utility>

namespace weir::wire {
namespace {

constexpr size_t kKeptInput = 16 << 10;  // capacity that a quiet connection may keep

}  // namespace

void KeptInput::used(std::string_view all, size_t n) {
  if (!joined_) {
    at_ = 0;
    if (n == all.size())
      kept_.clear();
    else
      kept_.assign(all.substr(n));
    return;
  }
  at_ += uint32_t(n);
  if (waiting() == 0) {
    drop();
  } else if (at_ > kept_.size() / 2) {
    // Seldom enough that moving the rest costs no more than having appended it.
    kept_.erase(0, at_);
    at_ = 0;
  }
}

void KeptInput::drop() {
  if (kept_.capacity() > kKeptInput)
    base::release(kept_);
  else
    kept_.clear();
  at_ = 0;
}

bool KeptInput::charge(base::SteppedCharge& heads) {
  const uint64_t held = kept_.capacity();
  if (held < charged_) heads.give(std::exchange(charged_, held) - held);
  if (held == charged_) return true;
  if (heads.take(held - charged_)) {
    charged_ = held;
    return true;
  }
  heads.give(std::exchange(charged_, 0));
  release();
  return false;
}

}  // namespace weir::wire
