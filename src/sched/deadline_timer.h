// DeadlineTimer: calls its listeners when a time has come. Queues use it, so that a call leaves at its time also when
// every engine is busy and no thread would notice. It is the clock of lanes, too, so that a test controls both.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/env.h"

namespace weir::sched {

class DeadlineTimer {
 public:
  class Listener {
   public:
    // On a thread of the deadline timer's; short.
    virtual void on_deadline() = 0;

   protected:
    ~Listener() = default;
  };

  virtual ~DeadlineTimer() = default;
  virtual base::Time now() const = 0;
  // Calls `listener` once, soon after `when`; this replaces the time that was set before. Any thread, also with a lock
  // held that on_deadline() takes. False: there is no thread to call it; the next set(), of any listener, tries again.
  virtual bool set(Listener& listener, base::Time when) = 0;
  // The listener is not called any more, and is not being called when this returns. Must not be called with a lock
  // held that on_deadline() takes.
  virtual void remove(Listener& listener) = 0;
};

// One thread for any number of listeners, started when the first is set. Outlives them.
class TimerThread final : public DeadlineTimer {
 public:
  ~TimerThread() override;
  base::Time now() const override;
  bool set(Listener& listener, base::Time when) override;
  void remove(Listener& listener) override;

 private:
  bool start();
  void run();

  std::mutex mutex_;  // over all that follows
  std::condition_variable changed_;
  std::map<Listener*, base::Time> due_;
  base::Time asleep_until_ = base::Time::min();  // min: it is awake and checks anyway
  Listener* firing_ = nullptr;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace weir::sched
