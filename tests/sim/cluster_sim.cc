// cluster_sim: runs ClusterWorlds from seeds. `cluster_sim --seed S` replays one and prints what happened and its hash;
// `cluster_sim --seeds N [--from S]` runs N of them. Every 50th seed runs twice and must give the same hash.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cluster_world.h"

namespace {

using weir::sim::ClusterWorld;

[[noreturn]] void fail(const ClusterWorld& world, uint64_t seed, const char* what) {
  for (const auto& event : world.trace()) std::printf("  %s\n", event.c_str());
  std::printf("seed %llu: %s\nreplay: cluster_sim --seed %llu\n", static_cast<unsigned long long>(seed), what,
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::_Exit(1);
}

void run(ClusterWorld& world, uint64_t seed) {
  if (auto what = world.run(); !what.empty()) fail(world, seed, what.c_str());
}

int replay(uint64_t seed) {
  ClusterWorld world(seed);
  run(world, seed);
  for (const auto& event : world.trace()) std::printf("  %s\n", event.c_str());
  std::printf("seed %llu: hash %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(world.hash()));
  return 0;
}

int sweep(uint64_t from, uint64_t seeds) {
  uint64_t answered = 0, taken = 0;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    ClusterWorld world(seed);
    run(world, seed);
    answered += world.answered(), taken += world.taken();
    if (seed % 50) continue;
    ClusterWorld again(seed);
    run(again, seed);
    if (again.hash() != world.hash()) fail(again, seed, "the same seed, another hash");
  }
  std::printf("%llu schedules, %llu turns answered, %llu sessions taken\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(answered), static_cast<unsigned long long>(taken));
  return answered > 0 && taken > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 1000, from = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--seed")) return replay(value);
    if (!std::strcmp(argv[i], "--seeds")) seeds = value;
    if (!std::strcmp(argv[i], "--from")) from = value;
  }
  return sweep(from, seeds);
}
