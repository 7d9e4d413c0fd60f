#include "bus/pokes.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace weir::bus {

bool Pokes::add(msg::Inbox& inbox) {
  auto known = std::find_if(poked_.begin(), poked_.end(), [&](const Poked& p) { return p.inbox == &inbox; });
  if (known != poked_.end()) return !std::exchange(known->again, true);
  (void)base::attempt("pokes", [&] { poked_.push_back({&inbox}); });  // without memory each goes through
  inbox.poke();
  return false;
}

bool Pokes::flush() {
  if (poked_.empty()) return false;
  flushed_.clear();  // here, since a poke() may throw
  flushed_.swap(poked_);
  bool any = false;
  for (const auto& p : flushed_) {
    if (!p.again) continue;
    p.inbox->poke();
    any = true;
  }
  return any;
}

void Pokes::forget(const msg::Inbox* inbox) {
  std::erase_if(poked_, [&](const Poked& p) { return p.inbox == inbox; });
}

}  // namespace weir::bus
