// ShardJobs: the journal as one shard sees it: questions to the store's thread whose answers come back here, and the
// jobs that this shard runs.
//
// A job is put to the shard's router as its client would have put it (background_exchange.h): under the tenant, the
// models and the limits of whoever asked, with the code that answers live requests. A few run at once, none while
// memory is short; one that is refused for now (429, 503) waits and is tried again, and in a cluster so does for a
// while one whose model no node has.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/attempt.h"
#include "base/client.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/memory_ledger.h"
#include "jobs/background_exchange.h"
#include "jobs/journal.h"
#include "jobs/question.h"
#include "jobs/store.h"
#include "wire/exchange.h"
#include "wire/service_guard.h"

namespace weir::jobs {

// RESOURCE_EXHAUSTED: a tenant has all of jobs.tenant_disk.
base::Status quota_is_used_up();

// Whether a job is one more request of its client's, or was counted as one when that asked (requests_per_second).
enum class Requests : uint8_t { kOneMore, kCounted };

// Knows who asks, when the client itself has gone. On the shard.
class Callers {
 public:
  // A text without a secret by which a request's caller is found again, by another process, too.
  virtual std::string remember(const wire::Request& request) = 0;
  // From now on requests of that peer come from whom the text says; null: no longer.
  virtual void come_as(const wire::PeerInfo& peer, const std::string* caller, Requests requests) = 0;

 protected:
  ~Callers() = default;
};

// On its shard's thread, but for the constructor.
class ShardJobs {
 public:
  struct Surroundings {
    base::Env& env;
    base::ShardId id;
    uint32_t shards = 1;
    wire::Intake& intake;
    base::MemoryLedger* memory = nullptr;
    Callers* callers = nullptr;                       // null: nobody is asked who it is
    std::function<void(std::function<void()>)> post;  // runs work on this shard's thread; any thread
    enum class Hosts : uint8_t { kApart, kTogether } hosts = Hosts::kApart;  // tenants without a key
  };
  // All borrowed, and outlive this; the store is stopped before this goes.
  ShardJobs(Store& store, Surroundings surroundings);
  ~ShardJobs();

  const base::Status& available() const { return store_.available(); }
  const Limits& limits() const { return store_.limits(); }
  // All nodes of a cluster have this journal.
  bool is_shared() const { return available().ok() && store_.is_shared(); }
  Requester requester_of(const wire::Request& request) const;
  std::string new_id(std::string_view prefix);  // with 128 random bits in hex
  base::WallTime wall() const { return around_.env.wall(); }

  // Sets what is changed in a job of that kind before it runs. An outcome: it does not run, and ends with that.
  using Change = std::function<std::optional<Outcome>(Job&)>;
  // Leaves out of an outcome for which its tenant has no room what may be left out; null: nothing. Any thread.
  using Shorten = std::function<void(Outcome&)>;
  void prepare(std::string kind, Change change, Requests requests, Shorten shorten = nullptr) {
    kinds_[std::move(kind)] = {std::move(change), requests, std::move(shorten)};
  }
  // Models are served: jobs may run.
  void start();
  // No job begins any more, and those that run go back to the journal. Those aside go into it, or go on.
  void drain();
  bool draining() const { return draining_; }
  // drain(), and those aside are over, with a status of 0.
  void end();
  // How a request goes into the journal. `write`: on the store's thread, perhaps again (Work::run); `then`: it is there
  // for good; any thread.
  struct PutOff {
    std::function<base::Status(Storage&, const Job&)> write;
    std::string fields;  // of the job
    std::function<void()> then;
  };
  // A request whose client does not wait for it. As one of that client's it was counted already.
  struct Aside {
    Job job;
    base::ClientRef client{};         // that it stands for many clients, where it does; else empty
    base::Time until = base::kNever;  // refused for now from then on, it is over
    std::function<bool()> again;      // whether it is still wanted, where it was refused for now, or is put off
    std::function<PutOff()> put_off;  // where the shard drains and there is a journal; null: it goes on until end()
    std::function<void()> cancel;     // its batch is cancelled (cancel()), at whichever node; null: nothing happens
    BackgroundExchange::Done done;    // it is over; not called where it was put off
  };
  // Runs it under its requester, from the next turn on. One that is refused for now waits and is tried again. `done`:
  // in a later turn; a status of 0: it was ended, or there was no memory to begin it. Returns what ends it early, from
  // any thread; null: there is no memory for it, or the shard drains, and nothing is called.
  std::function<void()> run_aside(Aside aside);
  // Those of the batch's jobs that run here or elsewhere are ended. Any thread.
  void cancel(const std::string& batch) { store_.cancel(batch); }

