// Runtime: forwarded models of a server: what they need of its shards, and their Inboxes.
//
// The Inbox hands each Call on from the shard that it is put on, over that shard's own connections: no thread hop. A
// Call that is put on another thread (behind a lane's answer, in a pipeline) goes by way of some shard.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/directory.h"
#include "engines/forward/options.h"
#include "msg/spec.h"
#include "net/shard.h"
#include "sched/remote_model.h"

namespace weir::forward {

class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;

  // Before load(); the shard outlives close().
  void attach(net::Shard& shard);

  // Learns the model's signature from its origins, which blocks for as long as they take to connect and to answer. The
  // shards run. `slabs` are for answers. `broken`: called once, from a shard, when the model is not ready at any origin
  // any more. `folder`: the version's own, or empty. `local`: the model has instances here, whose signature this is:
  // the origins are asked later, nothing waits for them, and `broken` is not called. Errors: INVALID_ARGUMENT,
  // UNIMPLEMENTED (options); FAILED_PRECONDITION (files, no shard); UNAVAILABLE, worth another try, while no origin has
  // the model ready. Any thread but a shard's.
  base::Result<sched::RemoteModel> load(const msg::ModelSpec& wanted, const std::string& folder,
                                        base::SlabSource& slabs, std::function<void(base::Status)> broken,
                                        const msg::ModelSpec* local = nullptr);

  // For models whose `origins` are cluster: who has them. Any thread but a shard's.
  Directory& directory() { return *directory_; }

  // The connections go. The shards have ended, and no Call is inside; Inboxes may still be destroyed afterwards.
  void close();

  class Inbox;     // runtime.cc's own
  struct OnShard;  // the same: what one shard has of all models

 private:
  base::Result<msg::ModelSpec> discover(std::shared_ptr<Target> target, msg::ModelSpec wanted);

  // Shared with the Inboxes, which may be the last to go.
  struct Shards;
  const std::shared_ptr<Shards> shards_;
  const std::shared_ptr<Directory> directory_ = std::make_shared<Directory>();
};

}  // namespace weir::forward
