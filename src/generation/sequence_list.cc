#include "generation/sequence_list.h"

#include <algorithm>

namespace weir::generation {

void SequenceList::insert(Owned sequence) {
  auto at = std::upper_bound(all_.begin(), all_.end(), sequence,
                             [](const auto& a, const auto& b) { return a->precedes(*b); });
  all_.insert(at, std::move(sequence));
}

void SequenceList::erase_gone() {
  std::erase_if(all_, [](const auto& s) { return s->place == Sequence::Place::kGone; });
}

}  // namespace weir::generation
