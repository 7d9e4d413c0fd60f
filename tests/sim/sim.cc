// sim: runs worlds from seeds. `sim --seed S` replays one and prints its options and hash; `sim --seeds N [--from S]`
// runs N of them, `sim --requests N` as many as have N requests. Every 50th seed runs twice and must give the same hash
// (I23). A broken invariant ends the run with the seed and the last events.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "world.h"

namespace {

using weir::sim::World;

const World* running = nullptr;
uint64_t running_seed = 0;

// A broken world is not taken down: its Calls are still inside.
[[noreturn]] void fail(const std::string& what) {
  for (const auto& event : running->trace()) std::printf("  %s\n", event.c_str());
  std::printf("seed %llu: %s\n%s\nreplay: sim --seed %llu\n", static_cast<unsigned long long>(running_seed),
              what.c_str(), running->options().text().c_str(), static_cast<unsigned long long>(running_seed));
  std::fflush(stdout);
  std::_Exit(1);
}

void run(World& world, uint64_t seed) {
  running = &world, running_seed = seed;
  if (auto what = world.run(); !what.empty()) fail(what);
}

int replay(uint64_t seed) {
  World world(seed);
  std::printf("%s\n", world.options().text().c_str());
  run(world, seed);
  std::printf("seed %llu: hash %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(world.hash()));
  return 0;
}

int sweep(uint64_t from, uint64_t seeds, uint64_t requests) {
  size_t sent = 0, heard = 0, seed = from;
  for (; seed < from + seeds && sent < requests; ++seed) {
    World world(seed);
    run(world, seed);
    sent += world.sent(), heard += world.heard();
    if (seed % 50) continue;
    World again(seed);
    run(again, seed);
    if (again.hash() != world.hash()) fail("I23: the same seed, another hash");
  }
  std::printf("%zu seeds, %zu requests, %zu outcomes\n", size_t(seed - from), sent, heard);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, [](int) { fail("a broken invariant, see above"); });
  uint64_t seeds = 1000, from = 1, requests = UINT64_MAX;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--seed")) return replay(value);
    if (!std::strcmp(argv[i], "--seeds")) seeds = value;
    if (!std::strcmp(argv[i], "--from")) from = value;
    if (!std::strcmp(argv[i], "--requests")) requests = value, seeds = UINT64_MAX / 2;
  }
  return sweep(from, seeds, requests);
}
