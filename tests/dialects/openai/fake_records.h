// Stored responses of all nodes in memory.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "session/shared_records.h"

namespace weir::openai {

// The bucket that the nodes of a cluster share; it answers when told to.
struct FakeRecords final : session::SharedRecords {
  void keep_records_for(base::Duration) override {}
  void keep_record(const std::string& owner, const std::string& id, std::string record, base::ShardId,
                   Done then) override {
    waiting.push_back([this, key = owner + ' ' + id, record, then] {
      kept[key] = record;
      then({});
    });
  }
  void read_record(const std::string& owner, const std::string& id, base::ShardId, Read then) override {
    waiting.push_back([this, key = owner + ' ' + id, then] {
      if (away) return then(base::try_again(base::Code::kUnavailable, "NATS is away"));
      if (erased.contains(key)) return then(Found{Found::State::kErased, {}});
      if (!kept.contains(key)) return then(Found{});
      then(Found{Found::State::kThere, base::Bytes::copy_of(kept[key])});
    });
  }
  void erase_record(const std::string& owner, const std::string& id, base::ShardId, Done then) override {
    waiting.push_back([this, key = owner + ' ' + id, then] {
      if (away) return then(base::try_again(base::Code::kUnavailable, "NATS is away"));
      kept.erase(key), erased.insert(key);
      then({});
    });
  }
  void forget_record(const std::string& owner, const std::string& id) override {
    erase_record(owner, id, base::ShardId(0), [](const base::Status&) {});
  }
  void answer() {
    while (!waiting.empty()) {
      auto next = std::move(waiting.front());
      waiting.pop_front();
      next();
    }
  }
  std::map<std::string, std::string> kept;
  std::set<std::string> erased;
  std::deque<std::function<void()>> waiting;
  bool away = false;
};

}  // namespace weir::openai
