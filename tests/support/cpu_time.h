// How work grows with its input, in CPU time of this thread: wall time depends on who else runs on the machine.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <ctime>

namespace weir::support {

inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

// CPU seconds of work(), the least of a few runs.
template <class Work>
double cpu_of(Work&& work, int runs = 5) {
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    double began = cpu_seconds();
    work();
    least = std::min(least, cpu_seconds() - began);
  }
  return least;
}

// How many times as long work(2 * n) takes as work(n): about 2 for linear work, 4 for quadratic. What a noisy machine
// makes worse is measured again. Memory that has been freed stays the process's: to have it from the system anew takes
// longer than most work, and where that begins depends on what was allocated before.
template <class Work>
double growth(size_t n, Work&& work) {
  constexpr int kNever = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  double least = 1e9;
  for (int i = 0; i < 8 && least > 2.5; ++i) {
    double once = cpu_of([&] { work(n); });
    least = std::min(least, cpu_of([&] { work(2 * n); }) / std::max(once, 1e-6));
  }
  return least;
}

}  // namespace weir::support
