// Residence: the versions of a ModelTable that are in memory, and those that are not. Each has a stand-in, which looks
// the same and whose Calls wait while it is not in memory. While it is, clients' Calls go to the version itself, and
// those of pipelines through the stand-in, so that a pipeline stays as it is whatever its nodes do. Under the
// repository's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/model_table.h"

namespace weir::models {

class Residence {
 public:
  // Makes what a version serves with while it is not in memory; its Inbox is a sched::DemandInbox.
  using StandIn = std::function<std::shared_ptr<bus::Served>(const bus::Served& loaded)>;

  // `memory`: the most bytes that one version can take; 0 = any number. The table is borrowed, and goes by this.
  Residence(ModelTable& table, StandIn stand_in, uint64_t memory)
      : table_(table), stand_in_(std::move(stand_in)), memory_(memory) {
    table_.residence_ = this;
  }

  // A model that is in memory, and need not stay there.
  struct Resident {
    std::string model;
    uint64_t bytes = 0;
    bool busy = false;          // a Call is inside
    uint64_t last_used_ms = 0;  // Unix time
  };
  std::vector<Resident> residents() const;
  // Bytes of all versions in memory, without those on their way out of it.
  uint64_t bytes() const;
  // Bytes of those, by model.
  const std::map<std::string, uint64_t>& leaving_bytes() const { return table_.leaving_; }

  // Whether a version of the model is not in memory, and the bytes of those that are not.
  bool is_missing(const std::string& model) const;
  uint64_t missing_bytes(const std::string& model) const;
  // For the index, of what is missing. `why`: what became of its last load, or nothing.
  void mark_missing(const std::string& model, bus::ModelState state, const std::string& why);
  // Calls that wait for what is missing fail, until `retry_at`.
  void fail_waiting(const std::string& model, const base::Status& why, base::Time retry_at);
  // The same of Calls of models alone; and whether those of clients wait.
  void refuse_models(const std::string& model, const base::Status& why, base::Time retry_at);
  bool clients_wait(const std::string& model) const;
  // Its versions leave the memory. A Call brings them back.
  void let_go(const std::string& model);
  // Stand-ins let go of what has left memory once no Call of theirs is inside.
  void settle();
  // Those of the model have, so that it can be loaded again.
  bool is_settled(const std::string& model) const;

 private:
  friend class ModelTable;
  // Whether a version that has been made, and takes so many bytes, may be loaded into the slot: waits until no Call is
  // inside what has left the slot, and gives the lock away meanwhile. Errors: FAILED_PRECONDITION where it is too
  // large; UNAVAILABLE, worth another try, where Calls do not end in time, or the Repository ends.
  base::Status may_arrive(const ModelTable::Slot& slot, uint64_t bytes, const Loader& loader) const;
  static bool may_leave(const ModelTable::Slot& slot);
  // A version has been loaded into `now`, where `before` was; it has the stand-in of `before` unless its files are
  // others.
  void arrived(const ModelTable::Slot& before, ModelTable::Slot& now) const;
  // It is not to stay in memory.
  void reserve(ModelTable::Slot& slot) const;
  // It is going: Calls that wait for it fail.
  static void give_up(const ModelTable::Slot& slot);
  static sched::DemandInbox& inbox(const ModelTable::Slot& slot);

  ModelTable& table_;
  const StandIn stand_in_;
  const uint64_t memory_;
};

}  // namespace weir::models
