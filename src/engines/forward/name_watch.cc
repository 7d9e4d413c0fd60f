#include "engines/forward/name_watch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weir::forward {

NameWatch::NameWatch(net::Shard& shard, std::shared_ptr<Target> target, std::unique_ptr<net::Resolver> resolver)
    : shard_(shard), target_(std::move(target)), resolver_(std::move(resolver)) {
  const bool any = std::any_of(target_->names.begin(), target_->names.end(), [](const auto& n) { return !n.fixed; });
  if (any && target_->options.dns_interval.count() > 0) arm();
}

void NameWatch::arm() {
  timer_ = shard_.env().at(shard_.env().now() + target_->options.dns_interval, [this] {
    arm();
    look_up();
  });
}

// A name that is not known now keeps its addresses: the name service may be the one that is away.
void NameWatch::look_up() {
  for (auto& name : target_->names) {
    if (name.fixed || std::exchange(name.asking, true)) continue;
    resolver_->look_up(name.url.host, [this, &name](std::vector<net::Endpoint> found) {
      name.asking = false;
      if (found.empty()) return;
      for (auto& endpoint : found) endpoint.set_port(name.url.port);
      if (!target_->update(name, found)) return;
      base::log::info("the addresses of an origin have changed",
                      {{"origin", name.url.authority()}, {"addresses", found.size()}});
    });
  }
}

}  // namespace weir::forward
