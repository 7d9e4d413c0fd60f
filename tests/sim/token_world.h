// TokenWorld: N virtual shards with the real Bus and Mailbox, a token lane without a thread (token_lane.h), and clients
// that give credit as they please, leave, or have deadlines, in one thread from one seed. A step takes time, in which
// calls arrive and leave, credit comes and deadlines pass. Some lanes lay out steps ahead of those that run. Wakes of
// shards are lost, mail is late, and memory runs out where a client takes an event.
//
// In half of the worlds some clients keep sessions: session_clients.h.
//
// Checked: I1 (one outcome each), I2 (accepted = outcomes + in flight), I4 (tokens in order, equal to what the call
// says alone), I7 (no block is held at the end), I10 (deadlines), I12 (no more tokens than credit, a step's worth
// aside), I20 (faults reach nobody else), and the lane's own.
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "session_clients.h"
#include "token_lane.h"

namespace weir::sim {

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
