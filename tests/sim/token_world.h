// TokenWorld: N virtual shards with the real Bus and Mailbox, a token lane without a thread around the real
// TokenScheduler, and clients that give credit as they please, leave, or have deadlines, in one thread from one seed.
// A step takes time, in which calls arrive and leave, credit comes and deadlines pass. As the real lane does, this one
// sleeps when there is nothing to run, until somebody puts or pokes; some of them lay out steps ahead of those that
// run. Wakes of shards are lost, mail is late, and there is no memory for what a client hears.
//
// In half of the worlds some clients keep sessions: session_clients.h.
//
// Checked: I1 (one outcome each), I2 (accepted = outcomes + in flight), I4 (tokens in order, equal to what the call
// says alone), I7 (no block is held at the end), I9 (after a plan nobody who was cancelled is inside), I10 (deadlines),
// I12 (no more tokens than credit, a step's worth aside), I18 (unloading answers everybody), I20 (faults reach nobody
// else).
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../generation/fake_engine.h"
#include "base/fake_env.h"
#include "bus/bus.h"
#include "generation/scheduler.h"
#include "session_clients.h"

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

class TokenWorld {
 public:
  explicit TokenWorld(uint64_t seed);
  ~TokenWorld();

  // Runs to the end. Empty, or what was broken.
  std::string run();
  uint64_t hash() const { return hash_; }
  size_t sent() const { return sent_ + (session_clients_ ? session_clients_->sent() : 0); }
  size_t heard() const { return heard_; }
  const std::deque<std::string>& trace() const { return trace_; }

 private:
  struct Client;
  struct Shard;

  uint32_t draw(uint32_t n) { return uint32_t(random_() % n); }
  void note(std::string event);
  void broken(std::string what);
  void act();
  void send(Shard& shard);
  void fill(msg::Call& call);
  void process_event(Client& client, msg::Call& call, const msg::Event& event);
  void over(Client& client);
  bool excused(const base::Status& status, const msg::Call& call) const;
  void add_session_clients();
  bool quiet();
  void pass_time();
  void leave();
  void give_credit();
  void check_ledger();
  void check_end();

  std::mt19937_64 random_;
  base::FakeEnv env_;
  generation::TokenPolicy policy_;
  uint32_t blocks_, calls_, faults_, leaves_, deadlines_, max_length_;
  uint32_t lost_wakes_, no_memory_;  // of a hundred
  bool unloads_;
  base::Time tick_{};  // when all shards turn, whatever became of their wakes
  std::shared_ptr<bus::Served> served_;
  TokenLane* lane_ = nullptr;
  std::deque<Shard> shards_;
  std::deque<Client> clients_;
  std::unique_ptr<SessionClients> session_clients_;  // or null
  uint32_t sent_ = 0;
  bool unloaded_ = false, wound_up_ = false;
  size_t heard_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace weir::sim
