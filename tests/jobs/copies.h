// Copies of a cluster's journal over one FakeLog, and what is compared of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fake_log.h"
#include "folder.h"
#include "jobs/database.h"
#include "jobs/replica.h"
#include "jobs/sqlite.h"

namespace weir::jobs {

using std::chrono::seconds;

inline const base::WallTime kNow{seconds(1'000'000)};
inline constexpr uint64_t kPlenty = uint64_t(64) << 20;

// One node's copy. Its name is its letter; `life` makes another process of it.
struct Copy {
  Copy(FakeLog& log, std::string name, uint64_t most = kPlenty, uint64_t disk = UINT64_MAX)
      : log(log), name(std::move(name)), most(most), disk(disk) {
    begin();
  }
  void begin() {
    replica.reset();
    database.reset();
    database = open_database(folder.path(), disk, Whose::kAllNodes).value();
    replica.emplace(
        database->replica(), log,
        Replica::Options{name, most, [this] { return name + std::to_string(++life) + "-" + std::to_string(++*ids()); },
                         [this] { return this->log.now; }});
  }
  static uint64_t* ids() {
    static uint64_t all = 0;
    return &all;
  }
  base::Status perform(Replica::Run run, Record::As as = Record::As::kNode) {
    return replica->perform(std::span(&run, 1), as).front();
  }
  void catch_up() {
    for (;;) {
      auto more = replica->catch_up();
      ASSERT_TRUE(more) << more.error().text;
      if (!*more) return;
    }
  }
  std::vector<uint64_t> claim(size_t most) {
    (void)perform([&](Recorder& r) { (void)r.journal.claim(most, kNow); });
    std::vector<uint64_t> out;
    for (const Job& job : replica->claimed()) out.push_back(job.id.index);
    replica->claimed().clear();
    return out;
  }
  Storage& storage() { return database->storage(); }
  Counts counts(const std::string& batch) { return storage().journal.count(batch).value(); }
  // Counts that are kept apart agree with the records.
  static void check_counts(Statements& file) {
    for (const char* sql : {"SELECT count(*) FROM batches b WHERE waiting !="
                            " (SELECT count(*) FROM jobs WHERE batch = b.id AND state = 0)",
                            "SELECT count(*) FROM batches b WHERE bytes !="
                            " (SELECT 512 + length(CAST(b.document AS BLOB)) + coalesce(sum(length(body)), 0) +"
                            " coalesce(sum(length(answer)), 0) FROM jobs WHERE batch = b.id)",
                            "SELECT count(*) FROM (SELECT owner, sum(bytes) n FROM (SELECT owner, bytes FROM files"
                            " UNION ALL SELECT owner, bytes FROM uploads UNION ALL SELECT owner, bytes FROM batches) "
                            "GROUP BY owner) a FULL JOIN usage u USING(owner)"
                            " WHERE a.n IS NOT u.bytes"})
      EXPECT_EQ(0, file.number(sql).value()) << sql;
  }
  // All that is in the file, but where pages lie. The copy is closed and opened for it.
  std::string dump() {
    replica.reset();
    database.reset();
    std::string out;
    {
      Statements file(Connection::open(folder.path() + "/cluster.db").value());
      check_counts(file);
      for (const char* sql : {"SELECT * FROM files ORDER BY rowid", "SELECT * FROM parts ORDER BY file, part",
                              "SELECT * FROM batches ORDER BY rowid", "SELECT * FROM usage ORDER BY owner",
                              "SELECT * FROM jobs ORDER BY batch, idx", "SELECT * FROM uploads ORDER BY file",
                              "SELECT * FROM replica", "SELECT * FROM entries ORDER BY sequence"})
        EXPECT_TRUE(file.each(sql,
                              [&](Statement& s) {
                                for (int column = 0; column < 16; ++column) out += s.text(column) + '|';
                                out += '\n';
                              })
                        .ok());
    }
    begin();
    return out;
  }

  FakeLog& log;
  const std::string name;
  const uint64_t most, disk;
  int life = 0;
  Folder folder;
  std::unique_ptr<Database> database;
  std::optional<Replica> replica;
};

inline Batch batch(std::string id) {
  return {std::move(id), "k", {"o", "caller", "127.0.0.1"}, "begun", "{}", kNow, kNow + seconds(60)};
}
inline Replica::Run add(std::string id, uint64_t jobs) {
  return [id, jobs](Recorder& r) {
    ASSERT_TRUE(r.batches.add(batch(id)).ok());
    std::vector<Job> all;
    for (uint64_t i = 0; i < jobs; ++i) {
      Job& job = all.emplace_back();
      job.id = {id, i};
      job.label = "label " + std::to_string(i), job.target = "/v1/x", job.body = std::string("{\0}", 3);
    }
    ASSERT_TRUE(r.journal.put(all).ok());
  };
}

struct Two : testing::Test {
  void SetUp() override {
    if (auto opened = open_database(Folder().path(), kPlenty); !opened) GTEST_SKIP() << "built without SQLite";
    a.emplace(log, "a"), b.emplace(log, "b");
    a->catch_up(), b->catch_up();
    log.now += LogBeginning::kCompare;  // the log may begin
  }
  void same() {
    a->catch_up(), b->catch_up();
    EXPECT_EQ(a->dump(), b->dump());
  }
  FakeLog log;
  std::optional<Copy> a, b;
};

}  // namespace weir::jobs
