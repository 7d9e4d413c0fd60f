// The inside of a Shard, for net's own files: the io_context, the turn of the loop, and what its connections share.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/loop_sleep.h"
#include "net/client_load.h"
#include "net/fd.h"
#include "net/readiness.h"
#include "net/retired.h"
#include "net/shard.h"
#include "net/timers.h"
#include "net/turn_watch.h"
#include "net/weighted_queue.h"

namespace weir::net {

namespace asio = boost::asio;
using Executor = asio::io_context::executor_type;

// The kernel's random bytes, 512 at a time.
class Random {
 public:
  uint64_t next();

 private:
  std::array<uint64_t, 64> pool_;
  size_t used_ = pool_.size();
};

struct Shard::Parts final : base::Env {
  // A turn ends after this many handlers, or after this many bytes read: then everybody's output is written.
  static constexpr size_t kHandlersPerTurn = 256;
  static constexpr size_t kBytesPerTurn = 2 << 20;
  static constexpr size_t kReadBuffer = 256 << 10;
  static constexpr int kRoundsPerTurn = 4;
  static constexpr base::Duration kLongTurn = std::chrono::milliseconds(5);
  // Until when in a turn there are new reads, and timers: what they make must find time to be written in the same turn.
  static constexpr base::Duration kReading = kLongTurn / 2, kTiming = kLongTurn * 3 / 4;
  // The time for releasing Residents, in every turn: it may take long, and must not wait for a turn that has less to
  // do.
  static constexpr base::Duration kReleasing = kLongTurn / 2;
  static constexpr base::Duration kLoopAsked = std::chrono::microseconds(200);  // for what it has beside sockets
  static constexpr size_t kAlways = 1;  // handlers of a turn, whatever it has done before

  Parts(base::ShardId shard, Pin pin_it);
  ~Parts();

  // Env. The clock is read at the first now() of a turn.
  base::Time now() const override;
  base::WallTime wall() const override;
  uint64_t random() override { return random_bits.next(); }
  base::TimerId at(base::Time when, std::function<void()> fire) override { return timers.at(when, std::move(fire)); }
  void cancel(base::TimerId timer) override { timers.cancel(timer); }

  void post(std::function<void()> work);
  void put_posted(std::function<void()> work);  // under posted_mutex
  // Runs `work` on the shard's thread and waits for the end of that turn; when the shard is not running, on this
  // thread. Never on the shard's own thread.
  void run_and_wait(const std::function<void()>& work);

  void mark(Resident& one) { dirty.push_back(&one); }
  // The same for the next turn, which then begins at once.
  void mark_for_next_turn(Resident& one) { postponed.push_back(&one); }
  void retire(std::unique_ptr<Resident> one) { retired.add(std::move(one)); }

  void run();  // the thread
  bool finish();
  void one_turn();
  size_t run_first();
  void read_sockets(size_t handlers);
  void end_turn();
  void flush_rounds();
  void release_retired();
  void run_posted();
  void put_back_posted();
  void arm_alarm();
  void note_turn();
  // The turn, or the part of it that is under way, has had its time.
  bool turn_is_long() const { return clock_fresh && std::chrono::steady_clock::now() - turn_began > part; }
  // The same behind each connection's work, whose time is its client's.
  bool work_done();
  bool has_output() const { return !dirty.empty() || !flushing.empty(); }
  void flush_some();
  void turn_without_thread();

  const base::ShardId id;
  const Pin pin;
  base::Duration spin{0};                // before sleeping
  base::MemoryLedger* memory = nullptr;  // for TLS of connections that are ours; null: nobody counts
  asio::io_context io{1};
  Readiness sockets{io};
  Fd listeners{::epoll_create1(EPOLL_CLOEXEC)};  // a set of their sockets, for `sleep` alone
  base::LoopSleep sleep{sockets.descriptor(), listeners.get()};
  asio::executor_work_guard<Executor> keep_running{io.get_executor()};
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor> alarm{
      io};
  base::Time alarm_at = base::kNever;
  std::thread thread;
  std::atomic<bool> stopping{false};

  std::mutex posted_mutex;
  std::vector<std::function<void()>> posted;  // under posted_mutex
  std::atomic<bool> has_posted{false};        // it is not empty; to be read without the mutex
  bool running = false;                       // under posted_mutex
  std::vector<std::function<void()>> running_posted;
  std::vector<std::function<void()>> at_turn_over;  // run_and_wait()'s; once

  Timers timers;
  Random random_bits;
  mutable base::Time turn_began{};
  mutable bool clock_fresh = false;
  base::Time loop_asked{};  // the begin of the last turn that asked `io` for what it has
  size_t turn_bytes = 0;
  mutable TurnWatch watch;  // begins with the clock

  ClientLoad load;
  const base::ClientRef* worked_for = nullptr;  // the client of the connection that has the shard, and lives
  mutable base::Time worked_since{};
  base::Duration part = kLongTurn;  // of a turn: when it is over

  std::deque<std::function<void()>> hooks;  // a hook may add hooks
  std::vector<Resident*> dirty, postponed;
  WeightedQueue<Resident> flushing;  // those of `dirty` whose turn has come, also of earlier turns
  Retired retired;

  // One buffer for all connections: what is read is fed to its codec before anything else is read.
  std::unique_ptr<std::byte[]> read_buffer{new std::byte[kReadBuffer]};
  std::unique_ptr<std::byte[]> plain_buffer;  // the same for what TLS has opened

  base::Time slow_logged{};
};

}  // namespace weir::net
