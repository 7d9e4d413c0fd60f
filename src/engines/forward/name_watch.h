// NameWatch: looks the names of a model's origins up again and again, so that machines that come and go under one name
// are found. On one shard's thread; the system's resolver is asked on threads of its own.
#pragma once

#include <memory>

#include "engines/forward/origin.h"
#include "net/resolver.h"
#include "net/shard.h"

namespace weir::forward {

class NameWatch {
 public:
  // Nothing happens where all origins are addresses, or dns_interval is 0.
  NameWatch(net::Shard& shard, std::shared_ptr<Target> target, std::unique_ptr<net::Resolver> resolver);
  ~NameWatch() { shard_.env().cancel(timer_); }
  NameWatch(const NameWatch&) = delete;

 private:
  void arm();
  void look_up();

  net::Shard& shard_;
  const std::shared_ptr<Target> target_;
  const std::unique_ptr<net::Resolver> resolver_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::forward
