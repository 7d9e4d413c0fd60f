// The program that says how soon worlds find bugs that were planted in copies of the sources: `PROGRAM [--budget N]
// [--bugs FIRST LAST] [--from SEED]` plants one after the other and runs worlds from that seed on; exits with 1 when
// one is not found within N seeds, or when something is found where nothing is planted (bug 0). A bug that shows itself
// in one world of ten thousand is looked for from shortly before such a world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

namespace weir::sim {

extern int planted;

template <class World>
int run_planted(std::span<const char* const> bugs, uint64_t sound, int argc, char** argv) {
  uint64_t budget = 30000, first_seed = 1;
  int from = 0, to = int(bugs.size()), wrong = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (!std::strcmp(argv[i], "--budget")) budget = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--from")) first_seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--bugs") && i + 2 < argc)
      from = std::atoi(argv[i + 1]), to = std::min(to, std::atoi(argv[i + 2]));
  }
  for (int bug = from; bug <= to; ++bug) {
    planted = bug;
    const uint64_t most = bug ? budget : sound;
    std::string what;
    uint64_t seed = first_seed;
    for (; seed < first_seed + most && what.empty(); ++seed) what = World(seed).run();
    wrong += what.empty() == (bug > 0);
    std::printf("%s: %s%s\n", bug ? bugs[size_t(bug - 1)] : "nothing planted",
                what.empty() ? "nothing found" : ("seed " + std::to_string(seed - 1) + ": ").c_str(), what.c_str());
    std::fflush(stdout);
  }
  return wrong ? 1 : 0;
}

}  // namespace weir::sim
