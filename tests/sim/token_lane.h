// TokenLane: the real TokenScheduler as a lane without a thread. Somebody begins and ends its steps; as the real lane
// does, it sleeps when there is nothing to run, until somebody puts or pokes.
//
// Checked: I3 (nothing is said of a Call after its last Event), I9 (after a plan nobody who was cancelled is inside),
// I18 (unloading answers everybody).
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "../generation/fake_engine.h"
#include "base/fake_env.h"
#include "generation/scheduler.h"
#include "msg/call.h"

namespace weir::sim {

class TokenLane final : public msg::Inbox {
 public:
  TokenLane(base::FakeEnv& env, const msg::ModelSpec& spec, bus::ModelStats& stats,
            const generation::TokenPolicy& policy, uint32_t blocks, uint64_t seed);

  void put(msg::Call* call) override;
  void poke() override { awake_ = true; }
  enum class Ahead : uint8_t { kNo, kYes } ahead = Ahead::kNo;
  // From now on mail arrives only by deliver().
  bool holds_mail = false;
  // Told of every Call that comes, and of the home that it has.
  std::function<void(msg::Home*)> on_put = [](msg::Home*) {};
  // Some of the mail that waits reaches its mailbox, in its order; false when there was none.
  bool deliver(size_t most);
  // Lays out a step that ends after `work`; false when one runs already, or nothing can.
  bool begin(base::Duration work);
  // The step's end, if its time has come. `work`: of the next one, where that was laid out ahead.
  bool end(base::Duration work);
  // Takes an image that a sequence waits for, or delivers the features of the one taken before; not while a step runs.
  void encode_image();
  void unload();
  base::Time next() const { return step_ ? done_ : scheduler_.queue().leaves_at(); }
  bool stepping() const { return step_ != nullptr; }
  bool has_mail() const { return !mail_.empty(); }
  bool holds(msg::Call& call) const {
    return inside_.count(&call) > 0 || std::find(arrivals_.begin(), arrivals_.end(), &call) != arrivals_.end();
  }
  uint32_t used() const { return scheduler_.memory().blocks().used(); }

  generation::FakeTokenEngine engine;

 private:
  void take_arrivals();
  void post();
  void refuse(msg::Call* call, base::Status status);

  base::FakeEnv& env_;
  const msg::ModelSpec& spec_;
  const generation::TokenRoom room_;
  const uint32_t max_waiting_;
  generation::TokenScheduler scheduler_;
  generation::TokenStep* step_ = nullptr;
  base::Status stepped_;  // what the engine says of it
  bool awake_ = false;
  std::optional<generation::TokenScheduler::PendingImage> pending_image_;
  base::Time done_{};
  bool gone_ = false;
  std::vector<msg::Call*> arrivals_;
  std::vector<std::pair<base::SessionId, uint32_t>> cuts_;  // of refused Calls, as the real lane's
  std::set<msg::Call*> inside_;
  std::deque<msg::Mail> mail_;  // on its way
};

}  // namespace weir::sim
