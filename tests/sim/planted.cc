// planted: how soon the worlds find bugs that were planted in copies of the sources (plant.py). `planted [--budget N]`
// plants one after the other, runs worlds from seed 1 on until an invariant breaks, and prints which seed found it;
// exits with 1 when one is not found within N seeds, or when something is found where nothing is planted. `planted
// --bug B --seed S` replays.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "planted_bugs.h"
#include "token_world.h"
#include "world.h"

namespace weir::sim {
int planted = 0;
}

namespace {

using namespace weir::sim;  // NOLINT: a program of one file

constexpr time_t kHung = 10;          // CPU seconds after which a world, which takes milliseconds, does not end
constexpr unsigned kBlocked = 200;    // seconds for all worlds of one bug: one of them waits for ever
constexpr uint64_t kControls = 3000;  // seeds with nothing planted

uint64_t seed_now = 0;

// A broken world is not taken down: its Calls are still inside.
[[noreturn]] void found(const char* what) {
  std::printf("  seed %llu: %s\n", static_cast<unsigned long long>(seed_now), what);
  std::fflush(stdout);
  std::_Exit(1);
}

void run(uint64_t seed) {
  seed_now = seed;
  const itimerval limit{{}, {kHung, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  World world(seed);
  if (auto what = world.run(); !what.empty()) found(what.c_str());
  TokenWorld tokens(seed);
  if (auto what = tokens.run(); !what.empty()) found(what.c_str());
}

// In a process of its own, which the bug may end as it likes.
bool is_found(int bug, uint64_t budget) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child < 0) std::perror("fork"), std::exit(2);
  if (child == 0) {
    for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, [](int) { found("the program broke"); });
    for (int signal : {SIGALRM, SIGVTALRM}) std::signal(signal, [](int) { found("it does not end"); });
    alarm(kBlocked);
    planted = bug;
    for (uint64_t seed = 1; seed <= budget; ++seed) run(seed);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int all(uint64_t budget) {
  int missed = 0;
  for (int bug = 1; bug <= int(std::size(kBugs)); ++bug) {
    std::printf("%d. %s\n", bug, kBugs[bug - 1]);
    if (is_found(bug, budget)) continue;
    ++missed;
    std::printf("  NOT FOUND within %llu seeds\n", static_cast<unsigned long long>(budget));
  }
  std::printf("nothing planted\n");
  bool false_alarm = is_found(0, kControls);
  std::printf("%d of %d found%s\n", int(std::size(kBugs)) - missed, int(std::size(kBugs)),
              false_alarm ? "; and one that was not planted" : "");
  return missed > 0 || false_alarm;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t budget = 10'000, seed = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--budget")) budget = value;
    if (!std::strcmp(argv[i], "--bug")) planted = int(value);
    if (!std::strcmp(argv[i], "--seed")) seed = value;
  }
  if (seed == 0) return all(budget);
  run(seed);
  return 0;
}
