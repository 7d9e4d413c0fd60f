// ModelReadiness: asks models that say themselves whether they are ready, for the clients that ask the server. One per
// shard, on its thread.
//
// A model has one question of this shard's, whose answer is that of everybody who waits; who has waited for kPatience
// is told that it did not answer. So a model that is silent costs a question, and a timer for each who waits. One that
// is silent and works on requests is what it has said last, for kMostBusy: a batch that takes long makes no model "not
// ready", and the process that never ends one is ended after its process_timeout. Where
// too many wait, the model's last answer is that of the others, so that a flood of probes makes no model "not ready".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/env.h"
#include "msg/readiness_probe.h"

namespace weir::bus {

class ModelReadiness {
 public:
  static constexpr base::Duration kPatience = std::chrono::seconds(5);  // Triton's
  static constexpr base::Duration kMostBusy = std::chrono::minutes(1);
  static constexpr size_t kMostWaiting = 256;  // for one model
  static constexpr std::string_view kTooManyAsk = "too many ask whether it is ready; try again later";
  // `why_not`: empty where it is ready.
  using Done = std::function<void(const std::string& why_not)>;
  // Runs work on this thread, later. Called by any thread, until this is destroyed.
  using Post = std::function<void(std::function<void()>)>;

  ModelReadiness(base::Env& env, Post post);
  ModelReadiness(const ModelReadiness&) = delete;
  ~ModelReadiness();

  // `done` is called once, later, unless forget() is called with the number before. Nothing: too many wait.
  std::optional<uint64_t> ask(const std::shared_ptr<msg::ReadinessProbe>& probe, Done done);
  void forget(uint64_t number);
  // The model's last answer; null: there is none that is younger than kPatience. Until the next answer.
  const std::string* last_answer(const std::shared_ptr<msg::ReadinessProbe>& probe) const;

 private:
  struct Waiting {
    const msg::ReadinessProbe* probe;
    Done done;
    base::TimerId timer;
  };
  struct Asked {
    std::shared_ptr<msg::ReadinessProbe> probe;
    std::set<uint64_t> waiting;
  };
  struct Said {
    std::weak_ptr<msg::ReadinessProbe> probe;  // another one may have its address by now
    std::string why_not;
    base::Time when;
  };
  struct Door;
  void answered(const msg::ReadinessProbe* probe, const std::string& why_not);
  void leave(const Waiting& waiting, uint64_t number);
  void tell(uint64_t number, const std::string& why_not);
  void overdue(uint64_t number);

  base::Env& env_;
  const std::shared_ptr<Door> door_;
  std::map<const msg::ReadinessProbe*, Asked> asked_;  // those that have not answered
  std::map<const msg::ReadinessProbe*, Said> said_;    // the last answers
  std::unordered_map<uint64_t, Waiting> waiting_;
  uint64_t last_ = 0;
};

}  // namespace weir::bus
