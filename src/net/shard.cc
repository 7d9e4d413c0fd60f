#include "net/shard.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"
#include "net/shard_parts.h"
#include "net/thread_place.h"

namespace weir::net {
namespace {

// Runs what the loop has beside sockets that are being read: new connections, the alarm, posted work, news of sockets.
size_t poll_some(asio::io_context& io) {
  constexpr size_t kMost = 4;
  size_t handlers = 0;
  while (handlers < kMost && io.poll_one() != 0) ++handlers;
  return handlers;
}

}  // namespace

uint64_t Random::next() {
  if (used_ == pool_.size()) {
    auto* at = reinterpret_cast<char*>(pool_.data());
    for (size_t left = sizeof pool_; left != 0;) {
      ssize_t n = getrandom(at + (sizeof pool_ - left), left, 0);
      if (n < 0 && errno != EINTR) {
        base::log::error("the kernel gives no random bytes", {{"error", errno}});
        base::log::flush(std::chrono::seconds(1));
        std::abort();
      }
      if (n > 0) left -= size_t(n);
    }
    used_ = 0;
  }
  // Given out once: nobody who reads this memory later learns an id.
  return std::exchange(pool_[used_++], 0);
}

Shard::Parts::Parts(base::ShardId shard, Pin pin_it) : id(shard), pin(pin_it) {}

Shard::Parts::~Parts() = default;

base::Time Shard::Parts::now() const {
  if (!clock_fresh) {
    turn_began = worked_since = std::chrono::steady_clock::now(), clock_fresh = true;
    watch.begin(turn_began);
  }
  return turn_began;
}

base::WallTime Shard::Parts::wall() const { return std::chrono::system_clock::now(); }

void Shard::Parts::post(std::function<void()> work) {
  std::lock_guard lock(posted_mutex);
  put_posted(std::move(work));
}

// One wake for all that arrives until the shard looks. Work without a wake would keep all later work from its own.
void Shard::Parts::put_posted(std::function<void()> work) {
  posted.push_back(std::move(work));
  if (posted.size() > 1) return;
  has_posted.store(true, std::memory_order_relaxed);
  try {
    asio::post(io, [this] { run_posted(); });
    sleep.call();  // behind it: the shard may have looked before, and gone to sleep
  } catch (...) {
    posted.pop_back();
    throw;
  }
}

void Shard::Parts::run_and_wait(const std::function<void()>& work) {
  std::promise<void> over;
  {
    std::unique_lock lock(posted_mutex);
    if (!running) {
      lock.unlock();
      work();
      turn_without_thread();
      return;
    }
    put_posted([&] {
      at_turn_over.push_back([&over] { over.set_value(); });
      work();
    });
  }
  over.get_future().wait();
}

// Lets the operations of closed sockets come back, so that their connections can be freed.
void Shard::Parts::turn_without_thread() {
  for (int turn = 0; turn < 2; ++turn) {
    end_turn();
    retired.release_all();
    io.restart();
    io.poll();
  }
}

void Shard::Parts::run_posted() {
  now();
  {
    std::lock_guard lock(posted_mutex);
    running_posted.swap(posted);
    has_posted.store(false, std::memory_order_relaxed);
  }
  auto before = watch.enter(TurnWatch::Phase::kPosted);
  size_t done = 0;
  for (bool more = true; more && done < running_posted.size(); more = !turn_is_long())
    if (auto& work = running_posted[done++]) (void)base::attempt("posted work", work);
  running_posted.erase(running_posted.begin(), running_posted.begin() + ptrdiff_t(done));
  if (!running_posted.empty()) put_back_posted();
  watch.enter(before);
}

// Puts work that was not run in front of what was posted since.
void Shard::Parts::put_back_posted() {
  std::lock_guard lock(posted_mutex);
  if (posted.empty()) asio::post(io, [this] { run_posted(); });
  has_posted.store(true, std::memory_order_relaxed);
  posted.insert(posted.begin(), std::move_iterator(running_posted.begin()), std::move_iterator(running_posted.end()));
  running_posted.clear();
}

void Shard::Parts::run() {
  pthread_setname_np(pthread_self(), ("weir-shard-" + std::to_string(unsigned(id))).c_str());
  watch.arrive();
  if (pin == Pin::kYes) pin_to_core(unsigned(id));
  ask_for_short_slices();
  while (!stopping.load(std::memory_order_acquire)) one_turn();
  while (!finish()) {
  }
  retired.release_all();
  sleep.leave();
  watch.leave();
}

// Work that was posted before the end is run; nothing is accepted from then on.
bool Shard::Parts::finish() {
  {
    std::lock_guard lock(posted_mutex);
    if (posted.empty()) {
      running = false;
      return true;
    }
  }
  run_posted();
  end_turn();
  return false;
}

void Shard::Parts::one_turn() {
  clock_fresh = false;
  turn_bytes = 0;
  part = kReading;
  dirty.insert(dirty.end(), postponed.begin(), postponed.end());
  postponed.clear();
  const bool alarm_is_set = timers.next() >= alarm_at;
  const bool sleeps = !has_output() && !retired.has_line() && !sockets.waiting() && alarm_is_set;
  // While sockets have work the loop is asked for the rest that it has once in a while, for that costs a system call or
  // two; for what is posted at once.
  const bool seldom = turn_began - loop_asked < kLoopAsked && !has_posted.load(std::memory_order_relaxed);
  (void)base::attempt("the loop", [&] {
    if (sleeps && seldom && sockets.look()) return read_sockets(0);
    sockets.arm();  // also where there is work: others' comes beside it
    read_sockets(sleeps ? run_first() : poll_some(io));
    loop_asked = turn_began;
  });
  end_turn();
}

void Shard::Parts::read_sockets(size_t handlers) {
  sleep.end();
  now();
  // Whoever was woken for sockets serves those that are ready, and asks the kernel for more in the next turn.
  const bool woken = sockets.waiting();
  while (handlers < kHandlersPerTurn && turn_bytes < kBytesPerTurn) {
    if (!sockets.next() && (woken || io.poll_one() == 0)) break;
    const bool over = work_done();
    if (++handlers > kAlways && over) break;
  }
}

bool Shard::Parts::work_done() {
  const base::Time now_is = std::chrono::steady_clock::now();
  load.add(std::exchange(worked_for, nullptr), watch.cpu_of(now_is - worked_since), now_is);
  worked_since = now_is;
  return now_is - turn_began > part;
}

size_t Shard::Parts::run_first() {
  if (spin > base::Duration(0)) {
    watch.worked_between();
    const auto until = std::chrono::steady_clock::now() + spin;
    do {
      if (size_t n = io.poll_one()) return n;
    } while (std::chrono::steady_clock::now() < until && !stopping.load(std::memory_order_relaxed));
  }
  sleep.begin(alarm_at);
  return io.run_one();
}

void Shard::Parts::end_turn() {
  if (timers.next() != base::kNever && timers.next() <= now()) {
    part = kTiming;
    watch.enter(TurnWatch::Phase::kTimer);
    timers.fire_due(now(), [this] { return work_done(); });
  }
  (void)base::attempt("the end of a turn", [this] {
    flush_rounds();
    release_retired();
    arm_alarm();
  });
  if (clock_fresh) note_turn();
  clock_fresh = false;
  for (auto& over : std::exchange(at_turn_over, {})) over();
}

// Writing makes room, room makes output and finished requests make way for others: so the hooks have another look after
// each round of writing, until there is nothing more to write.
void Shard::Parts::flush_rounds() {
  for (int round = 0;; ++round) {
    part = kLongTurn;
    watch.enter(TurnWatch::Phase::kHook);
    for (size_t i = 0; i < hooks.size(); ++i) (void)base::attempt("a turn hook", hooks[i]);
    if (!has_output()) return;
    if (round == kRoundsPerTurn || (round > 0 && turn_is_long())) break;
    watch.enter(TurnWatch::Phase::kWrite);
    flush_some();
  }
  postponed.insert(postponed.end(), dirty.begin(), dirty.end());
  dirty.clear();
}

// A connection that is not flushed now keeps its place in its line.
void Shard::Parts::flush_some() {
  for (Resident* one : dirty) flushing.push(*one, one->load_class());
  dirty.clear();
  worked_since = std::chrono::steady_clock::now();
  do (void)base::attempt("output", [one = flushing.pop()] { one->flush(); });
  while (!work_done() && !flushing.empty());
}

// At the end of a run_and_wait() somebody may take away what they refer to.
void Shard::Parts::release_retired() {
  if (clock_fresh && at_turn_over.empty())
    retired.release_some(kReleasing);
  else
    retired.release_all();
}

// The alarm is never moved to a later time: firing once for nothing costs less than telling the kernel of every change.
void Shard::Parts::arm_alarm() {
  if (timers.next() >= alarm_at) return;
  alarm_at = base::kNever;  // where asio throws
  alarm.expires_at(timers.next());
  alarm.async_wait([this](const boost::system::error_code& error) {
    if (!error) alarm_at = base::kNever;
  });
  alarm_at = timers.next();
}

// CPU time is what the shard's other connections waited for; one that did not have it waited for the machine.
void Shard::Parts::note_turn() {
  auto end = std::chrono::steady_clock::now();
  auto turn = watch.end(end);
  if (!turn.slow || end - slow_logged < std::chrono::seconds(1)) return;
  slow_logged = end;
  auto ms = [](base::Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  base::log::warning("a turn of the loop took too long", {{"shard", unsigned(id)},
                                                          {"ms", ms(turn.lasted)},
                                                          {"cpu_ms", ms(turn.cpu)},
                                                          {"cause", TurnWatch::name(turn.cause)}});
}

Shard::Shard(base::ShardId id, Pin pin) : parts_(std::make_unique<Parts>(id, pin)) {}

Shard::~Shard() {
  stop();
  join();
}

base::ShardId Shard::id() const { return parts_->id; }
bool Shard::turn_is_long() const { return parts_->turn_is_long(); }
base::Env& Shard::env() { return *parts_; }
void Shard::post(std::function<void()> work) { parts_->post(std::move(work)); }
void Shard::at_turn_end(std::function<void()> hook) { parts_->hooks.push_back(std::move(hook)); }
Shard::Parts& Shard::parts() { return *parts_; }

void Shard::spin(base::Duration time) { parts_->spin = time; }
void Shard::charge(base::MemoryLedger& memory) { parts_->memory = &memory; }

void Shard::start() {
  {
    std::lock_guard lock(parts_->posted_mutex);
    parts_->running = true;
  }
  parts_->thread = std::thread([parts = parts_.get()] { parts->run(); });
}

void Shard::stop() {
  parts_->stopping.store(true, std::memory_order_release);
  asio::post(parts_->io, [] {});
}

void Shard::join() {
  if (parts_->thread.joinable()) parts_->thread.join();
}

}  // namespace weir::net
