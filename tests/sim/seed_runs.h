// The program of a kind of worlds: `PROGRAM --seed S` replays one and prints what happened and its hash;
// `PROGRAM --seeds N [--from S]` runs N of them. Every 50th seed runs twice and must give the same hash.
//
// A World is made of a seed; run() is empty or the invariant that broke; trace() are its last events; answered() and
// taken() say that something happened in it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weir::sim {

template <class World>
class SeedRuns {
 public:
  explicit SeedRuns(const char* program) : program_(program) {}

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

 private:
  using Number = unsigned long long;

  [[noreturn]] void fail(const World& world, uint64_t seed, const char* what) {
    for (const auto& event : world.trace()) std::printf("  %s\n", event.c_str());
    std::printf("seed %llu: %s\nreplay: %s --seed %llu\n", Number(seed), what, program_, Number(seed));
    std::fflush(stdout);
    std::_Exit(1);
  }
  void run(World& world, uint64_t seed) {
    if (auto what = world.run(); !what.empty()) fail(world, seed, what.c_str());
  }
  int replay(uint64_t seed) {
    World world(seed);
    run(world, seed);
    for (const auto& event : world.trace()) std::printf("  %s\n", event.c_str());
    std::printf("seed %llu: hash %016llx\n", Number(seed), Number(world.hash()));
    return 0;
  }
  int sweep(uint64_t from, uint64_t seeds) {
    uint64_t answered = 0, taken = 0;
    for (uint64_t seed = from; seed < from + seeds; ++seed) {
      World world(seed);
      run(world, seed);
      answered += world.answered(), taken += world.taken();
      if (seed % 50) continue;
      World again(seed);
      run(again, seed);
      if (again.hash() != world.hash()) fail(again, seed, "the same seed, another hash");
    }
    std::printf("%llu schedules, %llu turns answered, %llu sessions taken\n", Number(seeds), Number(answered),
                Number(taken));
    return answered > 0 && taken > 0 ? 0 : 1;
  }

  const char* const program_;
};

}  // namespace weir::sim
