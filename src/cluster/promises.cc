#include "cluster/promises.h"

#include <algorithm>

#include "cluster/rules.h"

namespace weir::cluster {

void Promises::sent(const Node& beat) {
  last_.clear();
  for (const auto& [id, incarnation] : beat.fencers) last_[id] = incarnation;
  last_may_ = beat.alone > base::Duration(0);
  may_ = may_ && last_may_;
  // One that was named with two incarnations cannot promise for both.
  for (const auto& [id, incarnation] : last_)
    if (auto [known, fresh] = askees_.try_emplace(id, incarnation); !fresh && known->second != incarnation)
      known->second = 0;
}

void Promises::taken(base::Time sent) {
  askees_ = last_, may_ = last_may_, taken_ = sent;
  ++round_;
}

void Promises::over() {
  askees_.clear(), last_.clear();
  may_ = false, taken_.reset();
  ++round_;
}

void Promises::ask(const Node& self) {
  if (!may_ || !taken_ || env_.now() >= *taken_ + rules_.alone) return;
  if (!peers_ && !askees_.empty()) return;
  const uint64_t round = ++round_;
  asked_ = env_.now(), missing_ = askees_.size();
  if (missing_ == 0) return renew();
  const std::string request = write_request({PeerRequest::What::kPromise, self.id, self.incarnation, {}});
  for (const auto& [id, incarnation] : Named(askees_)) {
    const std::string address = address_of_(id);
    if (address.empty()) return;
    peers_->ask(address, request, [this, round, expected = incarnation](const base::Result<std::string>& answer) {
      if (answer) answered(round, expected, read_answer(*answer));
    });
  }
}

void Promises::answered(uint64_t round, uint64_t incarnation, const PeerAnswer& answer) {
  if (round != round_ || !answer || answer->revision != incarnation) return;
  if (--missing_ == 0) renew();
}

void Promises::renew() { renewed_(std::min(asked_ + rules_.lease, *taken_ + rules_.alone)); }

}  // namespace weir::cluster
