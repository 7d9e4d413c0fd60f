#include "dialects/evergreen/graph/flatten_budget.h"

#include <algorithm>
#include <utility>

namespace weir::evergreen {
namespace {

uint64_t saturating_sum(uint64_t a, uint64_t b) {
  constexpr uint64_t kMost = uint64_t(1) << 63;
  return a >= kMost - std::min(b, kMost) ? kMost : a + b;
}

}  // namespace

bool FlattenBudget::take(uint64_t visits) {
  const bool enough = visits <= visits_left_;
  visits_left_ -= std::min(visits, visits_left_);
  return enough;
}

void FlattenBudget::refill() { visits_left_ += std::min(limits_.visits_per_message, limits_.visits - visits_left_); }

std::optional<FlatSize> FlattenBudget::measure(Node& root, uint64_t most) {
  ++epoch_;
  measured_ = 0;
  // Post-order without recursion: a node is left once all its children carry this epoch's sum.
  std::vector<std::pair<Node*, bool>> todo{{&root, false}};
  while (!todo.empty()) {
    auto [n, below_done] = todo.back();
    if (n->mark_ == epoch_) {
      todo.pop_back();
      continue;
    }
    if (!below_done) {
      todo.back().second = true;
      measured_ += 1 + n->parts_.size();
      for (const auto& part : n->parts_) {
        if ((measured_ += part.children.size()) > most) return std::nullopt;
        for (const Node::Edge& edge : part.children)
          if (edge.child->mark_ != epoch_) todo.emplace_back(edge.child, false);
      }
      continue;
    }
    todo.pop_back();
    FlatSize size{1, 0};
    auto add = [&size](const FlatSize& more) {
      size = {saturating_sum(size.visits, more.visits), saturating_sum(size.bytes, more.bytes)};
    };
    for (const auto& part : n->parts_) {
      add({part.chunk, part.data.size()});
      for (const Node::Edge& edge : part.children) add(edge.child->size_);
    }
    n->size_ = size;
    n->mark_ = epoch_;
  }
  return root.size_;
}

}  // namespace weir::evergreen
