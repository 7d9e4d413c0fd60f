#include "engines/forward/load_poll.h"

#include <utility>

#include "engines/forward/load_report.h"

namespace weir::forward {
namespace {

net::Url with_port(net::Url url, uint32_t port) {
  if (port != 0) url.port = uint16_t(port);
  return url;
}

}  // namespace

LoadPoll::LoadPoll(net::Shard& shard, const Target& target, Origin& origin)
    : shard_(shard),
      target_(target),
      origin_(origin),
      place_(with_port(origin.url(), target.options.metrics_port), 0, {}),
      conn_(shard, target, place_),
      get_(shard, conn_) {}

void LoadPoll::follow_addresses() {
  const uint32_t generation = origin_.generation.load(std::memory_order_acquire);
  if (generation == generation_) return;
  generation_ = generation;
  auto addresses = origin_.addresses();
  for (auto& address : addresses)
    if (target_.options.metrics_port != 0) address.set_port(uint16_t(target_.options.metrics_port));
  place_.move_to(std::move(addresses));
}

void LoadPoll::ask() {
  if (get_.under_way()) return;
  follow_addresses();
  get_.ask("/metrics", target_.options.connect_timeout, [this](base::Result<Get::Answer> answer) {
    if (answer && answer->status == 200)
      origin_.report(parse_metrics(answer->body, target_.options.model), shard_.env().now());
  });
}

}  // namespace weir::forward
