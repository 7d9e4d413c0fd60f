#include "dialects/evergreen/node_ttls.h"

#include "dialects/evergreen/session.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

constexpr base::Duration kAskAgain = std::chrono::seconds(1);

}  // namespace

// A node that is dropped has its time to live removed, so that ttls_ never names a node that is gone.
NodeTtls::NodeTtls(Session& session) : session_(session) {
  session_.graph().on_forget = [this](std::string_view node) { forget(node); };
}

NodeTtls::~NodeTtls() {
  session_.graph().on_forget = {};
  clear();
}

// The last sixteenth is kept for outputs, so that actions go on for a while when inputs are held back.
bool NodeTtls::short_of_room() const {
  const SessionMemory& memory = session_.graph().memory();
  return make_room() && memory.used() > memory.limit() / 16 * 15;
}

void NodeTtls::forget(std::string_view node) {
  auto at = ttls_.find(node);
  if (at == ttls_.end()) return;
  session_.state().bus.env().cancel(at->second.timer);
  make_room_ -= at->second.makes_room;
  ttls_.erase(at);
}

void NodeTtls::set(std::string_view node, base::Duration ttl) {
  base::Env& env = session_.state().bus.env();
  auto at = ttls_.find(node);
  if (at == ttls_.end()) at = ttls_.emplace(node, Ttl()).first;
  env.cancel(at->second.timer);
  at->second.at = env.now() + ttl;
  at->second.timer =
      env.at(at->second.at, [this, name = at->first] { wire::guarded(session_.exchange(), [&] { expire(name); }); });
  if (const Node* known = session_.graph().find(node)) update(*known);
}

void NodeTtls::update(const Node& node) {
  auto at = ttls_.find(node.id());
  if (at == ttls_.end()) return;
  make_room_ -= at->second.makes_room;
  at->second.makes_room = !node.open();
  make_room_ += at->second.makes_room;
}

void NodeTtls::expire(const std::string& name) {
  const std::string id = name;  // the timer's own string goes with its entry
  auto at = ttls_.find(id);
  make_room_ -= at->second.makes_room;
  ttls_.erase(at);
  Node* node = session_.graph().find(id);
  if (node && !session_.graph().drop(*node, NodeGraph::DropScope::kWithChildren).ok()) set(id, kAskAgain);
  session_.settle();
}

void NodeTtls::clear() {
  for (auto& [node, ttl] : ttls_) session_.state().bus.env().cancel(ttl.timer);
  ttls_.clear();
  make_room_ = 0;
}

}  // namespace weir::evergreen
