// How work grows with its input, in CPU time of this thread: wall time depends on who else runs on the machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

namespace tokenizers {

// CPU seconds of work(), the least of a few runs.
template <class Work>
double cpu_of(Work&& work, int runs = 5) {
  auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
  };
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    double began = now();
    work();
    least = std::min(least, now() - began);
  }
  return least;
}

// How many times as long work(2 * n) takes as work(n): about 2 for linear work, 4 for quadratic. A ratio that a noisy
// machine makes worse is measured again.
template <class Work>
double growth(size_t n, Work&& work) {
  double least = 1e9;
  for (int i = 0; i < 8 && least > 2.5; ++i) {
    double once = cpu_of([&] { work(n); });
    least = std::min(least, cpu_of([&] { work(2 * n); }) / std::max(once, 1e-6));
  }
  return least;
}

inline std::string repeated(std::string_view part, size_t times) {
  std::string out;
  out.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace tokenizers
