// The Cluster that app::ClusterHandover asks, in KeptWorld: the same calls, on a KeptSessions in the world's one
// thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "cluster/kept_sessions.h"

namespace weir::cluster {

class Cluster {
 public:
  void keep_sessions_for(base::Duration) {}
  base::Duration sessions_last() const { return std::chrono::hours(1); }
  bool save_session(const std::string& id, std::string state, Ownership::Done then, KeptSessions::Tells tells) {
    return post(
        [this, id, state = std::move(state), then = std::move(then), tells] { kept->save(id, state, then, tells); });
  }
  void end_session(const std::string& id) {
    post([this, id] { kept->end(id); });
  }
  bool move_session(const std::string& id, const std::string& whose, KeptSessions::Found then) {
    return post([this, id, whose, then = std::move(then)] { kept->find(id, "", then, mover(id, whose)); });
  }
  bool release_session(const std::string& id, Ownership::Done then) {
    return post([this, id, then = std::move(then)] { kept->release(id, then); });
  }
  bool after(base::Duration time, std::function<void()> work) { return later(time, std::move(work)); }
  uint64_t epoch() const { return claimed(); }

  // In the place of a thread and of membership.
  std::function<bool(std::function<void()>)> post;
  std::function<bool(base::Duration, std::function<void()>)> later;
  std::function<uint64_t()> claimed;
  std::function<KeptSessions::Mover(const std::string& id, const std::string& whose)> mover;
  KeptSessions* kept = nullptr;
};

}  // namespace weir::cluster
