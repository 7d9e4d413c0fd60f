// RootScan: every model folder of a repository's roots. On the repository's thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/folder.h"

namespace weir::models {

class RootScan {
 public:
  struct Found {
    std::map<std::string, ModelFolder> folders;  // by name; of two with one name the one in the earlier root
    std::map<std::string, std::string> skipped;  // names that no model can have, and why; fit to be shown
  };

  explicit RootScan(std::vector<std::string> roots) : roots_(std::move(roots)) {}

  // Looks at them now. The log is told of each bad name once. Errors: NOT_FOUND when a root cannot be listed.
  base::Result<Found> scan();

 private:
  const std::vector<std::string> roots_;
  std::set<std::string> told_;  // bad names that the log has complained about
};

}  // namespace weir::models
