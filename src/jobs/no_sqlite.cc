// A build without SQLite: everything else is served.
#include "jobs/database.h"

namespace weir::jobs {

base::Result<std::unique_ptr<Database>> open_database(const std::string&, uint64_t, Whose) {
  return base::failure(base::Code::kUnimplemented, "this weir was built without SQLite, which keeps files and batches");
}

}  // namespace weir::jobs
