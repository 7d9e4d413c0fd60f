// The other nodes of a cluster, as one shard sees them: what is kept lies here, and answers come when told to.
#pragma once

#include <deque>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "session/handover.h"

namespace weir::evergreen {

struct FakeHandover final : session::Handover {
  struct Held {
    std::string whose;
    std::function<void()> leave;
  };

  void keep_for(base::Duration) override {}
  uint64_t epoch() const override { return flickers > 0 ? --flickers, 0 : claim; }
  void hold(base::SessionId id, std::string whose, base::ShardId, std::function<void()> leave) override {
    held[id] = {whose, std::move(leave)};
    owner[id] = std::move(whose);
  }
  void save(base::SessionId id, std::string state, base::ShardId, Done then) override {
    if (saves_throw) throw std::bad_alloc();
    ++saves;
    answers.push_back([this, id, state = std::move(state), then] {
      if (save_status.ok()) kept[id] = state;
      then(save_status);
    });
  }
  void let_go(base::SessionId id) override { held.erase(id), ++let_go_of; }
  void end(base::SessionId id) override {
    held.erase(id);
    answers.push_back([this, id] { kept.erase(id); });
  }
  void take(base::SessionId id, std::string whose, base::ShardId, Taken then) override {
    ++taken;
    answers.push_back([this, id, whose, then] {
      if (auto has = held.find(id); has != held.end() && has->second.whose == whose) {
        auto leave = has->second.leave;
        leave();
        answer();
      }
      if (!take_status.ok()) return then(take_status);
      const bool his = kept.contains(id) && owner[id] == whose;
      then(his ? std::optional(kept[id]) : std::nullopt);
    });
  }
  void answer() {
    while (!answers.empty()) {
      auto next = std::move(answers.front());
      answers.pop_front();
      next();
    }
  }

  uint64_t claim = 1;
  mutable int flickers = 0;  // so many times there is no claim
  bool saves_throw = false;
  base::Status save_status, take_status;
  std::map<base::SessionId, Held> held;
  std::map<base::SessionId, std::string> owner, kept;
  std::deque<std::function<void()>> answers;
  int saves = 0, let_go_of = 0, taken = 0;
};

}  // namespace weir::evergreen
