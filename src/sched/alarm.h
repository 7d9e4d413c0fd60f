// Alarm: rings when a time has come. For queues whose calls leave at their time also when every engine is busy, and
// nobody else would look. The clock of lanes, too, so that a test can have both in its hand.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/env.h"

namespace weir::sched {

class Alarm {
 public:
  class Bell {
   public:
    // On a thread of the alarm's; short.
    virtual void ring() = 0;

   protected:
    ~Bell() = default;
  };

  virtual ~Alarm() = default;
  virtual base::Time now() const = 0;
  // Rings `bell` once, soon after `when`, in place of whatever was set before. Any thread, also with a lock held that
  // ring() takes. False: nothing can ring now; whoever sets a bell next, to whatever time, tries again.
  virtual bool set(Bell& bell, base::Time when) = 0;
  // The bell is not rung any more, also not at this moment. Not with a lock held that ring() takes.
  virtual void remove(Bell& bell) = 0;
};

// One thread for any number of bells, started when the first is set. Outlives them.
class AlarmClock final : public Alarm {
 public:
  ~AlarmClock() override;
  base::Time now() const override;
  bool set(Bell& bell, base::Time when) override;
  void remove(Bell& bell) override;

 private:
  bool start();
  void run();

  std::mutex mutex_;  // over all that follows
  std::condition_variable changed_;
  std::map<Bell*, base::Time> due_;
  base::Time asleep_until_ = base::Time::min();  // min: it is awake and looks anyway
  Bell* ringing_ = nullptr;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace weir::sched
