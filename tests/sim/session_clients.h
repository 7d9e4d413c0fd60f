// SessionClients: clients that keep sessions on the shards of a TokenWorld, through the real Sessions and SessionTable.
// A request from one shard to another arrives when that one turns. They open sessions, generate on any shard, rewind,
// fork, close while another one generates, leave, and let sessions expire.
//
// Checked: I8 (a session's tokens are what its Generates left, in order; a lease lends just these), I4 (tokens equal
// what the sequence says alone), no session goes before its time, nor is refused without a reason; at the end: no
// session, none of their bytes, and no lease is left.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "base/metrics.h"
#include "bus/bus.h"
#include "generation/fit.h"
#include "session/sessions.h"

namespace weir::sim {

class SessionClients {
 public:
  // The parts of the world. All outlive this.
  struct Deps {
    base::FakeEnv& env;
    bus::Served& served;
    generation::TokenRoom room;
    std::vector<bus::Bus*> buses;
    std::function<uint32_t(uint32_t)> draw;
    std::function<void(std::string)> note, broken;
    std::function<void(size_t shard)> wake;
    std::function<bool(const base::Status&, const msg::Call&)> excused;  // a failure that nobody is to blame for
    std::function<bool(msg::Call&)> held;                                // by the lane
  };
  explicit SessionClients(Deps deps);
  ~SessionClients();

  // Something happens.
  void act();
  // The requests of others to this shard.
  void turn(size_t shard);
  size_t sent() const { return sent_; }
  // Nobody is under way.
  bool quiet() const;
  // Nobody comes any more: all sessions expire. Then, when all is quiet again, check_end().
  void wind_up();
  void check_end();

 private:
  struct Known;
  struct SessionClient;
  struct Door;

  Known* any();
  void open();
  void generate(Known& known);
  void fork(Known& known);
  void close(Known& known);
  void dump(Known& known);
  void leave();
  Door& far_from(const Known& known);
  void judge_refusal(const Known& known, uint64_t version, const base::Status& status);
  bool expired(const Known& known) const;
  uint16_t shard();

  Deps deps_;
  base::Metrics metrics_;
  session::Quota quota_{1};
  session::Homes homes_;
  session::SessionLimits limits_;
  std::deque<Door> doors_;
  std::deque<Known> known_;
  std::deque<SessionClient> clients_;
  size_t sent_ = 0, asked_ = 0;  // asked: of forks, closes and dumps, not answered
};

}  // namespace weir::sim
