#include "jobs/database.h"

#include <gtest/gtest.h>

#include <fstream>

#include "folder.h"
#include "jobs/sqlite.h"
#include "jobs/sqlite_tables.h"

namespace weir::jobs {
namespace {

using std::chrono::seconds;

constexpr uint64_t kPlenty = uint64_t(64) << 20;
const base::WallTime kNow{seconds(1'000'000)};
constexpr uint64_t kBatch = kBatchBytes + 2;  // of one whose document is {}

std::unique_ptr<Database> open(const Folder& folder, uint64_t most = kPlenty) {
  auto opened = open_database(folder.path(), most);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
  return opened ? std::move(*opened) : nullptr;
}

Batch batch(std::string id, std::string owner = "o") {
  return {std::move(id), "k", {std::move(owner), "caller", "127.0.0.1"}, "begun", "{}", kNow, kNow + seconds(60)};
}
Job job(std::string id, uint64_t index, std::string body = "{}") {
  Job out;
  out.id = {std::move(id), index};
  out.label = "label " + std::to_string(index), out.target = "/v1/x", out.body = std::move(body);
  return out;
}
void add(Storage& s, const std::string& id, uint64_t jobs) {
  ASSERT_TRUE(s.batches.add(batch(id)).ok());
  std::vector<Job> all;
  for (uint64_t i = 0; i < jobs; ++i) all.push_back(job(id, i));
  ASSERT_TRUE(s.journal.put(all).ok());
}

TEST(Journal, AClaimedJobIsAsItWasPut) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  ASSERT_TRUE(s.batches.add(batch("a")).ok());
  Job put = job("a", 7, std::string("\0\xff{", 3));
  put.model = "m", put.fields = "content-type: x\n";
  ASSERT_TRUE(s.journal.put(std::span(&put, 1)).ok());
  auto claimed = s.journal.claim(5, kNow).value();
  ASSERT_EQ(1u, claimed.size());
  EXPECT_EQ(put.body, claimed[0].body);
  EXPECT_EQ("label 7", claimed[0].label);
  EXPECT_EQ("m", claimed[0].model);
  EXPECT_EQ("content-type: x\n", claimed[0].fields);
  EXPECT_EQ("k", claimed[0].kind);
  EXPECT_EQ("caller", claimed[0].requester.caller);
  EXPECT_EQ(0u, claimed[0].attempts);
  EXPECT_TRUE(s.journal.claim(5, kNow).value().empty());
}

TEST(Journal, AResultIsWrittenOnce) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 1);
  (void)s.journal.claim(1, kNow);
  EXPECT_TRUE(s.journal.finish({"a", 0}, {200, "", "first"}).value());
  EXPECT_FALSE(s.journal.finish({"a", 0}, {500, "", "second"}).value());
  EXPECT_FALSE(s.journal.finish({"gone", 0}, {200, "", "x"}).value());
  auto jobs = s.journal.list("a", 0, 1000).value();
  ASSERT_EQ(1u, jobs.size());
  EXPECT_EQ("first", jobs[0].outcome->body);
}

TEST(Journal, BatchesTakeTurns) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 100);
  add(s, "b", 2);
  std::string order;
  for (const Job& each : s.journal.claim(5, kNow).value()) order += each.id.batch + std::to_string(each.id.index);
  EXPECT_EQ("a0b0a1b1a2", order);
}

TEST(Journal, JobsOfABatchThatWaitsAreNotClaimed) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  Batch waits = batch("a");
  waits.jobs = Batch::Jobs::kWait;
  ASSERT_TRUE(s.batches.add(waits).ok());
  Job put = job("a", 0);
  ASSERT_TRUE(s.journal.put(std::span(&put, 1)).ok());
  EXPECT_TRUE(s.journal.claim(5, kNow + seconds(1'000'000)).value().empty());
  Batch there = *s.batches.find("o", "a").value();
  EXPECT_EQ(Batch::Jobs::kWait, there.jobs);
  there.jobs = Batch::Jobs::kRun;
  ASSERT_TRUE(s.batches.change(there).value());
  EXPECT_EQ(1u, s.journal.claim(5, kNow).value().size());
}

TEST(Journal, AReleasedJobWaitsForItsTimeAndCountsNoAttempt) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 1);
  (void)s.journal.claim(1, kNow);
  ASSERT_TRUE(s.journal.release({"a", 0}, kNow + seconds(5)).ok());
  EXPECT_TRUE(s.journal.claim(1, kNow + seconds(4)).value().empty());
  auto again = s.journal.claim(1, kNow + seconds(5)).value();
  ASSERT_EQ(1u, again.size());
  EXPECT_EQ(0u, again[0].attempts);
}

