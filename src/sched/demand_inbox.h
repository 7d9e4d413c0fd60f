// DemandInbox: the Inbox of a model version that is not in memory. The first Call asks for the model to be loaded; it
// and those that come meanwhile wait here, and go on into the Inbox of what was loaded, or fail for the reason that the
// load failed for.
//
// Who waits is a ConcurrencyLimiter's business: so many Calls, so long, tenants in turns, and a cancelled Call leaves.
// Once a load has failed, Calls fail at once until `retry_at`; the next one after that asks again. The model may leave
// memory again: close(), and settle() until no Call is inside.
//
// Clients' Calls wait in one line, and those of models that run (without a tenant) in another: where there is no room
// for the model beside models that wait for it, these are refused, and clients wait until those have left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "bus/catalog.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/deadline_timer.h"

namespace weir::sched {

class DemandInbox final : public msg::Inbox {
 public:
  struct Bounds {
    uint32_t most = 256;                                // Calls that wait
    base::Duration longest = std::chrono::seconds(60);  // of each
  };
  // Asks whoever loads models to load this one. Any thread; false: nothing is loaded any more.
  using Ask = std::function<bool()>;

  // `stats` outlives this.
  DemandInbox(std::string_view model, Bounds bounds, bus::ModelStats& stats,
              const std::shared_ptr<DeadlineTimer>& timer, Ask ask);
  ~DemandInbox() override;

  void put(msg::Call* call) override;
  void poke() override;

  // These are called by those who load models, one at a time.
  // The model is in memory: Calls go into the Inbox of `loaded` from now on, those that wait first. Not before
  // settle().
  void loaded(std::shared_ptr<bus::Served> loaded);
  // It could not be loaded: Calls fail with `why` until `retry_at`.
  void failed(const base::Status& why, base::Time retry_at);
  // The same of the Calls of models alone.
  void refuse_models(const base::Status& why, base::Time retry_at);
  // The model leaves memory: Calls that come from now on wait, and the first of them asks.
  void close();
  // Behind close(): lets go of what was loaded once no Call is inside; true when it has.
  bool settle();

  size_t waiting() const;
  bool clients_wait() const;
  bool busy() const;

 private:
  class LoadedVersion;
  class Line;

  const Ask ask_;
  msg::ModelSpec spec_;  // the queue's: the model's name and the bounds
  const std::unique_ptr<LoadedVersion> version_;
  const std::unique_ptr<Line> clients_, models_;
};

}  // namespace weir::sched
