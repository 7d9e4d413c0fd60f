#include "dialects/evergreen/session_clock.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/session.h"
#include "wire/service_guard.h"

namespace weir::evergreen {

SessionClock::SessionClock(Session& session)
    : session_(session), env_(session.state().bus.env()), born_(env_.now()), used_(born_) {
  set_alarm();
}

void SessionClock::touch() { used_ = env_.now(); }

void SessionClock::set_age(base::Duration age) {
  born_ = env_.now() - age;
  env_.cancel(alarm_);
  set_alarm();
}

void SessionClock::stop() {
  env_.cancel(std::exchange(alarm_, base::TimerId::kNone));
  env_.cancel(std::exchange(grace_, base::TimerId::kNone));
}

// One timer for evergreen.idle and evergreen.max_age. A use of the session does not set it anew: it fires, and is set
// for what is left.
void SessionClock::set_alarm() {
  const Options& options = session_.state().options;
  alarm_ = env_.at(std::min(born_ + options.max_age, used_ + options.idle), [this] {
    alarm_ = base::TimerId::kNone;
    wire::guarded(session_.exchange(), [this] {
      check_limits();
      session_.settle();
    });
  });
}

void SessionClock::check_limits() {
  const Options& options = session_.state().options;
  std::string unused;
  if (!session_.actions().empty() && !session_.stuck(unused)) touch();  // a model is at work
  auto expire = [this](const char* why) {
    if (session_.over()) return;
    expired_ = true;
    session_.abort(base::failure(base::Code::kDeadlineExceeded, why));
  };
  if (env_.now() - born_ >= options.max_age)
    expire("the session is too old: no session lasts longer than evergreen.max_age");
  else if (env_.now() - used_ >= options.idle)
    expire("the session was not used for longer than evergreen.idle");
  else
    set_alarm();
}

void SessionClock::begin_grace(base::Duration grace) {
  grace_ = env_.at(env_.now() + grace, [this] {
    grace_ = base::TimerId::kNone;
    grace_over_ = true;
    wire::guarded(session_.exchange(), [this] { session_.settle(); });
  });
}

}  // namespace weir::evergreen
