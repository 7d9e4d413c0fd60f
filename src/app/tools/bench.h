// `weir bench`: a model under load, and how long its answers take.
#pragma once

#include <string>
#include <vector>

#include "app/remote.h"
#include "app/tools/bench_request.h"

namespace weir::app {

struct BenchOptions {
  BenchProtocol protocol = BenchProtocol::kOipRest;
  std::string model;
  std::vector<std::string> inputs;  // as bench_tensors() takes them
  TensorForm form = TensorForm::kBinary;
  uint64_t seed = 1;
  std::string prompt = "Tell me about the sea.";  // or @FILE: a prompt per line, in turns
  uint32_t max_tokens = 64;

  uint32_t clients = 0;      // requests in flight at most; 0: 8, of an open loop 256
  uint32_t connections = 0;  // of HTTP/2; 0: one per 100 clients
  double rate = 0;           // requests per second of an open loop; 0: a closed one
  uint64_t requests = 0;     // 0: as many as the time allows
  uint32_t threads = 1;
  base::Duration duration = std::chrono::seconds(10), warmup = std::chrono::seconds(1);
  std::string csv;  // a file for every request's times; empty: none
};

// Exits with 1 when a first request on its own fails, or when no request was answered; what else fails is counted.
Exit bench(const Remote& remote, const BenchOptions& options);

}  // namespace weir::app
