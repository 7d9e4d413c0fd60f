// Memory and time that sessions of tokens take where no socket is in the way: memory of each, the time of a turn, and
// the longest times that the table keeps a shard's thread for (to open one, and to end those whose time is over).
//
//   table_bench [sessions, 1000000 [tokens of each, 16]]
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/env.h"
#include "session/session_table.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

constexpr session::Tenant kTenant{};
constexpr size_t kFirst = 1000;  // so that what is there once does not count

uint64_t resident() {
  uint64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * uint64_t(::sysconf(_SC_PAGESIZE));
}

// The longest of many times, and their sum.
struct Times {
  double longest_us = 0, all_us = 0;
  template <class Work>
  void take(Work work) {
    const auto start = Clock::now();
    work();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    longest_us = std::max(longest_us, us), all_us += us;
  }
};

// Time stands still but for what sets it, and one timer fires at a time: a turn of a shard.
class SteppedEnv final : public base::Env {
 public:
  base::Time now() const override { return now_; }
  base::WallTime wall() const override { return {}; }
  uint64_t random() override { return random_(); }
  base::TimerId at(base::Time when, std::function<void()> fire) override {
    timers_.emplace(++last_, Timer{when, std::move(fire)});
    return base::TimerId(last_);
  }
  void cancel(base::TimerId id) override { timers_.erase(uint64_t(id)); }

  void advance(base::Duration by) { now_ += by; }
  void fire_one() {
    const auto due =
        std::find_if(timers_.begin(), timers_.end(), [this](const auto& t) { return t.second.when <= now_; });
    if (due != timers_.end()) timers_.extract(due).mapped().fire();
  }

 private:
  struct Timer {
    base::Time when;
    std::function<void()> fire;
  };
  base::Time now_ = base::Time(std::chrono::seconds(1000));
  std::mt19937_64 random_;
  uint64_t last_ = 0;
  std::map<uint64_t, Timer> timers_;
};

struct Run {
  explicit Run(size_t sessions) : count(sessions) { ids.reserve(sessions); }

  session::SessionLimits limits() const {
    session::SessionLimits out;
    out.per_tenant = uint32_t(count);
    out.total_bytes = UINT64_MAX / 2;
    return out;
  }
  void turn(base::SessionId id, uint32_t offset, size_t tokens) {
    auto lease = table.begin(kTenant, id, {offset, session::Append::Rewind::kNo, tokens, 0});
    if (!lease) std::abort();
    table.settle(lease->serial, {session::Outcome::Kind::kAppended, std::vector<uint32_t>(tokens, 7), {}, {}});
  }
  void open(size_t tokens) {
    base::SessionId id;
    opens.take([&] { id = table.open(kTenant, {"chat", "1", text}).value(); });
    turns.take([&] { turn(id, 0, tokens); });
    ids.push_back(id);
  }
  void expire() {
    env.advance(limits().idle);
    while (table.sessions() > 0) ends.take([&] { env.fire_one(); });
  }

  const size_t count;
  SteppedEnv env;
  session::Quota quota{1};
  std::shared_ptr<const msg::TextSpec> text = std::make_shared<msg::TextSpec>();
  std::vector<base::SessionId> ids;
  size_t ended = 0;
  session::SessionTable table{
      env,      base::ShardId(0),
      1,        quota,
      limits(), [this](base::SessionId, const session::SessionModel&, session::SessionTable::EverLent) { ++ended; }};
  Times opens, turns, ends;
};

}  // namespace

int main(int argc, char** argv) {
  const size_t sessions = argc > 1 ? size_t(std::atoll(argv[1])) : 1'000'000,
               tokens = argc > 2 ? size_t(std::atoll(argv[2])) : 16;
  if (sessions <= kFirst) return std::fprintf(stderr, "more than %zu sessions are expected\n", kFirst), 1;
  Run run(sessions);
  for (size_t i = 0; i < kFirst; ++i) run.open(tokens);
  const uint64_t before = resident();
  for (size_t i = kFirst; i < sessions; ++i) run.open(tokens);
  const double bytes = double(resident() - before) / double(sessions - kFirst);
  std::printf("%zu sessions of %zu tokens: %.0f bytes each, %.0f of them its tokens; %.2f GiB\n", sessions, tokens,
              bytes, double(tokens * sizeof(uint32_t)), bytes * double(sessions) / double(1 << 30));
  std::printf("to open one %.2f us, longest %.0f; a turn of one %.2f us, longest %.0f\n",
              run.opens.all_us / double(sessions), run.opens.longest_us, run.turns.all_us / double(sessions),
              run.turns.longest_us);
  run.expire();
  std::printf("to end one %.2f us, the longest turn of the shard for it %.0f us\n", run.ends.all_us / double(run.ended),
              run.ends.longest_us);
}