TEST(Journal, WhatAProcessLeavesIsClaimedAgainAndCounted) {
  Folder folder;
  auto db = open(folder);
  add(db->storage(), "a", 2);
  (void)db->storage().journal.claim(2, kNow);
  (void)db->storage().journal.finish({"a", 1}, {200, "", "done"});
  db.reset();
  db = open(folder);
  auto claimed = db->storage().journal.claim(9, kNow).value();
  ASSERT_EQ(1u, claimed.size());
  EXPECT_EQ(0u, claimed[0].id.index);
  EXPECT_EQ(1u, claimed[0].attempts);
}

TEST(Journal, WithdrawnJobsNeverRun) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 3);
  (void)s.journal.claim(1, kNow);
  ASSERT_TRUE(s.journal.withdraw("a").ok());
  EXPECT_TRUE(s.journal.claim(9, kNow).value().empty());
  Counts counts = s.journal.count("a").value();
  EXPECT_EQ(3u, counts.total);
  EXPECT_EQ(1u, counts.running);
  constexpr std::string_view kBegun[] = {"begun"};
  EXPECT_TRUE(s.batches.idle("k", kBegun, 9).value().empty());
  (void)s.journal.finish({"a", 0}, {400, "", ""});
  EXPECT_EQ(1u, s.batches.idle("k", kBegun, 9).value().size());
  EXPECT_EQ(1u, s.journal.count("a").value().failed);
}

TEST(Journal, ResultsAreListedInSlices) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 10);
  for (uint64_t i = 0; i < 10; ++i) (void)s.journal.finish({"a", i}, {200, "", std::string(1000, 'x')});
  EXPECT_EQ(3u, s.journal.list("a", 0, 2500).value().size());
  auto last = s.journal.list("a", 9, 2500).value();
  ASSERT_EQ(1u, last.size());
  EXPECT_EQ(9u, last[0].id.index);
  EXPECT_TRUE(s.journal.list("a", 10, 2500).value().empty());
}

TEST(Files, ContentComesBackPartByPart) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  ASSERT_TRUE(s.files.append("f", 0, "one").ok());
  ASSERT_TRUE(s.files.append("f", 1, std::string_view("\0two", 4)).ok());
  EXPECT_FALSE(s.files.find("o", "f").value());
  ASSERT_TRUE(s.files.add({"f", "o", "../x", "batch", 7, kNow, kNow + seconds(9)}).ok());
  EXPECT_EQ("../x", s.files.find("o", "f").value()->name);
  EXPECT_FALSE(s.files.find("other", "f").value());
  EXPECT_EQ("one", s.files.read("f", 0).value());
  EXPECT_EQ(std::string("\0two", 4), s.files.read("f", 1).value());
  EXPECT_EQ("", s.files.read("f", 2).value());
  EXPECT_TRUE(s.files.expired(kNow + seconds(8), 9).value().empty());
  EXPECT_EQ(std::vector<std::string>{"f"}, s.files.expired(kNow + seconds(9), 9).value());
  ASSERT_TRUE(s.files.remove("f").ok());
  EXPECT_EQ("", s.files.read("f", 0).value());
}

TEST(Files, UseCountsFilesAndJobsOfOneOwner) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  ASSERT_TRUE(s.files.add({"f", "o", "", "batch", 100, kNow, kNow}).ok());
  ASSERT_TRUE(s.files.add({"g", "p", "", "batch", 5000, kNow, kNow}).ok());
  add(s, "a", 3);
  (void)s.journal.finish({"a", 0}, {200, "", std::string(50, 'x')});
  auto use = s.files.use("o").value();
  EXPECT_EQ(1u, use.files);
  EXPECT_EQ(100u + kBatch + 2 * 2 + 50, use.bytes);
}

// Otherwise a tenant would have jobs.tenant_disk once for its files, and once more for its responses.
TEST(Files, UseCountsBothNamesOfATenant) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  for (const char* owner : {"tenant:a", "key a", "tenant:b"})
    ASSERT_TRUE(s.files.add({owner, owner, "", "batch", 100, kNow, kNow}).ok());
  EXPECT_EQ(200u, s.files.use("tenant:a").value().bytes);
  EXPECT_EQ(200u, s.files.use("key a").value().bytes);
  EXPECT_EQ(100u, s.files.use("key b").value().bytes);
}

