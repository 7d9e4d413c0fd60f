// The Store's work on the journal of a cluster: what waits, what is bounded, and what clients are told.
#include "jobs/shared_journal.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/log.h"
#include "copies.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::Status;

// Each piece of work by its number, as the journal is told of it.
struct Shared : testing::Test {
  void SetUp() override {
    auto opened = open_database(folder.path(), kPlenty, Whose::kAllNodes);
    if (!opened) GTEST_SKIP() << "built without SQLite";
    database = *std::move(opened);
    log.write("its beginning");
    journal.emplace(database->replica(), log, "a", SharedJournal::Bounds{kPlenty}, [](const std::string&) {});
  }
  Work remove(int number) {
    return {[this, number](Storage& s) {
              ran.push_back(number);
              (void)s.files.append(std::to_string(number), 0, "bytes");
              return Status();
            },
            {},
            Work::Admission::kGranted};
  }
  std::deque<Work> many(int from, int to) {
    std::deque<Work> out;
    for (int i = from; i < to; ++i) out.push_back(remove(i));
    return out;
  }
  FakeLog log;
  Folder folder;
  std::unique_ptr<Database> database;
  std::optional<SharedJournal> journal;
  std::vector<int> ran;
};

TEST_F(Shared, WhatWaitsForTheLogIsBoundedAndNotTriedMeanwhile) {
  log.away = true;
  const int most = int(SharedJournal::kMostWaiting);
  journal->perform(many(0, most + 100));
  Work result = remove(-1);
  int told = 0;
  result.then = [&](const Status& status) { told += status.ok(); };
  std::deque<Work> one;
  one.push_back(std::move(result));
  journal->perform(std::move(one));
  EXPECT_TRUE(ran.empty());
  EXPECT_TRUE(journal->waits());
  // A server that takes nothing is asked for one group, not for all.
  log.away = false, log.lose_acks = 1000;
  journal->stop();
  journal->perform({});
  EXPECT_LE(ran.size(), SharedJournal::kMostAtOnce);
  log.lose_acks = 0;
  ran.clear();
  journal->perform({});
  EXPECT_FALSE(journal->waits());
  EXPECT_EQ(size_t(most) + 1, ran.size());
  EXPECT_EQ(1, told);
}

