#include "dialects/evergreen/pending_loads.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/session.h"
#include "wire/service_guard.h"

namespace weir::evergreen {

using base::Status;

Status PendingLoads::begin(const Node& node, int64_t seq, std::string_view uri) {
  const std::string place = describe_fragment(node.id(), seq) + ": ";
  if (!on_growth())
    return base::failure(base::Code::kResourceExhausted,
                         place + "too much is being loaded at once: with it the session's content passes " +
                             std::to_string(session_.graph().memory().limit()) + " bytes (evergreen.session_bytes)");
  EvergreenState& state = session_.state();
  auto begun = load({state.bus.env(), state.options.references, state.fetcher, state.slabs.ledger()}, uri, *this);
  if (!begun) {
    Status s = std::move(begun).error();
    s.text = place + s.text;
    return s;
  }
  (*begun)->node = node.id();
  (*begun)->node_serial = node.serial();
  (*begun)->seq = seq;
  loads_.push_back(std::move(*begun));
  return {};
}

// Whether there is room for all loads under way. It is asked as they grow: once they are complete, their memory is
// taken.
bool PendingLoads::on_growth() {
  uint64_t on_the_way = 0;
  for (const auto& l : loads_) on_the_way += l->size();
  return session_.graph().memory().has_room_for(on_the_way);
}

void PendingLoads::on_loaded(Load& load, base::Result<base::Bytes> data) {
  wire::guarded(session_.exchange(), [&] { take(load, std::move(data)); });
}

void PendingLoads::take(Load& load, base::Result<base::Bytes> data) {
  // The node may have been dropped meanwhile, and another node may have its name.
  Node* node = session_.graph().find(load.node);
  if (node && node->serial() != load.node_serial) node = nullptr;
  Status s;
  if (node && data) {
    s = session_.graph().loaded(*node, load.seq, std::move(*data));
  } else if (node && !node->dropped()) {
    s = std::move(data).error();
    s.text = describe_fragment(load.node, load.seq) + ": " + s.text;
  }
  std::erase_if(loads_, [&](const auto& l) { return l.get() == &load; });
  if (!s.ok()) session_.abort(std::move(s));
  session_.settle();
}

}  // namespace weir::evergreen
