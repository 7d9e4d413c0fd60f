// Hedge: a second attempt for a call whose first one takes long, at another origin (parameter `hedge_after`; Dean and
// Barroso, The Tail at Scale, 2013). The answer that comes first counts; the other attempt is cancelled. Only of calls
// that are answered once and belong to no sequence, and as many as the budget of repeats allows. ForwardedCall's own.
#pragma once

#include <memory>

#include "engines/forward/forwarded_call.h"

namespace weir::forward {

class Hedge final : public Attempt::Receiver {
 public:
  Hedge(ForwardedCall& its_call, Origin& its_origin) : call(its_call), origin(its_origin) {}

  // Attempt::Receiver
  void on_progress() override { call.on_progress(); }
  base::Status on_part(msg::Event&&) override { return {}; }  // a call that is hedged has none
  bool holds() const override { return false; }
  void on_over(Attempt::Outcome&& ending) override;

  ForwardedCall& call;
  Origin& origin;
  std::unique_ptr<Attempt> attempt;
};

// How long the calls of a model take on a shard: an estimate of one quantile of it, which moves with each of them.
class Quantile {
 public:
  explicit Quantile(double share) : share_(share) {}
  void add(base::Duration took);
  // Nothing before kLeast of them have been seen.
  base::Duration value() const { return seen_ < kLeast ? base::Duration(0) : value_; }

 private:
  static constexpr uint32_t kLeast = 64;
  const double share_;  // 0 to 1
  base::Duration value_{0};
  uint32_t seen_ = 0;
};

}  // namespace weir::forward