// The log is full, and not away.
TEST_F(Shared, WhatWasLeftOutIsToldForEachTime) {
  testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    log.full = true;
    const int from = time * 10'000;
    journal->perform(many(from, from + int(SharedJournal::kMostWaiting) + 2));
    log.full = false;
    journal->stop();  // nothing is waited for
    journal->perform({});
    EXPECT_FALSE(journal->waits());
  }
  base::log::flush(std::chrono::seconds(10));
  const std::string lines = testing::internal::GetCapturedStderr();
  const auto count = [&](const std::string& words) {
    int times = 0;
    for (size_t at = lines.find(words); at != lines.npos; at = lines.find(words, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(2, count("are left out")) << lines;
  EXPECT_EQ(2, count("left_out=2")) << lines;
}

// The copy's own file could not be written.
TEST_F(Shared, AWriteThatFailsIsTriedAgain) {
  int tries = 0;
  std::vector<base::Code> told;
  std::deque<Work> works;
  works.push_back({[&](Storage&) { return ++tries < 3 ? base::failure(Code::kUnavailable, "no") : Status(); },
                   [&](const Status& status) { told.push_back(status.code); }, Work::Admission::kGranted});
  journal->stop();  // nothing is waited for
  journal->perform(std::move(works));
  EXPECT_EQ(2, tries);
  EXPECT_TRUE(told.empty());
  journal->perform({});
  EXPECT_EQ(3, tries);
  EXPECT_EQ(std::vector<base::Code>{Code::kOk}, told);
}

TEST_F(Shared, ALogThatIsAnotherIsNoFaultOfTheRequest) {
  journal->perform(many(0, 1));
  log.make_anew();
  log.write("somebody's");
  std::vector<Status> told;
  std::deque<Work> works;
  works.push_back({[](Storage& s) { return s.files.append("f", 0, "bytes"); },
                   [&](const Status& status) { told.push_back(status); }});
  journal->perform(std::move(works));
  ASSERT_EQ(1u, told.size());
  EXPECT_EQ(Code::kUnavailable, told[0].code) << "a client may ask another node";
  EXPECT_NE(std::string::npos, told[0].text.find("another one")) << told[0].text;
}

TEST_F(Shared, WhereMemoryIsShortEachPieceOfWorkIsAnswered) {
  log.write("what there is to read");
  log.throws = 1;
  std::vector<base::Code> told;
  std::deque<Work> works;
  for (int i = 0; i < 3; ++i)
    works.push_back({[](Storage&) { return Status(); }, [&](const Status& status) { told.push_back(status.code); }});
  journal->perform(std::move(works));
  EXPECT_EQ(std::vector<base::Code>(3, Code::kUnavailable), told);
}

// The log has nothing, and others may begin it.
struct NewShared : Shared {
  void ask() {
    log.make_anew();
    std::deque<Work> works;
    works.push_back({[](Storage& s) {
                       (void)s.files.append("f", 0, "bytes");
                       return Status();
                     },
                     [this](const Status& status) { told.push_back(status.code); }});
    journal->perform(std::move(works));
    EXPECT_TRUE(told.empty());
    EXPECT_TRUE(journal->waits());
    EXPECT_TRUE(log.entries.empty());
  }
  std::vector<base::Code> told;
};

TEST_F(NewShared, WorkWaitsForItsBeginning) {
  ask();
  log.write("another node's");
  journal->stop();  // nothing is waited for
  journal->perform({});
  EXPECT_EQ(std::vector<base::Code>{Code::kOk}, told);
  EXPECT_EQ(2u, log.entries.size());
}

TEST_F(NewShared, WorkWaitsForItsBeginningWhereThisCopyHasSomethingToo) {
  journal->perform(many(0, 1));
  testing::internal::CaptureStderr();
  ask();
  log.write("another node's");
  for (int times = 0; times < 3; ++times) journal->perform({});
  EXPECT_EQ(std::vector<base::Code>{Code::kUnavailable}, told) << "it has begun without this copy";
  base::log::flush(std::chrono::seconds(10));
  const std::string lines = testing::internal::GetCapturedStderr();
  const size_t once = lines.find("another one");
  EXPECT_LT(lines.find("is new"), once) << lines;
  EXPECT_NE(std::string::npos, once) << "that does not end by itself";
  EXPECT_EQ(std::string::npos, lines.find("another one", once + 1)) << lines;
}

TEST_F(NewShared, WorkThatFailsByItselfDoesNotWaitForIt) {
  ask();
  std::deque<Work> works;
  works.push_back({[](Storage&) { return base::failure(Code::kResourceExhausted, "too much"); },
                   [this](const Status& status) { told.push_back(status.code); }});
  journal->perform(std::move(works));
  EXPECT_EQ(std::vector<base::Code>{Code::kResourceExhausted}, told);
}

TEST_F(NewShared, WorkThatWaitsForItIsBounded) {
  log.away = true;
  journal->perform(many(0, int(SharedJournal::kMostWaiting)));
  log.away = false;
  log.make_anew();
  std::deque<Work> works;
  works.push_back({[](Storage& s) { return s.files.append("f", 0, "bytes"); },
                   [this](const Status& status) { told.push_back(status.code); }});
  journal->perform(std::move(works));
  EXPECT_EQ(std::vector<base::Code>{Code::kUnavailable}, told);
}

TEST_F(NewShared, WorkThatWaitsForItsBeginningIsToldWhenItGoesAway) {
  ask();
  log.away = true;
  journal->perform({});
  EXPECT_EQ(std::vector<base::Code>{Code::kUnavailable}, told);
  EXPECT_FALSE(journal->waits());
}

}  // namespace
}  // namespace weir::jobs