TEST(Files, WhatIsNoLongerKeptIsNotCounted) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  add(s, "a", 4);
  auto used = [&] { return s.files.use("o").value().bytes; };
  EXPECT_EQ(kBatch + 4u * 2, used());
  (void)s.journal.claim(1, kNow);
  (void)s.journal.finish({"a", 0}, {200, "", std::string(50, 'x')});
  (void)s.journal.finish({"a", 0}, {200, "", std::string(70, 'x')});  // has a result already
  EXPECT_EQ(kBatch + 3u * 2 + 50, used());
  ASSERT_TRUE(s.journal.withdraw("a").ok());
  EXPECT_EQ(kBatch + 50u, used());
  ASSERT_TRUE(s.journal.remove("a").ok());
  EXPECT_EQ(kBatch, used());
  Job again = job("a", 0);
  ASSERT_TRUE(s.journal.put(std::span(&again, 1)).ok());
  EXPECT_EQ(kBatch + 2u, used());
  Batch longer = batch("a");
  longer.document = std::string(1000, 'x');
  ASSERT_TRUE(s.batches.change(longer).value());
  EXPECT_EQ(kBatch - 2 + 1000 + 2u, used());
  ASSERT_TRUE(s.batches.remove("a").ok());
  EXPECT_EQ(0u, used());
}

TEST(Files, UploadsThatAreNotFinishedCountForTheirOwner) {
  Folder folder;
  auto db = open(folder);
  auto used = [&](const char* owner) { return db->storage().files.use(owner).value().bytes; };
  auto append = [&](const char* id, uint64_t part) {
    ASSERT_TRUE(db->storage().files.append(id, part, std::string(100, 'x'), "o").ok());
  };
  append("f", 0), append("f", 1), append("g", 0), append("h", 0);
  EXPECT_EQ(400u, used("o"));
  ASSERT_TRUE(db->storage().files.add({"f", "o", "", "batch", 200, kNow, kNow}).ok());
  EXPECT_EQ(400u, used("o"));
  ASSERT_TRUE(db->storage().files.remove("g").ok());
  EXPECT_EQ(300u, used("o"));
  db.reset();
  db = open(folder);
  EXPECT_EQ(200u, used("o")) << "what was not finished is gone with its process";
  ASSERT_TRUE(db->storage().files.remove("f").ok());
  EXPECT_EQ(0u, used("o"));
}

TEST(Files, ListsGoOnBehindAnId) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(s.files.add({id, "o", "", "batch", 1, kNow, kNow}).ok());
  auto ids = [&](std::string_view owner, std::string_view purpose, std::string_view after) {
    std::string out;
    for (const File& file : s.files.list(owner, purpose, ListOrder::kNewestFirst, after, 9).value()) out += file.id;
    return out;
  };
  const auto oldest_first = [&](std::string_view after, size_t most) {
    std::string out;
    for (const File& file : s.files.list("o", "batch", ListOrder::kOldestFirst, after, most).value()) out += file.id;
    return out;
  };
  EXPECT_EQ("abc", oldest_first("", 9));
  EXPECT_EQ("b", oldest_first("a", 1));
  EXPECT_EQ("", oldest_first("c", 9));
  EXPECT_EQ("cba", ids("o", "", ""));
  EXPECT_EQ("ba", ids("o", "batch", "c"));
  EXPECT_EQ("", ids("o", "other", ""));
  EXPECT_EQ("", ids("p", "", ""));
  EXPECT_EQ("", ids("o", "", "no such id"));
  ASSERT_TRUE(s.files.add({"d", "o", "", "", 1, kNow, kNow}).ok());
  EXPECT_EQ("cba", ids("o", "", "")) << "without a purpose it is in no list";
  EXPECT_TRUE(s.files.find("o", "d").value());
  EXPECT_EQ("", ids("o' OR '1'='1", "", ""));
}

TEST(Database, WhatWasNeverAddedIsGoneAfterACrash) {
  Folder folder;
  auto db = open(folder);
  (void)db->storage().files.append("half", 0, "x");
  db.reset();
  db = open(folder);
  EXPECT_EQ("", db->storage().files.read("half", 0).value());
}

TEST(Database, AnErrorUndoesWhatWasDoneTogether) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  auto status = s.atomically([&] {
    (void)s.files.add({"f", "o", "", "batch", 1, kNow, kNow});
    return base::failure(base::Code::kAborted, "no");
  });
  EXPECT_EQ(base::Code::kAborted, status.code);
  EXPECT_FALSE(s.files.find("o", "f").value());
}

