// token_sim: runs TokenWorlds from seeds, as sim does Worlds: `--seeds N [--from S]`, `--seed S`. Every 50th seed runs
// twice and must give the same hash (I23).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "token_world.h"

namespace {

using weir::sim::TokenWorld;

const TokenWorld* running = nullptr;
unsigned long long running_seed = 0;

// A broken world is not taken down: its Calls are still inside.
[[noreturn]] void fail(const std::string& what) {
  for (const auto& event : running->trace()) std::printf("  %s\n", event.c_str());
  std::printf("seed %llu: %s\nreplay: token_sim --seed %llu\n", running_seed, what.c_str(), running_seed);
  std::fflush(stdout);
  std::_Exit(1);
}

uint64_t run(uint64_t seed, size_t& heard) {
  TokenWorld world(seed);
  running = &world, running_seed = seed;
  if (auto what = world.run(); !what.empty()) fail(what);
  heard += world.heard();
  return world.hash();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, [](int) { fail("a broken invariant, see above"); });
  uint64_t seeds = 1000, from = 1;
  size_t heard = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--seed")) from = value, seeds = 1;
    if (!std::strcmp(argv[i], "--seeds")) seeds = value;
    if (!std::strcmp(argv[i], "--from")) from = value;
  }
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    uint64_t hash = run(seed, heard);
    if (seed % 50 == 0 && run(seed, heard) != hash) fail("I23: the same seed, another hash");
    if (seeds == 1) std::printf("seed %llu: hash %016llx\n", running_seed, static_cast<unsigned long long>(hash));
  }
  std::printf("%llu seeds, %zu outcomes\n", static_cast<unsigned long long>(seeds), heard);
  return 0;
}
