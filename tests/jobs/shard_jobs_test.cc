#include "jobs/shard_jobs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/fake_env.h"
#include "folder.h"
#include "jobs/database.h"
#include "support/posted_work.h"
#include "wire/router.h"

namespace weir::jobs {
namespace {

using wire::BodyPlan;

// Knows peers by their address, as app/background_callers.h does.
struct FakeCallers final : Callers {
  std::string remember(const wire::Request&) override { return "caller"; }
  void come_as(const wire::PeerInfo& peer, const std::string* caller, Requests requests) override {
    if (!caller) return void(known.erase(&peer));
    known.insert(&peer);
    came.push_back(requests);
  }
  std::set<const wire::PeerInfo*> known;
  std::vector<Requests> came;
};

struct Unanswered final : wire::Service {
  void serve(wire::Exchange& exchange, const wire::PathArgs&) override { asked.push_back(&exchange); }
  std::deque<wire::Exchange*> asked;
};

// A shard whose thread is the test's. Two jobs run at once.
class OneShard : public testing::Test {
 protected:
  void SetUp() override {
    if (!store.open().ok() || !store.available().ok()) GTEST_SKIP() << "built without SQLite";
    router.add({"POST", "/x", &service, "test", {BodyPlan::kWhole, 100}, wire::Permission::kInfer});
    jobs.emplace(store, ShardJobs::Surroundings{env, base::ShardId(0), 1, router, nullptr, &callers,
                                                [this](std::function<void()> work) { posted.post(std::move(work)); }});
    store.start();
    jobs->start();
  }
  void TearDown() override { store.stop(); }

  void put(uint64_t from, uint64_t until) {
    ASSERT_TRUE(store.post([from, until](Storage& s) {
      if (from == 0) (void)s.batches.add({"b", "k", {}, "s", "", {}, {}});
      std::vector<Job> all(until - from);
      for (uint64_t i = from; i < until; ++i) all[i - from].id = {"b", i}, all[i - from].target = "/x";
      (void)s.journal.put(all);
    }));
  }
  // Does what is posted to the shard, the next one too. False: nothing came.
  bool turn() { return posted.do_next(); }