TEST(Database, AFullDiskRefusesAndHasRoomAgain) {
  Folder folder;
  auto db = open(folder, 1 << 20);
  Storage& s = db->storage();
  base::Status status;
  uint64_t part = 0;
  while (status.ok() && part < 100) status = s.files.append("f", part++, std::string(100'000, 'x'));
  EXPECT_EQ(base::Code::kResourceExhausted, status.code);
  EXPECT_NE(std::string::npos, status.text.find("jobs.disk"));
  EXPECT_TRUE(s.files.remove("f").ok());
  EXPECT_TRUE(s.files.append("g", 0, std::string(500'000, 'x')).ok());
}

// Counted in instructions of SQLite's machine: 20,000 jobs that are over and kept are not looked through.
TEST(Database, WhatIsKeptSlowsNothingDown) {
  Folder folder;
  add(open(folder)->storage(), "a", 2);
  Statements sql(Connection::open(folder.file()).value());
  const std::string holder;
  SqliteJournal journal(sql, holder);
  SqliteBatches batches(sql);
  SqliteFiles files(sql, holder);
  ASSERT_TRUE(sql.connection().execute("BEGIN").ok());
  for (int i = 0; i < 20'000; ++i) {
    Batch kept = batch("kept " + std::to_string(i));
    kept.state = "over";
    ASSERT_TRUE(batches.add(kept).ok());
    const Job put = job(kept.id, 0);
    ASSERT_TRUE(journal.put(std::span(&put, 1)).ok());
    ASSERT_TRUE(journal.finish(put.id, {200, "", "answer"}).value());
  }
  ASSERT_TRUE(sql.connection().execute("COMMIT").ok());
  constexpr std::string_view kBegun[] = {"begun"}, kOver[] = {"over"}, kAll[] = {"begun", "over"};
  constexpr uint64_t kFew = 1000;
  (void)sql.take_steps();
  EXPECT_EQ(2u, journal.claim(5, kNow).value().size());
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_TRUE(journal.claim(5, kNow).value().empty());
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_TRUE(batches.due("k", kAll, kNow, 16).value().empty());
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_EQ(1u, batches.due("k", kOver, kNow + seconds(60), 1).value().size());
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_EQ(1u, batches.count("o", kBegun).value());
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_EQ(kBatch + 2 * 2 + 20'000 * (kBatch + 6u), files.use("o").value().bytes);
  EXPECT_LT(sql.take_steps(), kFew);
  EXPECT_EQ(16u, batches.list("o", "k", ListOrder::kNewestFirst, "", 16).value().size());
  EXPECT_LT(sql.take_steps(), kFew);
}

TEST(Database, AFileOfAnotherVersionIsLeftAlone) {
  Folder folder;
  open(folder).reset();
  ASSERT_TRUE(Connection::open(folder.file()).value().execute("PRAGMA user_version = 2").ok());
  auto opened = open_database(folder.path(), kPlenty);
  ASSERT_FALSE(opened);
  EXPECT_EQ(base::Code::kFailedPrecondition, opened.error().code);
}

TEST(Database, OthersFilesAreLeftAlone) {
  Folder folder;
  const std::string theirs(5000, 'x');
  std::ofstream(folder.file()) << theirs;
  auto opened = open_database(folder.path(), kPlenty);
  ASSERT_FALSE(opened);
  EXPECT_EQ(base::Code::kFailedPrecondition, opened.error().code);
  std::ifstream in(folder.file());
  EXPECT_EQ(theirs, std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST(Database, ADamagedFileIsToldAndEndsNothing) {
  Folder folder;
  auto db = open(folder);
  Storage& s = db->storage();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(s.files.append("f", i, std::string(50'000, 'x')).ok());
  ASSERT_TRUE(s.files.add({"f", "o", "", "batch", 1, kNow, kNow}).ok());
  db.reset();
  {
    std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8192);
    file << std::string(400'000, '\xa5');
  }
  auto opened = open_database(folder.path(), kPlenty);
  if (!opened) {
    EXPECT_EQ(base::Code::kFailedPrecondition, opened.error().code);
    return;
  }
  bool told = false;
  for (uint64_t i = 0; i < 20; ++i) told = !(*opened)->storage().files.read("f", i) || told;
  told = !(*opened)->storage().batches.add(batch("a")).ok() || told;
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace weir::jobs
