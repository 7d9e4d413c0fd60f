// KeptBytes: the bytes of sessions that each client keeps for all nodes by way of this one, also of those that it has
// left: nobody holds them, but they are there until their time is over. One client does not fill the place that all
// have. Pure; whoever has it keeps order.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/env.h"

namespace weir::session {

class KeptBytes {
 public:
  static constexpr uint64_t kLeast = 4096;      // that a session counts as
  static constexpr size_t kExpiredAtOnce = 64;  // by one call: whoever has it holds a lock meanwhile

  void set_limits(uint64_t per_client, uint64_t total) { per_client_ = per_client, total_ = total; }

  // The session, which is `whose`, has so many bytes from now on. False: that is more than its client may keep, or than
  // all may, and nothing has changed.
  bool set(const std::string& session, const std::string& whose, uint64_t bytes, base::Time now);
  // The session is not held here any more, and is kept for so long all the same.
  void let_go(const std::string& session, base::Duration life, base::Time now);
  // It is not kept any more, or this node does not know.
  void forget(const std::string& session);

  uint64_t of(const std::string& whose) const;
  uint64_t all() const { return all_; }
  size_t sessions() const { return sessions_.size(); }

 private:
  struct Session {
    std::string whose;
    uint64_t bytes = 0;
    base::Time until = base::kNever;  // kNever: somebody holds it
  };
  void expire(base::Time now);

  uint64_t per_client_ = UINT64_MAX, total_ = UINT64_MAX, all_ = 0;
  std::map<std::string, Session> sessions_;
  std::map<std::string, uint64_t> clients_;               // those that keep some
  std::set<std::pair<base::Time, std::string>> by_time_;  // sessions that nobody holds, by `until`
};

}  // namespace weir::session
