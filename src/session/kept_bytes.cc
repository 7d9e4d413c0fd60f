#include "session/kept_bytes.h"

#include <algorithm>

namespace weir::session {

bool KeptBytes::set(const std::string& session, const std::string& whose, uint64_t bytes, base::Time now) {
  expire(now);
  bytes = std::max(bytes, kLeast);
  auto found = sessions_.find(session);
  const uint64_t before = found != sessions_.end() ? found->second.bytes : 0;
  const uint64_t own = found != sessions_.end() && found->second.whose == whose ? before : 0;
  if (bytes > own && (of(whose) - own + bytes > per_client_ || all_ - before + bytes > total_)) return false;
  forget(session);
  sessions_[session] = {whose, bytes, base::kNever};
  clients_[whose] += bytes;
  all_ += bytes;
  return true;
}

void KeptBytes::let_go(const std::string& session, base::Duration life, base::Time now) {
  auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  by_time_.erase({found->second.until, session});
  found->second.until = now + life;
  by_time_.emplace(found->second.until, session);
  expire(now);
}

void KeptBytes::forget(const std::string& session) {
  auto gone = sessions_.extract(session);
  if (gone.empty()) return;
  by_time_.erase({gone.mapped().until, session});
  auto client = clients_.find(gone.mapped().whose);
  client->second -= gone.mapped().bytes;
  all_ -= gone.mapped().bytes;
  if (client->second == 0) clients_.erase(client);
}

uint64_t KeptBytes::of(const std::string& whose) const {
  auto found = clients_.find(whose);
  return found == clients_.end() ? 0 : found->second;
}

void KeptBytes::expire(base::Time now) {
  for (size_t n = 0; n < kExpiredAtOnce && !by_time_.empty() && by_time_.begin()->first <= now; ++n) {
    const std::string session = by_time_.begin()->second;
    forget(session);
  }
}

}  // namespace weir::session
