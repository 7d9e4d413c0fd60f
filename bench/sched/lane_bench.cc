// Measures what the way through bus, lane and mailbox costs per call, without a network and with an engine that does
// nothing.
//
//   lane_bench [seconds per case]
//
// One shard (this thread) keeps a number of calls in flight; the lane has a thread of its own. CPU is that of the whole
// process. "in flight 1" is the round trip of a lone call: two hops.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bus/bus.h"
#include "device/pool.h"
#include "sched/lane.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

// Gives its input back.
class Mirror final : public sched::Engine {
 public:
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override {
    batch.outputs.resize(1);
    auto& y = batch.outputs[0];
    const auto& x = batch.inputs[0];
    y.name = "y", y.dtype = x.dtype, y.shape = x.shape, y.data = x.data;
    return {};
  }
  bool is_inline() const override { return true; }

 private:
  msg::ModelSpec spec_;
};

// The smallest loop: it sleeps until it is woken.
class Loop final : public base::Env {
 public:
  base::Time now() const override { return now_; }
  base::WallTime wall() const override { return {}; }
  uint64_t random() override { return 4; }
  base::TimerId at(base::Time, std::function<void()>) override { return base::TimerId(1); }
  void cancel(base::TimerId) override {}

  void wake() { woken_.store(1), woken_.notify_one(); }
  void sleep() { woken_.wait(0), woken_.store(0), now_ = Clock::now(); }

 private:
  base::Time now_ = Clock::now();
  std::atomic<int> woken_{0};
};

struct Client final : msg::Sink {
  void on(msg::Call&, msg::Event&& event) override { ok += event.last(), ++room; }
  uint64_t ok = 0;
  uint32_t room = 0;
};

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto of = [](timeval t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::shared_ptr<bus::Served> make_model(bool lane, base::SlabSource& slabs) {
  auto served = std::make_shared<bus::Served>();
  auto& spec = served->spec;
  spec.name = "mirror", spec.max_batch = 64, spec.batching.dynamic = lane, spec.batching.max_queue = 0;
  spec.inputs = {{"x", msg::DType::kFp32, {16}, false, {}}};
  spec.outputs = {{"y", msg::DType::kFp32, {16}, false, {}}};
  std::vector<std::unique_ptr<sched::Engine>> engines;
  engines.push_back(std::make_unique<Mirror>());
  if (lane)
    served->inbox = sched::make_lanes(std::move(engines), spec, served->stats, slabs);
  else
    served->inbox = sched::make_inline(std::move(engines[0]), spec, served->stats);
  return served;
}

enum class Where : bool { kInline, kLane };

void run(const char* what, Where where, uint32_t in_flight, double seconds) {
  device::SlabPool slabs(uint64_t(256) << 20);
  auto served = make_model(where == Where::kLane, slabs);
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->models["mirror"] = {{{"1", served}}, served.get()};
  Loop loop;
  bus::Bus bus(loop, base::ShardId(0), [&] { loop.wake(); }, {100'000});
  bus.publish(catalog);
  Client client;
  client.room = in_flight;
  auto row = base::Bytes::copy_of(std::string(64, 'x'));
  auto send = [&] {
    auto* call = bus.make_call();
    call->model = "mirror", call->sink = &client;
    auto& x = call->inputs.emplace_back();
    x.name = "x", x.dtype = msg::DType::kFp32, x.shape = {1, 16}, x.data = row;
    if (!bus.submit(call, *served).ok()) std::abort();
  };
  double cpu = cpu_seconds();
  auto start = Clock::now();
  auto end = start + std::chrono::duration<double>(seconds);
  uint64_t turns = 0;
  while (Clock::now() < end || bus.in_flight() > 0) {
    bool open = Clock::now() < end;
    for (; open && client.room > 0; --client.room) send();
    if (where == Where::kLane) loop.sleep();
    bus.turn();
    ++turns;
  }
  double wall = std::chrono::duration<double>(Clock::now() - start).count();
  cpu = cpu_seconds() - cpu;
  double n = double(client.ok);
  std::printf("%-22s %9.0f calls/s  %7.3f us/call  %7.3f CPU us/call  %5.1f calls/batch  %5.1f calls/turn\n", what,
              n / wall, wall / n * 1e6, cpu / n * 1e6, n / double(served->stats.execution_count.load()),
              n / double(turns));
}

void pool(size_t bytes) {
  device::SlabPool slabs(uint64_t(1) << 30);
  constexpr int kTimes = 1'000'000;
  auto start = Clock::now();
  for (int i = 0; i < kTimes; ++i) base::drop(slabs.take(bytes));
  double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kTimes;
  std::printf("slab of %7zu bytes    %5.1f ns per take and drop\n", bytes, ns);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  for (size_t bytes : {size_t(64), size_t(16) << 10, size_t(4) << 20}) pool(bytes);
  run("inline, in flight 1", Where::kInline, 1, seconds);
  run("inline, in flight 64", Where::kInline, 64, seconds);
  for (uint32_t n : {1u, 8u, 64u, 256u})
    run(("lane, in flight " + std::to_string(n)).c_str(), Where::kLane, n, seconds);
}
