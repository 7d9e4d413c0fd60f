// BenchRun: what `weir bench` measured, and how it says it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weir::app {

// One request. Times are in seconds since the first request was due.
struct BenchSample {
  double due = 0;      // when it was to be sent: of an open loop by its schedule, of a closed one when its turn came
  double started = 0;  // when it was sent
  double first = 0;    // the first token, or the first byte of the answer
  double ended = 0;
  uint32_t tokens = 0;  // of answers that stream tokens
  uint32_t error = 0;   // 0: it was answered as it should be; else its number in BenchRun::errors, from 1
};

struct BenchRun {
  enum class Loop : uint8_t { kClosed, kOpen };
  // The number of an error's text; kMostErrors and beyond are "others".
  static constexpr size_t kMostErrors = 100;
  uint32_t number_of(const std::string& error);
  // Adds what another thread has measured.
  void merge(BenchRun&& other);

  std::vector<BenchSample> samples;
  std::vector<float> token_gaps;  // seconds between two tokens of an answer
  std::vector<std::string> errors;
  double seconds = 0;  // of measuring
  double busy = 0;     // the part of that time for which bench's busiest thread had its core
  Loop loop = Loop::kClosed;
};

// The value below which the part `p` (0 … 1) of `sorted` lies: the nearest rank. 0 where there is none.
double percentile(const std::vector<double>& sorted, double p);

// A table for a person: throughput, errors by their text, percentiles of latency, and of tokens where there were some.
// Latency counts from when a request was due: a server that stalls is charged for all that an open loop's schedule had
// for it meanwhile (else they would be omitted, in coordination with the server).
std::string bench_table(const BenchRun& run);
// The same for programs; times in seconds.
std::string bench_json(const BenchRun& run);
// A line per request in the order of their ends: due,started,first,ended,tokens,error.
std::string bench_csv(const BenchRun& run);

}  // namespace weir::app
