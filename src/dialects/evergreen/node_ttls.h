// NodeTtls: nodes of a session that go by themselves, with their children, when their time to live is over.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/env.h"
#include "dialects/evergreen/graph/node.h"

namespace weir::evergreen {

class Session;

class NodeTtls {
 public:
  explicit NodeTtls(Session& session);
  ~NodeTtls();
  NodeTtls(const NodeTtls&) = delete;

  // Counted from now; a second time to live of a node replaces the first.
  void set(std::string_view node, base::Duration ttl);
  // The node may have become an open one (one that an action writes), or has ended: open nodes stay when their time is
  // over.
  void update(const Node& node);
  bool empty() const { return ttls_.empty(); }
  // True when a node is going to make room: it is worth waiting for.
  bool make_room() const { return make_room_ > 0; }
  // True when there is little room until then.
  bool short_of_room() const;
  // Calls on_ttl(node, what is left of its time) for each, until that returns false.
  template <class OnTtl>
  void each(base::Time now, OnTtl on_ttl) const {
    for (const auto& [node, ttl] : ttls_)
      if (!on_ttl(node, ttl.at > now ? ttl.at - now : base::Duration(0))) return;
  }
  void clear();

 private:
  struct Ttl {
    base::TimerId timer = base::TimerId::kNone;
    base::Time at{};  // when its time is over
    bool makes_room = false;
  };
  void expire(const std::string& node);
  void forget(std::string_view node);

  Session& session_;
  std::map<std::string, Ttl, std::less<>> ttls_;
  size_t make_room_ = 0;  // of them
};

}  // namespace weir::evergreen