  struct Nothing {
    void operator()(const auto&) const {}
  };
  // An answer that is waited for. Destroyed early, nobody is told; the work is done all the same.
  using Question = std::shared_ptr<void>;
  // `work`: Result<T>(Storage&), on the store's thread, perhaps again (Work::run). `then`: void(Result<T>), on this
  // shard's in a later turn, once what was written is there for good, or kAnswerTimeout is over: journal_is_late().
  // Work that has not run by then is withdrawn; work that threw has failed. `done`: void(const T&), on the store's
  // thread, where that succeeded, also where nobody waits any more. Errors, and none is called: as of available();
  // UNAVAILABLE, too much waits.
  template <class Work, class Then, class Done = Nothing>
  base::Result<Question> ask(Work work, Then then, Done done = {}) {
    using Asked = WithdrawableWork<Work>;
    using Answer = typename Asked::Answer;
    if (!available().ok()) return available();
    auto awaited = std::make_shared<AwaitedAnswer<Answer>>(around_.env, std::move(then));
    auto asked = std::make_shared<Asked>(std::move(work));
    auto told = [weak = std::weak_ptr(awaited), asked, done = std::move(done), post = around_.post,
                 store = &store_](const base::Status& status) {
      if (!status.ok()) asked->answer = Answer(status);
      if (!asked->answer) return;  // it was withdrawn
      if (*asked->answer) done(**asked->answer);
      if (!*asked->answer) store->shown().note_asked(asked->answer->error());
      post([weak, asked] {
        if (auto there = weak.lock()) there->tell(std::move(*asked->answer));
      });
    };
    if (!store_.post([asked](Storage& storage) { asked->run(storage); }, Store::Admission::kAsked, std::move(told)))
      return base::try_again(base::Code::kUnavailable, "the journal has too much to do; try again later");
    AwaitedAnswer<Answer>::wait(awaited, [asked, store = &store_] {
      store->shown().note_late();
      asked->withdraw();
    });
    return Question(std::move(awaited));
  }
  // A write for whose outcome nobody waits; nothing is too much. One that fails is tried again (Store::write()).
  void tell(std::function<base::Status(Storage&)> work) {
    if (available().ok()) store_.write(std::move(work), nullptr);
  }

 private:
  struct Running;
  struct RunningAside;
  void begin_aside(uint64_t number);
  void end_aside(uint64_t number, Outcome outcome);
  void put_off_asides();
  void take(Job job);
  void run(Job job);
  void start_exchange(Running& running, Requests requests, BackgroundExchange::Done done);
  void ended(const std::string& key, Outcome outcome);
  void cancel_here(const std::string& batch);
  void let_go(const JobId& id, base::Duration later);
  std::optional<base::Duration> wait_for(const Job& job, const Outcome& outcome);
  static std::string key_of(const JobId& id) { return id.batch + '/' + std::to_string(id.index); }

  Store& store_;
  const Surroundings around_;
  struct Kind {
    Change change;
    Requests requests = Requests::kOneMore;
    Shorten shorten;
  };
  std::map<std::string, Kind, std::less<>> kinds_;
  std::map<std::string, std::unique_ptr<Running>> running_;
  std::map<uint64_t, std::unique_ptr<RunningAside>> aside_;
  uint64_t next_aside_ = 0;
  std::shared_ptr<ShardJobs*> alive_;  // what is posted here finds this by it
  bool draining_ = false;
};

// Asks for an Exchange whose answer is still to come: `then`, void(Exchange&, Result<T>), answers it, or attaches the
// ExchangeListener to come; it is not called once the client has left. What it throws ends the Exchange. `done`: as of
// ShardJobs::ask().
class Asking final : public wire::ExchangeListener {
 public:
  void on_close(wire::Exchange&, bool) override { question = nullptr; }
  ShardJobs::Question question;
};
template <class Work, class Then, class Done = ShardJobs::Nothing>
void ask_for(ShardJobs& jobs, wire::Exchange& exchange, Work work, Then then, Done done = {}) {
  using Answer = std::invoke_result_t<Work&, Storage&>;
  auto listener = std::make_unique<Asking>();
  Asking& asking = *listener;
  exchange.attach(std::move(listener));
  auto question = jobs.ask(
      std::move(work),
      [&exchange, then](Answer answer) { wire::guarded(exchange, [&] { then(exchange, std::move(answer)); }); },
      std::move(done));
  if (!question) return then(exchange, Answer(question.error()));
  asking.question = *std::move(question);
}

}  // namespace weir::jobs
