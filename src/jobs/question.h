// Questions of a shard to the journal's thread (ShardJobs::ask), and how long it waits: a disk or a NATS server that
// stands holds no client for ever.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/env.h"
#include "base/status.h"
#include "jobs/journal.h"

namespace weir::jobs {

// UNAVAILABLE: the answer did not come in time. Nobody knows whether what was to be written will be.
base::Status journal_is_late();

// Longer than it takes to find out that NATS is away, and to begin a log that is new. Work that has not run by then
// does not run, and its memory is free.
inline constexpr base::Duration kAnswerTimeout = std::chrono::seconds(10);

// Work that one thread runs and another may withdraw.
template <class Work>
class WithdrawableWork {
 public:
  using Answer = std::invoke_result_t<Work&, Storage&>;
  explicit WithdrawableWork(Work work) : work_(std::move(work)) {}

  // Perhaps again (jobs::Work::run).
  void run(Storage& storage) {
    State idle = State::kIdle;
    if (!state_.compare_exchange_strong(idle, State::kRuns)) return answer.reset();  // what it was before is void
    const Running over{state_};
    answer = (*work_)(storage);
  }
  void withdraw() {
    if (state_.exchange(State::kWithdrawn) == State::kIdle) work_.reset();
  }

  std::optional<Answer> answer;  // nothing: it has not run. Of the thread that runs it

 private:
  enum class State : uint8_t { kIdle, kRuns, kWithdrawn };
  struct Running {
    ~Running() {
      State runs = State::kRuns;
      state.compare_exchange_strong(runs, State::kIdle);
    }
    std::atomic<State>& state;
  };
  std::atomic<State> state_{State::kIdle};
  std::optional<Work> work_;
};

// A shard's end of the question: told once, of the answer or that it is late. On the shard.
template <class Answer>
class AwaitedAnswer {
 public:
  AwaitedAnswer(base::Env& env, std::function<void(Answer)> then) : env_(env), then_(std::move(then)) {}
  AwaitedAnswer(const AwaitedAnswer&) = delete;
  ~AwaitedAnswer() { env_.cancel(timer_); }

  // `late`: void(), before it is told.
  template <class Late>
  static void wait(const std::shared_ptr<AwaitedAnswer>& self, Late late) {
    const base::Time end = self->env_.now() + kAnswerTimeout;
    self->timer_ = self->env_.at(end, [weak = std::weak_ptr(self), late = std::move(late)] {
      auto there = weak.lock();
      if (!there) return;
      there->timer_ = base::TimerId::kNone;
      const auto its_late = late;  // the timer's function ends with it
      its_late();
      there->tell(Answer(journal_is_late()));
    });
  }
  void tell(Answer answer) {
    env_.cancel(std::exchange(timer_, base::TimerId::kNone));
    if (auto then = std::exchange(then_, nullptr)) then(std::move(answer));
  }

 private:
  base::Env& env_;
  std::function<void(Answer)> then_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::jobs
