#include "generation/load_balancer.h"

#include <bit>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/fnv.h"
#include "base/sip_hash.h"
#include "bus/load_notes.h"
#include "bus/memory_use.h"

namespace weir::generation {
namespace {

constexpr size_t kBeginning = 64;  // the first tokens of a Call, which choose a lane among equals

// The hash of a Call's first tokens. It need not resist collisions: it only chooses a lane, and a client whose texts
// collide slows down its own requests.
uint64_t beginning(const msg::Call& call) {
  const msg::Generation& g = *call.generation;
  base::Fnv hash;
  hash.add(g.cache_salt ^ std::rotl(call.cache_scope, 32));
  hash.add(call.adapter);
  size_t left = kBeginning;
  for (auto ids : {g.history, std::span<const uint32_t>(g.append)})
    for (size_t i = 0; i < ids.size() && left > 0; ++i, --left) hash.add(ids[i]);
  return hash.value() ^ hash.value() >> 32;
}

class TokenLoadBalancer final : public msg::Inbox, public bus::TellsMemory, public bus::HasLoadNotes {
 public:
  explicit TokenLoadBalancer(std::vector<std::unique_ptr<TokenInbox>> lanes) : lanes_(std::move(lanes)) {}

  void put(msg::Call* call) override { lane_of(*call).put(call); }
  void poke() override {
    for (auto& lane : lanes_) lane->poke();
  }

 private:
  TokenInbox& lane_of(const msg::Call& call) {
    if (!call.generation) return *lanes_.front();  // to be refused
    if (!call.session) return *lanes_[freest(call)];
    std::lock_guard lock(mutex_);
    if (call.generation->aim == msg::Aim::kRelease) {
      auto known = homes_.extract(call.session);
      return *lanes_[known.empty() ? 0 : known.mapped()];
    }
    auto known = homes_.find(call.session);
    if (known == homes_.end()) known = homes_.emplace(call.session, freest(call)).first;
    return *lanes_[known->second];
  }

  size_t freest(const msg::Call& call) {
    size_t best = beginning(call) % lanes_.size(), least = lanes_[best]->load();
    for (size_t i = 0; i < lanes_.size() && least > 0; ++i)
      if (size_t load = lanes_[i]->load(); load < least) best = i, least = load;
    return best;
  }

  const std::vector<std::unique_ptr<TokenInbox>> lanes_;
  std::mutex mutex_;
  std::unordered_map<base::SessionId, size_t, base::KeyedHash> homes_{
      0, base::KeyedHash(base::process_key())};  // of sessions that are not released
};

}  // namespace

std::unique_ptr<msg::Inbox> make_token_load_balancer(std::vector<std::unique_ptr<TokenInbox>> lanes) {
  base::check(!lanes.empty(), "a model has a lane");
  if (lanes.size() == 1) return std::move(lanes.front());
  return std::make_unique<TokenLoadBalancer>(std::move(lanes));
}

}  // namespace weir::generation
