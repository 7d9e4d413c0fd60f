#include "base/clients.h"

namespace weir::base {
namespace {

constexpr size_t kPruneFrom = 64;  // clients; fewer are not worth a look

}  // namespace

ClientRef Clients::enter(std::string_view name, Client::Limited limited) {
  std::lock_guard lock(mutex_);
  auto at = clients_.find(name);
  if (at == clients_.end()) {
    if (clients_.size() >= prune_at_) prune();
    at = clients_.emplace(name, std::make_unique<Client>(std::string(name), limited)).first;
  }
  at->second->refs_.fetch_add(1, std::memory_order_relaxed);
  return ClientRef(*at->second);
}

// A count that is zero stays so while the lock is held: a ClientRef is made here or copied from another, and slabs are
// charged by those who have one. Looked for only when the table has doubled, so that the cost of each is constant.
void Clients::prune() {
  std::erase_if(clients_, [](const auto& each) {
    const Client& c = *each.second;
    return c.refs_.load(std::memory_order_acquire) == 0 && c.held_[size_t(Held::kSlabBytes)].load() == 0;
  });
  prune_at_ = std::max(kPruneFrom, 2 * clients_.size());
}

size_t Clients::size() const {
  std::lock_guard lock(mutex_);
  return clients_.size();
}

}  // namespace weir::base
