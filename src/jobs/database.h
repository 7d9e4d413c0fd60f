// Database: a Storage in one SQLite file. A file that is not this server's, of another version, or in use by another
// process is refused when it is opened, and left as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "jobs/journal.h"
#include "jobs/replica_state.h"

namespace weir::jobs {

class Database {
 public:
  virtual ~Database() = default;
  virtual Storage& storage() = 0;
  virtual ReplicaState& replica() = 0;
  // Bytes of the file that hold records.
  virtual base::Result<uint64_t> used() = 0;
};

enum class Whose : uint8_t {
  // jobs.db: jobs that a process before this one had claimed wait again, and contents of files that were never added
  // are gone.
  kThisNode,
  // cluster.db, a copy of what all nodes of a cluster have: only entries of their log change it (replica.h).
  kAllNodes,
};
// Opens a file in `folder`, which is made where it is missing; it grows to `most_bytes` (a copy has no such bound: what
// all others have applied must find room in it, and Replica bounds what work adds). Errors: FAILED_PRECONDITION says
// what is wrong with the folder or the file; UNIMPLEMENTED, this program was built without SQLite.
base::Result<std::unique_ptr<Database>> open_database(const std::string& folder, uint64_t most_bytes,
                                                      Whose whose = Whose::kThisNode);

}  // namespace weir::jobs
