// Processes one after the other that have the same journal, with responses in the background.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "bench.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/stored.h"
#include "jobs/shard_jobs.h"
#include "support/posted_work.h"
#include "tests/jobs/folder.h"

namespace weir::openai {

// The test's thread is the shard's. One process after the other has the same journal.
class PutOffResponse : public OpenaiBench {
 protected:
  static constexpr std::chrono::hours kLife{24 * 365 * 20};  // the journal's clock is the real one
  struct Process {
    Process(PutOffResponse& test, uint32_t concurrency)
        : router(test.env), store(test.folder.path(), limits(test, concurrency), "off") {
      opened = store.open().ok() && store.available().ok();
      if (!opened) return;
      store.add(duty);
      journal.emplace(store, jobs::ShardJobs::Surroundings{
                                 test.env, base::ShardId(0), 1, router, nullptr, nullptr,
                                 [this](std::function<void()> work) { posted.post(std::move(work)); }, test.hosts});
      store.start();
    }
    static jobs::Limits limits(const PutOffResponse& test, uint32_t concurrency) {
      jobs::Limits out;
      out.concurrency = concurrency;
      out.tenant_disk = test.tenant_disk;
      return out;
    }
    wire::Router router;
    support::PostedWork posted;
    responses::PutOffDuty duty{kLife};
    jobs::Store store;
    std::optional<jobs::ShardJobs> journal;
    responses::StoredResponses stored{kLife, 1 << 20};
    responses::BackgroundResponses background;
    bool opened = false;
  };

  ~PutOffResponse() override { end(); }
  // False: built without SQLite.
  bool begin(uint32_t concurrency = 1) {
    process = std::make_unique<Process>(*this, concurrency);
    options.stored = &process->stored, options.background = &process->background;
    options.jobs = process->journal ? &*process->journal : nullptr;
    openai = process->opened ? std::make_unique<Openai>(bus, process->router, load, options) : nullptr;
    return process->opened;
  }
  // SIGTERM, and what it was to write is there.
  void drain() {
    process->journal->drain();
    settle();
    on_journal([](jobs::Storage&) {});
  }
  void end() {
    if (!process) return;
    if (process->journal) process->journal->end();
    settle();
    process->store.stop();
    openai.reset(), process.reset();
  }
  // kill -9, and another process. What it was to write is there.
  bool die_and_begin_anew() {
    on_journal([](jobs::Storage&) {});
    process->store.stop();
    return begin_anew();
  }
  bool begin_anew(uint32_t concurrency = 1) {
    end();
    models.finish_all();
    settle();
    inbox().held.clear();
    return begin(concurrency);
  }
  void on_journal(std::function<void(jobs::Storage&)> work) {
    std::promise<void> done;
    ASSERT_TRUE(process->store.post(std::move(work), jobs::Store::Admission::kAsked,
                                    [&](const base::Status&) { done.set_value(); }));
    done.get_future().get();
  }
  Opened open(std::string method, std::string target, std::string_view body = {},
              const wire::PeerInfo* peer = nullptr) {
    wire::Router& routes = process->router;
    Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&routes});
    if (peer) x->mutable_request().peer = peer;
    x->time = env.now();
    if (routes.begin(*x).body == wire::BodyPlan::kWhole) routes.whole(*x);
    bus.turn();
    return x;
  }
  std::string ask(const Json& metadata = Json::object()) {
    const Json body{{"model", "m"}, {"input", "hi"}, {"background", true}, {"metadata", metadata}};
    auto x = answered(open("POST", "/v1/responses", body.dump()));
    EXPECT_EQ(x->response.status, 200) << x->sent;
    const std::string id = json(x)["id"];
    x.reset();
    settle();
    return id;
  }
  Opened answered(Opened x) {
    while (!x->ended && process->posted.do_next()) continue;
    return x;
  }
  Opened get(const std::string& id) { return answered(open("GET", "/v1/responses/" + id)); }
  std::string status(const std::string& id) { return json(get(id)).value("status", "none"); }
  // Does what the journal posts until the model has a call.
  void run_job() {
    process->journal->start();
    while (inbox().held.empty() && process->posted.do_next()) settle();
    ASSERT_EQ(inbox().held.size(), 1u);
  }
  size_t batches() {
    size_t out = 0;
    on_journal([&](jobs::Storage& s) {
      out = s.batches.list("host 127.0.0.1", "openai.response", jobs::ListOrder::kNewestFirst, "", 10).value().size();
    });
    return out;
  }
  void settle() {
    turn();
    env.advance(std::chrono::milliseconds(1));
    turn();
  }

  jobs::ShardJobs::Surroundings::Hosts hosts = jobs::ShardJobs::Surroundings::Hosts::kApart;
  uint64_t tenant_disk = 1 << 30;
  jobs::Folder folder;
  std::unique_ptr<Process> process;
};

}  // namespace weir::openai
