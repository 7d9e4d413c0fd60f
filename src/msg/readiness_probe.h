// ReadinessProbe: the way to a model that says itself whether it is ready, as a model.py does by is_ready().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::msg {

class ReadinessProbe {
 public:
  // `why_not`: for a person; empty where the model is ready.
  using Done = std::function<void(std::string why_not)>;

  virtual ~ReadinessProbe() = default;
  // `done` is called once, from any thread, also inside of this. A model that is silent is asked until it is unloaded:
  // whoever asks bounds the time, and how many wait. Any thread; it takes microseconds.
  virtual void ask(Done done) = 0;
  // The model works on requests now: that it is silent need not mean that it is not ready, since its code may keep it
  // from answering (Python's global lock). Any thread.
  virtual bool busy() const { return false; }
};

// An engine whose model may say whether it is ready is one of these, too. Whoever makes it sets the probe.
class HasReadinessProbe {
 public:
  // Null: the model says nothing itself.
  const std::shared_ptr<ReadinessProbe>& readiness_probe() const { return probe_; }
  void set_readiness_probe(std::shared_ptr<ReadinessProbe> probe) { probe_ = std::move(probe); }

 protected:
  ~HasReadinessProbe() = default;

 private:
  std::shared_ptr<ReadinessProbe> probe_;
};

// The model is ready where all of these are. Null where there is none.
std::shared_ptr<ReadinessProbe> all_ready(std::vector<std::shared_ptr<ReadinessProbe>> probes);

}  // namespace weir::msg
