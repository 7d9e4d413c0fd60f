// run_bench(): sends requests by a plan, and measures how long each takes.
//
// A closed loop has so many clients, each of which sends its next request when its last one is answered. An open loop
// sends by a schedule of so many requests per second, whatever the answers do; where all its clients wait, what is due
// waits for the first of them, and that wait counts. One thread (a net::Shard) serves many connections.
#pragma once

#include <vector>

#include "app/tools/bench_report.h"
#include "app/tools/bench_request.h"
#include "base/env.h"
#include "net/client_conn.h"

namespace weir::app {

struct BenchPlan {
  BenchProtocol protocol = BenchProtocol::kOipRest;
  std::vector<BenchRequest> requests;  // in turns; one at least
  net::ClientConn::Options connection;
  uint32_t clients = 1;      // requests in flight at most
  uint32_t connections = 1;  // over which they are spread; HTTP/1.1: one for each client
  double rate = 0;           // requests per second of an open loop; 0: a closed one
  uint64_t most = 0;         // requests; 0: as many as the time allows
  base::Duration warmup{0}, duration = std::chrono::seconds(10), timeout = std::chrono::seconds(30);
  uint32_t threads = 1;
};

// When the n-th request of an open loop is due, in seconds: those of thread `part` of `parts` are every parts-th.
constexpr double due_at(uint64_t n, double rate, uint32_t part, uint32_t parts) {
  return double(n * parts + part) / rate;
}
// The share of `whole` that part `part` of `parts` has: shares differ by one at most.
constexpr uint64_t share_of_part(uint64_t whole, uint32_t part, uint32_t parts) {
  return whole / parts + (part < whole % parts ? 1 : 0);
}

// Blocks until it is done. A first Ctrl-C ends it early, with what there is; a second one the program.
BenchRun run_bench(const BenchPlan& plan);

}  // namespace weir::app
