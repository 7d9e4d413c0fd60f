// Measures what the Batcher costs per call: add() and next(), without threads.
//
//   batcher_bench [rounds [case, 0 to 4]]
//
// `waiting` calls are in the queue throughout; each round takes a batch and adds as many. For exact numbers count
// instructions: valgrind --tool=callgrind --toggle-collect='weir::sched::Batcher::*' batcher_bench 1000 2
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "sched/batcher.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

void run(const char* what, size_t waiting, uint32_t max_batch, uint64_t tenants, size_t rounds) {
  msg::ModelSpec spec;
  spec.name = "m", spec.max_batch = max_batch, spec.batching.dynamic = true, spec.batching.max_queue = 0;
  spec.inputs = {{"x", msg::DType::kFp32, {16}, false, {}}};
  sched::Batcher batcher(spec);
  auto row = base::Bytes::copy_of(std::string(64, 'x'));
  std::deque<msg::Call> calls(waiting + max_batch);
  for (size_t i = 0; i < calls.size(); ++i) {
    auto& x = calls[i].inputs.emplace_back();
    x.name = "x", x.dtype = msg::DType::kFp32, x.shape = {1, 16}, x.data = row;
    calls[i].tenant = i % tenants;
  }
  std::vector<sched::Dropped> dropped;
  std::vector<msg::Call*> batch;
  base::Time now(std::chrono::hours(1));
  for (auto& call : calls)
    if (!batcher.add(&call, now, dropped).ok()) std::abort();
  size_t done = 0;
  auto start = Clock::now();
  for (size_t i = 0; i < rounds; ++i) {
    batcher.next(now, batch, dropped);
    done += batch.size();
    for (auto* call : batch)
      if (!batcher.add(call, now, dropped).ok()) std::abort();
  }
  double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  std::printf("%-34s %6.1f ns/call\n", what, ns / double(done));
}

}  // namespace

int main(int argc, char** argv) {
  size_t rounds = argc > 1 ? size_t(std::atol(argv[1])) : 1'000'000;
  struct {
    const char* what;
    size_t waiting;
    uint32_t max_batch;
    uint64_t tenants;
  } const cases[] = {{"one tenant, 0 waiting, batch 1", 0, 1, 1},
                     {"one tenant, 0 waiting, batch 32", 0, 32, 1},
                     {"one tenant, 200 waiting, batch 32", 200, 32, 1},
                     {"10 tenants, 200 waiting, batch 32", 200, 32, 10},
                     {"200 tenants, 200 waiting, batch 32", 200, 32, 200}};
  for (size_t i = 0; i < std::size(cases); ++i)
    if (argc < 3 || size_t(std::atol(argv[2])) == i)
      run(cases[i].what, cases[i].waiting, cases[i].max_batch, cases[i].tenants, rounds / cases[i].max_batch);
}
