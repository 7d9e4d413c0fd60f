// cluster_planted: how soon ClusterWorlds find bugs that were planted in copies of the sources (plant_cluster.py).
// `cluster_planted [--budget N]` plants one after the other and runs worlds from seed 1 on; exits with 1 when one is
// not found within N seeds, or when something is found where nothing is planted.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "cluster_bugs.h"
#include "cluster_world.h"

namespace weir::sim {
int planted = 0;
}

int main(int argc, char** argv) {
  using namespace weir::sim;  // NOLINT: a program of one file
  uint64_t budget = 30000;
  if (argc == 3 && !std::strcmp(argv[1], "--budget")) budget = std::strtoull(argv[2], nullptr, 10);
  int wrong = 0;
  for (int bug = 0; bug <= int(std::size(kBugs)); ++bug) {
    planted = bug;
    const uint64_t most = bug ? budget : 500;
    std::string what;
    uint64_t seed = 1;
    for (; seed <= most && what.empty(); ++seed) what = ClusterWorld(seed).run();
    wrong += what.empty() == (bug > 0);
    std::printf("%s: %s%s\n", bug ? kBugs[bug - 1] : "nothing planted",
                what.empty() ? "nothing found" : ("seed " + std::to_string(seed - 1) + ": ").c_str(), what.c_str());
    std::fflush(stdout);
  }
  return wrong ? 1 : 0;
}
