// TurnWakes: the lanes that a shard wakes at the end of its turn, so that all calls of the turn that fit run as one
// batch: a lane that was woken for the first of them would run that one alone.
#pragma once

#include <vector>

namespace weir::sched {

class TurnWakes {
 public:
  class Sleeper {
   public:
    // On the thread that has added it. It may be gone afterwards.
    virtual void wake() = 0;

   protected:
    ~Sleeper() = default;
  };

  TurnWakes() = default;
  ~TurnWakes();
  TurnWakes(const TurnWakes&) = delete;

  // From now on the calling thread's: whoever calls it promises a flush() after all that this thread does.
  void use();
  // Those of the calling thread; null: it has none, so nobody would wake what is added.
  static TurnWakes* of_this_thread();

  bool empty() const { return sleepers_.empty(); }
  void add(Sleeper& sleeper) { sleepers_.push_back(&sleeper); }
  // True: it had been added, and is not woken.
  bool forget(Sleeper& sleeper) { return std::erase(sleepers_, &sleeper) > 0; }
  void flush();

 private:
  std::vector<Sleeper*> sleepers_;
};

}  // namespace weir::sched
