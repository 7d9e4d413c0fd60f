// RootScan: every model folder of a repository's roots. On the repository's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/folder.h"
#include "models/watch.h"

namespace weir::models {

class RootScan {
 public:
  struct Found {
    std::map<std::string, ModelFolder> folders;  // by name; of two with one name the one in the earlier root
    std::map<std::string, std::string> skipped;  // names that no model can have, and why; fit to be shown
    base::Status trouble;                        // why the first root that was not believed was not
  };

  explicit RootScan(const std::vector<std::string>& roots) {
    for (const auto& root : roots) roots_.push_back({root});
  }

  // Looks at them now. The log is told of each bad name once. With kYes a root is not believed where it cannot be
  // listed, or where another folder is there without a model, and there were some: so is what lies below a volume that
  // is no longer mounted. What it had in the last look that was believed is found again. kNo: somebody says that this
  // is so. Errors: NOT_FOUND when a root cannot be listed that was never seen, or with kNo.
  base::Result<Found> scan(Watch::Settle settle);

 private:
  struct Root {
    std::string path;
    // As the last look that was believed found it.
    bool seen = false;
    std::pair<uint64_t, uint64_t> folder{};  // device and inode
    size_t models = 0;
    Found had{};  // but for what an earlier root has
  };
  static base::Status believe(Root& root, size_t models, Watch::Settle settle);
  base::Status look(Root& root, const Found& earlier, Watch::Settle settle);

  std::vector<Root> roots_;
  std::set<std::string> told_;  // bad names that the log has complained about
};

}  // namespace weir::models
