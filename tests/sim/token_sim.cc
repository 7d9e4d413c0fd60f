// token_sim: runs TokenWorlds from seeds, as sim does Worlds: `--seeds N [--from S]`, `--requests N`, `--seed S`. Every
// 50th seed runs twice and must give the same hash (I23).
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

size_t sent = 0, heard = 0;

uint64_t run(uint64_t seed) {
  TokenWorld world(seed);
  running = &world, running_seed = seed;
  if (auto what = world.run(); !what.empty()) fail(what);
  sent += world.sent(), heard += world.heard();
  return world.hash();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, [](int) { fail("a broken invariant, see above"); });
  uint64_t seeds = 1000, from = 1, requests = UINT64_MAX;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--seed")) from = value, seeds = 1;
    if (!std::strcmp(argv[i], "--seeds")) seeds = value;
    if (!std::strcmp(argv[i], "--from")) from = value;
    if (!std::strcmp(argv[i], "--requests")) requests = value, seeds = UINT64_MAX / 2;
  }
  uint64_t seed = from;
  for (; seed < from + seeds && sent < requests; ++seed) {
    uint64_t hash = run(seed);
    if (seed % 50 == 0 && run(seed) != hash) fail("I23: the same seed, another hash");
    if (seeds == 1) std::printf("seed %llu: hash %016llx\n", running_seed, static_cast<unsigned long long>(hash));
  }
  std::printf("%zu seeds, %zu requests, %zu outcomes\n", size_t(seed - from), sent, heard);
  return 0;
}
