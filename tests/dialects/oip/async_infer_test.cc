#include "dialects/oip/async_infer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>

#include "base/fake_env.h"
#include "dialects/dialect.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "dialects/oip/state.h"
#include "dialects/oip/trace.h"
#include "jobs/shard_jobs.h"
#include "support/fake_wire.h"
#include "tests/jobs/folder.h"
#include "wire/router.h"

namespace weir::oip {
namespace {

struct NoControl final : dialects::ServerControl {
  bool accepting() const override { return true; }
  std::string why_not_ready() const override { return {}; }
  void load(const std::string&, LoadParameters, Done) override {}
  void unload(const std::string&, Dependents, Done) override {}
  void settings_changed(const wire::Exchange&, std::string) override {}
};

std::atomic<int> slabs_there{0};

// As a body lies in memory that is charged until it goes.
base::Bytes counted(std::string_view text) {
  auto* data = new std::byte[text.size()];
  std::memcpy(data, text.data(), text.size());
  ++slabs_there;
  auto* slab = new base::Slab(data, text.size(), [](base::Slab* gone) {
    --slabs_there;
    delete[] gone->data;
    delete gone;
  });
  return {slab, data, text.size()};
}

TEST(AsyncInfer, ABodyKeepsItsChargeUntilTheJournalHasIt) {
  jobs::Folder folder;
  jobs::Store store(folder.path(), {}, "off");
  if (!store.open().ok() || !store.available().ok()) GTEST_SKIP() << "built without SQLite";
  base::FakeEnv env;
  wire::Router router(env);
  bus::Bus bus(env, base::ShardId{0}, [] {});
  jobs::ShardJobs journal(store,
                          {env, base::ShardId(0), 1, router, nullptr, nullptr, [](const std::function<void()>&) {}});
  NoControl control;
  Traces traces;
  SharedRegions regions{Sharing::kEverybody, 0};
  OipOptions options;
  options.jobs = &journal;
  OipState state{bus, base::heap(), control, traces, regions, options, {}, {}};
  std::promise<void> go;
  ASSERT_TRUE(store.post([&](jobs::Storage&) { go.get_future().wait(); }));
  store.start();
  {
    support::FakeExchange client("POST", "/v2/models/m/infer");
    client.set_content(counted("a body"));
    client.mutable_request().fields.add("prefer", "respond-async");
    ASSERT_TRUE(left_as_job(state, client));
  }
  EXPECT_EQ(1, slabs_there) << "the client has left, and its request waits";
  go.set_value();
  std::string kept;
  ASSERT_TRUE(store.post([&](jobs::Storage& s) { kept = s.journal.claim(1, env.wall()).value().at(0).body; }));
  store.stop();
  EXPECT_EQ("a body", kept);
  EXPECT_EQ(0, slabs_there);
}

}  // namespace
}  // namespace weir::oip
