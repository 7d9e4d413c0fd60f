// SharedRecords: what a dialect writes once, and finds at every node of a cluster afterwards: stored responses. A
// server has one, or none where it is alone. Any thread; answers come on the shard that is named, later, once.
//
// A record never changes, so that no node owns it. It is its owner's alone: for others it does not exist.
#pragma once

#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"

namespace weir::session {

class SharedRecords {
 public:
  struct Found {
    enum class State : uint8_t {
      kUnknown,  // it was never kept, or its time is over
      kErased,   // it is over, everywhere
      kThere,
    } state = State::kUnknown;
    base::Bytes record;  // charged to whom it concerns, until its last slice goes
  };
  using Done = std::function<void(base::Status)>;
  using Read = std::function<void(base::Result<Found>)>;

  // How long a record is there. Once, before the server starts.
  virtual void keep_records_for(base::Duration life) = 0;
  // Keeps the record for all nodes. `owner`: whose it is, as all nodes name it; `id`: of its owner's. OK also where it
  // could not be kept, which is counted: then it lives and dies with this node.
  virtual void keep_record(const std::string& owner, const std::string& id, std::string record, base::ShardId shard,
                           Done then) = 0;
  // Errors, texts that name the cause: UNAVAILABLE, RESOURCE_EXHAUSTED: worth another try; DATA_LOSS.
  virtual void read_record(const std::string& owner, const std::string& id, base::ShardId shard, Read then) = 0;
  // As erase_record(), for one that has to go for want of room: later where much has to go, and nobody is told.
  virtual void forget_record(const std::string& owner, const std::string& id) = 0;
  // It is over, everywhere. OK also where there was none. UNAVAILABLE: it may still be there.
  virtual void erase_record(const std::string& owner, const std::string& id, base::ShardId shard, Done then) = 0;

 protected:
  ~SharedRecords() = default;
};

}  // namespace weir::session
