// SequenceList: sequences in their order (Sequence::precedes). Owns them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "generation/sequence.h"

namespace weir::generation {

class SequenceList {
 public:
  using Owned = std::unique_ptr<Sequence>;

  // Behind those of equal order.
  void insert(Owned sequence);
  // Frees those that were answered (Place::kGone).
  void erase_gone();
  void clear() { all_.clear(); }

  const std::vector<Owned>& all() const { return all_; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }

 protected:
  SequenceList() = default;
  ~SequenceList() = default;

  std::vector<Owned> all_;
};

}  // namespace weir::generation
