// SessionClock: when a session ends by itself: at Options::max_age, or after Options::idle without a message of either
// side while no model is at work. It also counts the time that a session in drain waits for its client.
#pragma once

#include "base/env.h"

namespace weir::evergreen {

class Session;

class SessionClock {
 public:
  // The session's state() is there already. It outlives this.
  explicit SessionClock(Session& session);
  ~SessionClock() { stop(); }
  SessionClock(const SessionClock&) = delete;

  // A message of either side.
  void touch();
  // The session was resumed, and is that old already.
  void set_age(base::Duration age);
  base::Duration age() const { return env_.now() - born_; }
  // The session settles when the time is over.
  void begin_grace(base::Duration grace);
  bool grace_over() const { return grace_over_; }
  // It has ended the session.
  bool expired() const { return expired_; }
  void stop();

 private:
  void set_alarm();
  void check_limits();

  Session& session_;
  base::Env& env_;
  base::Time born_;
  base::Time used_;
  base::TimerId alarm_ = base::TimerId::kNone, grace_ = base::TimerId::kNone;
  bool grace_over_ = false, expired_ = false;
};

}  // namespace weir::evergreen
