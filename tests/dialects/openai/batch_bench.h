// The routes of what a journal keeps, over one of one node or of a cluster. The test's thread is the shard's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>

#include "bench.h"
#include "jobs/shard_jobs.h"
#include "support/posted_work.h"
#include "tests/jobs/fake_log.h"
#include "tests/jobs/folder.h"

namespace weir::openai {

class BatchBench : public OpenaiBench {
 protected:
  ~BatchBench() override {
    if (store) store->stop();
    openai.reset();
  }
  enum class Whose : uint8_t { kAlone, kCluster };
  // False: built without SQLite.
  bool keep(Whose whose, jobs::Limits limits = {}) {
    limits.concurrency = 0;
    store.emplace(folder.path(), limits, "off");
    if (whose == Whose::kCluster) store->share(log, "a");
    if (!store->open().ok() || !store->available().ok()) return false;
    auto post = [this](std::function<void()> work) { posted.post(std::move(work)); };
    jobs::ShardJobs::Surroundings around{env, base::ShardId(0), 1, router, nullptr, nullptr, post};
    around.hosts = jobs::ShardJobs::Surroundings::Hosts::kTogether;
    journal.emplace(*store, around);
    store->attach(base::ShardId(1), {[](jobs::Job) {}, [this](const std::string& batch) { ended += batch; }});
    options.jobs = &*journal;
    store->start();
    return true;
  }
  // On the journal's thread, and what was written is there for good, or not.
  base::Status on_journal(std::function<void(jobs::Storage&)> work) {
    std::promise<base::Status> done;
    EXPECT_TRUE(store->post(std::move(work), jobs::Store::Admission::kAsked,
                            [&](const base::Status& status) { done.set_value(status); }));
    return done.get_future().get();
  }
  // All that the duty has to do by then.
  void look_after(jobs::Duty& duty, base::WallTime now) {
    bool more = true;
    for (int i = 0; more && i < 1000; ++i)
      (void)on_journal([&](jobs::Storage& s) { more = duty.step(s, now).value(); });
    EXPECT_FALSE(more);
  }
  jobs::Files::Use used() {
    jobs::Files::Use out;
    (void)on_journal([&](jobs::Storage& s) { out = s.files.use("anybody").value(); });
    return out;
  }
  // Does the next piece of work that is posted to the shard. False: none comes.
  bool shard_turn() { return posted.do_next(); }
  Opened answered(Opened x) {
    while (!x->ended && shard_turn()) continue;
    return x;
  }
  Opened asked(std::string method, std::string target, std::string_view body = {}) {
    return answered(open(std::move(method), std::move(target), body));
  }
  // A body that comes in pieces.
  Opened streamed(std::string target, const std::string& type, std::string_view body, size_t piece = 64 << 10) {
    Opened x = begun(std::move(target), type, body, piece);
    if (!x->ended) x->listener()->on_end(*x);
    return answered(std::move(x));
  }
  Opened begun(std::string target, const std::string& type, std::string_view body, size_t piece = 64 << 10) {
    Opened x = open("POST", std::move(target), {}, {{"content-type", type}});
    for (; !body.empty() && !x->ended; body.remove_prefix(std::min(piece, body.size())))
      x->listener()->on_data(*x, std::as_bytes(std::span(body.substr(0, piece))));
    return x;
  }

  support::PostedWork posted;
  jobs::Folder folder;
  jobs::FakeLog log;  // of the journal's thread
  std::string ended;  // batches whose jobs were ended; of the journal's thread
  std::optional<jobs::Store> store;
  std::optional<jobs::ShardJobs> journal;
};

}  // namespace weir::openai
