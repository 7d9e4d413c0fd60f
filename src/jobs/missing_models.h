// MissingModels: which models jobs have asked for in vain. In a cluster another node may bring one: a node that is
// being replaced, say. Its jobs wait for that, but not for ever. One for all shards, so that a job which comes to each
// of them in turn waits no longer. A node of many sees one job seldom: what it has missed for one job is remembered
// for that job, however long it is away. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

#include "base/env.h"

namespace weir::jobs {

class MissingModels {
 public:
  // After so long without it a model is taken for one that does not come, until it was not asked for as long.
  static constexpr base::Duration kReturns = std::chrono::seconds(60);
  // Models; jobs of others do not wait. Jobs of one model that are remembered: nobody tells when one has ended
  // elsewhere, so the oldest gives way to a new one. Where there are more at once the model's time is what ends them.
  static constexpr size_t kMost = 1024, kMostJobs = 128;

  // A job, whose name is `job`, was told that there is no such model. True: it may still come.
  bool may_come(std::string_view model, std::string_view job, base::Time now);
  void found(std::string_view model);

 private:
  struct Missed {
    base::Time first, last;
    std::map<uint64_t, base::Time> jobs;  // by hash of the name: when each missed it first
  };
  std::mutex mutex_;
  std::map<uint64_t, Missed> missed_;  // by hash of the name
};

}  // namespace weir::jobs
