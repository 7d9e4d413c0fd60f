// ReadinessWatch: asks the models that say themselves whether they are ready, once a second, and passes on what they
// said: whoever asks whether the server is ready has an answer at once, from every shard the same. Without such models
// it does nothing. On one shard's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/env.h"
#include "bus/catalog.h"
#include "bus/model_readiness.h"
#include "bus/readiness.h"

namespace weir::app {

class ReadinessWatch {
 public:
  static constexpr base::Duration kEvery = std::chrono::seconds(1);
  // Gets what all of them said last: of a model that is new, and has not said anything, nothing; of a new version what
  // the former one said.
  using Changed = std::function<void(std::shared_ptr<const bus::SaidReadiness>)>;

  ReadinessWatch(base::Env& env, bus::ModelReadiness::Post post, Changed changed)
      : env_(env), changed_(std::move(changed)), readiness_(env, std::move(post)) {}
  ~ReadinessWatch() { env_.cancel(timer_); }
  ReadinessWatch(const ReadinessWatch&) = delete;

  // These are the models from here on.
  void look_at(const bus::Catalog& catalog);

 private:
  struct Model {
    std::shared_ptr<msg::ReadinessProbe> probe;
    std::optional<std::string> why_not{};  // what it said last; empty: it is ready
    bool asked = false;                    // and it has not answered
  };
  using Key = std::pair<std::string, std::string>;  // name, version
  void ask();
  void answered(const Key& key, const msg::ReadinessProbe* probe, const std::string& why_not);
  std::optional<std::string> said_before(const Key& key) const;
  void tell() const;

  base::Env& env_;
  const Changed changed_;
  std::map<Key, Model> models_;
  base::TimerId timer_ = base::TimerId::kNone;
  bus::ModelReadiness readiness_;  // the last: it calls back
};

}  // namespace weir::app