  support::PostedWork posted;
  base::FakeEnv env;
  wire::Router router{env};
  Unanswered service;
  FakeCallers callers;
  Folder folder;
  static Limits two() {
    Limits out;
    out.concurrency = 2;
    out.tenant_disk = 1000;
    return out;
  }
  Store store{folder.path(), two(), "off"};
  std::optional<ShardJobs> jobs;
};

// Another node that missed this one has given it back, and this one has claimed it again.
TEST_F(OneShard, AJobThatRunsAlreadyIsNotBegunAgain) {
  put(0, 1);
  ASSERT_TRUE(turn());
  ASSERT_EQ(1u, service.asked.size());
  ASSERT_TRUE(store.post([](Storage& s) { (void)s.journal.release({"b", 0}, {}); }));
  ASSERT_TRUE(turn());
  EXPECT_EQ(1u, service.asked.size());
  EXPECT_EQ(1u, callers.known.size());
  service.asked.front()->respond(200, "text/plain", base::Bytes::copy_of("made"));
  env.advance(base::Duration(1));
  EXPECT_TRUE(callers.known.empty());
  // Both places are there for others.
  put(1, 3);
  ASSERT_TRUE(turn());
  ASSERT_TRUE(turn());
  EXPECT_EQ(3u, service.asked.size());
  EXPECT_EQ(2u, callers.known.size());
  jobs->drain();
  EXPECT_TRUE(callers.known.empty());
}

// While no byte can be written to a file, as where its disk fails.
struct NoFileGrows {
  NoFileGrows() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoFileGrows() { ::setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before{};
};

TEST_F(OneShard, AResultThatCannotBeWrittenIsWrittenLater) {
  put(0, 1);
  ASSERT_TRUE(turn());
  auto counts = [&] {
    std::promise<Counts> out;
    EXPECT_TRUE(store.post([&](Storage& s) { out.set_value(s.journal.count("b").value()); }));
    return out.get_future().get();
  };
  {
    NoFileGrows none;
    service.asked.front()->respond(200, "text/plain", base::Bytes::copy_of("made"));
    env.advance(base::Duration(1));
    EXPECT_EQ(1u, counts().running);
  }
  const base::Time until = base::steady_now() + std::chrono::seconds(20);
  while (counts().running > 0 && base::steady_now() < until) std::this_thread::yield();
  EXPECT_EQ(1u, counts().succeeded);
}

TEST_F(OneShard, AJobThatRunsIsEndedAlsoWhereWhoeverEndsItHasLeft) {
  put(0, 1);
  ASSERT_TRUE(turn());
  ASSERT_EQ(1u, callers.known.size());
  bool answered = false;
  auto question = jobs->ask([](Storage& s) -> base::Result<bool> { return s.batches.remove("b").ok(); },
                            [&](const base::Result<bool>&) { answered = true; },
                            [this](bool removed) {
                              if (removed) jobs->cancel("b");
                            });
  ASSERT_TRUE(question);
  question->reset();
  while (!callers.known.empty()) {
    ASSERT_TRUE(turn());
    env.advance(base::Duration(1));
  }
  EXPECT_FALSE(answered);
}

TEST_F(OneShard, AnAnswerForWhichItsTenantHasNoRoomIsShortened) {
  const auto first_byte = [](Outcome& outcome) { outcome.body.resize(1); };
  const auto as_it_is = [](Job&) { return std::optional<Outcome>(); };
  jobs->prepare("k", as_it_is, Requests::kCounted, first_byte);
  put(0, 2);
  ASSERT_TRUE(turn());
  ASSERT_TRUE(turn());
  const std::string long_answer(600, 'x');
  for (wire::Exchange* one : service.asked) one->respond(200, "text/plain", base::Bytes::copy_of(long_answer));
  env.advance(base::Duration(1));
  std::promise<std::vector<FinishedJob>> ended;
  ASSERT_TRUE(store.post([&](Storage& s) { ended.set_value(s.journal.list("b", 0, 1000).value()); }));
  for (const FinishedJob& job : ended.get_future().get()) {
    EXPECT_EQ(200, job.outcome->status);
    EXPECT_EQ("x", job.outcome->body);
  }
}

TEST_F(OneShard, AnAnswerNoLongerThanItsRequestFindsItsRoom) {
  const std::string document(395, 'd'), answer(90, 'a');  // of 1,000 bytes there are 512 for the batch, and 3 are free
  ASSERT_TRUE(store.post([&](Storage& s) {
    EXPECT_TRUE(s.batches.add({"b", "k", {}, "s", document, {}, {}}).ok());
    Job job;
    job.id = {"b", 0}, job.target = "/x", job.body = std::string(90, 'r');
    EXPECT_TRUE(s.journal.put({&job, 1}).ok());
  }));
  ASSERT_TRUE(turn());
  ASSERT_EQ(1u, service.asked.size());
  service.asked.front()->respond(200, "text/plain", base::Bytes::copy_of(answer));
  env.advance(base::Duration(1));
  std::promise<std::vector<FinishedJob>> ended;
  ASSERT_TRUE(store.post([&](Storage& s) { ended.set_value(s.journal.list("b", 0, 1000).value()); }));
  const auto jobs_ended = ended.get_future().get();
  ASSERT_TRUE(jobs_ended.at(0).outcome);
  EXPECT_EQ(200, jobs_ended.at(0).outcome->status);
  EXPECT_EQ(answer, jobs_ended.at(0).outcome->body);
}

// The journal's thread is held, as by a disk that stands.
struct SlowJournal : OneShard {
  void SetUp() override {
    OneShard::SetUp();
    if (IsSkipped()) return;
    std::promise<void> held;
    ASSERT_TRUE(store.post([&](Storage&) {
      held.set_value();
      released.get_future().wait();
    }));
    held.get_future().wait();
  }
  void release() {
    released.set_value();
    std::promise<void> done;
    ASSERT_TRUE(store.post([&](Storage&) { done.set_value(); }));
    done.get_future().wait();
  }
  auto ask() {
    return jobs->ask([this, used = body](Storage&) -> base::Result<bool> { return ++runs > 0; },
                     [this](const base::Result<bool>& answer) {
                       answers.push_back(answer ? base::Code::kOk : answer.error().code);
                     });
  }
  std::promise<void> released;
  std::shared_ptr<int> body = std::make_shared<int>();  // what a request has brought
  std::atomic<int> runs{0};
  std::vector<base::Code> answers;
};

TEST_F(SlowJournal, AnAnswerThatIsLateIsNoLongerWaitedForAndItsWorkWithdrawn) {
  auto question = ask();
  ASSERT_TRUE(question);
  env.advance(kAnswerTimeout - base::Duration(1));
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(2, body.use_count());
  env.advance(base::Duration(1));
  EXPECT_EQ(std::vector{base::Code::kUnavailable}, answers);
  EXPECT_EQ(1, body.use_count()) << "its memory is free, though the journal stands";
  EXPECT_EQ(0u, env.armed());
  release();
  EXPECT_EQ(0, runs);
  EXPECT_EQ(1u, answers.size());
}

TEST_F(SlowJournal, AnAnswerInTimeEndsTheWait) {
  auto question = ask();
  release();
  ASSERT_TRUE(turn());
  EXPECT_EQ(std::vector{base::Code::kOk}, answers);
  EXPECT_EQ(0u, env.armed());
}

// Others had changed what it is about, so that its first run was void.
TEST(WithdrawnWork, HasNoAnswerOfItsFirstRun) {
  Folder folder;
  auto database = open_database(folder.path(), 1 << 20);
  if (!database) GTEST_SKIP() << "built without SQLite";
  auto work = [](Storage&) -> base::Result<bool> { return true; };
  WithdrawableWork<decltype(work)> posted(work);
  posted.run((*database)->storage());
  EXPECT_TRUE(posted.answer);
  posted.withdraw();
  posted.run((*database)->storage());
  EXPECT_FALSE(posted.answer);
}

TEST_F(OneShard, CallersForgetTheJobsOfAShardThatGoes) {
  put(0, 2);
  ASSERT_TRUE(turn());
  ASSERT_TRUE(turn());
  EXPECT_EQ(2u, callers.known.size());
  store.stop();
  jobs.reset();
  EXPECT_TRUE(callers.known.empty());
}

TEST_F(OneShard, AKindSaysHowItsJobsCountAndWhichOfThemDoNotRun) {
  const auto change = [](Job& job) { return job.id.index == 0 ? std::optional(Outcome{500, "", "no"}) : std::nullopt; };
  jobs->prepare("k", change, Requests::kCounted);
  put(0, 2);
  while (service.asked.empty() && turn()) continue;
  EXPECT_EQ(service.asked.size(), 1u);
  EXPECT_EQ(callers.came, std::vector{Requests::kCounted});
  std::promise<std::string> ended;
  ASSERT_TRUE(store.post([&](Storage& s) { ended.set_value(s.journal.list("b", 0, 100).value()[0].outcome->body); }));
  EXPECT_EQ(ended.get_future().get(), "no");
  jobs->drain();
}

}  // namespace
}  // namespace weir::jobs
