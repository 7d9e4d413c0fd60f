// A NatsLog and a real nats-server, which the test starts; skipped where there is none.
#include <future>

#include "cluster/log_message.h"
#include "nats_log_fixture.h"

namespace weir::cluster {
namespace {

TEST_F(NatsLogTest, EntriesComeInOneOrderToAll) {
  auto a = open(), b = open();
  EXPECT_EQ(a->extent()->identity, b->extent()->identity);
  const uint64_t first = a->append("1", "one").value();
  const uint64_t second = b->append("2", "two").value();
  EXPECT_LT(first, second);
  for (auto* log : {a.get(), b.get()}) {
    auto entry = log->next(0).value();
    ASSERT_TRUE(entry);
    EXPECT_EQ("one", entry->bytes);
    entry = log->next(first).value();
    EXPECT_EQ("two", entry->bytes);
    EXPECT_FALSE(entry->gap);
    EXPECT_FALSE(log->next(second).value());
  }
  EXPECT_EQ(first, a->append("1", "one").value());  // again: its acknowledgement may have been lost
}

TEST_F(NatsLogTest, TheLogHasABoundWhichIsHalvedWhereTheServerHasNoRoom) {
  EXPECT_EQ(most, open()->room()->most);
  server.kill();
  server.forget();
  server.room = "700MB", most = uint64_t(4) << 30;
  server.start();
  EXPECT_EQ(uint64_t(512) << 20, open()->room()->most);
}

TEST_F(NatsLogTest, OthersAreToldOfAnEntry) {
  auto a = open(), b = open();
  ASSERT_FALSE(b->next(0).value());
  const int before = news;
  ASSERT_TRUE(a->append("1", "one"));
  EXPECT_TRUE(until([&] { return news > before; }));
}

TEST_F(NatsLogTest, ALongEntryIsInParts) {
  auto log = open("a key");
  std::string bytes(5 * NatsLog::kPart + 3, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(i * 7 + (i >> 12));
  const uint64_t sequence = log->append("1", bytes).value();
  auto entry = log->next(0).value();
  ASSERT_TRUE(entry);
  EXPECT_TRUE(bytes == entry->bytes);
  EXPECT_EQ(sequence, entry->sequence);
  const uint64_t next = log->append("2", bytes).value();
  entry = log->next(sequence).value();
  EXPECT_EQ(next, entry->sequence);
  EXPECT_FALSE(entry->gap);  // what is between are parts
  EXPECT_EQ(Code::kResourceExhausted, log->append("3", std::string(NatsLog::kLargest + 1, 'x')).error().code);
}

TEST_F(NatsLogTest, WhatWasWrittenWithoutTheKeyIsAnEmptyEntry) {
  auto node = open("the key"), liar = open("another key"), nobody = open();
  ASSERT_TRUE(liar->append("1", "a lie"));
  ASSERT_TRUE(nobody->append("2", "a lie"));
  const uint64_t last = node->append("3", "true").value();
  uint64_t at = 0;
  std::string read;
  while (auto entry = node->next(at).value()) at = entry->sequence, read += '[' + entry->bytes + ']';
  EXPECT_EQ("[][][true]", read);
  EXPECT_EQ(last, at);
  ASSERT_TRUE(liar->set_snapshot({1, 1, {{1, digest_of("x")}}}).ok());
  EXPECT_FALSE(node->snapshot().value());
}

TEST_F(NatsLogTest, WhatWasSealedForAStreamThatIsGoneIsNoneInTheNextOne) {
  auto node = open("the key");
  const uint64_t last = node->append("1", "once").value();
  ASSERT_TRUE(node->append("2", std::string(2 * NatsLog::kPart, 'x')));
  ASSERT_TRUE(node->set_snapshot({last, 4, {node->append_part("copy").value()}}).ok());
  const std::string once = plain()->get(last).value()->bytes, parts = last_of("entry"), snapshot = last_of("snapshot");
  const std::string part = plain()->get(last + 1).value()->bytes;
  make_anew();
  raw("entry", once);  // sequences as they were
  for (int i = 0; i < 2; ++i) raw("part", part);
  raw("entry", parts), raw("snapshot", snapshot);
  auto another = open("the key");
  uint64_t at = 0;
  std::string read;
  while (auto entry = another->next(at).value()) at = entry->sequence, read += '[' + entry->bytes + ']';
  EXPECT_EQ("[][]", read);
  EXPECT_FALSE(another->snapshot().value());
}

TEST_F(NatsLogTest, AStreamThatIsMadeAnewIsNoticedWhileTheConnectionStays) {
  auto node = open("the key");
  ASSERT_TRUE(node->append("1", "one"));
  ASSERT_TRUE(node->append("2", "two"));
  const std::string before = node->extent()->identity;
  make_anew();
  EXPECT_EQ(Code::kUnavailable, node->append("3", "three").error().code);  // its sequence is no later one
  EXPECT_NE(before, node->extent()->identity);
  ASSERT_TRUE(node->append("4", "four"));
  const std::string then = node->extent()->identity;
  make_anew();
  EXPECT_TRUE(until([&] { return node->extent() && node->extent()->identity != then; }));  // though it writes nothing
  ASSERT_TRUE(node->append("5", "five"));
  EXPECT_EQ("five", open("the key")->next(0).value()->bytes);
}

// Neither what was written without the key hides a snapshot, nor an older one that somebody sends again.
TEST_F(NatsLogTest, TheNewestSnapshotThatIsSealedIsFound) {
  auto node = open("the key"), liar = open("another key");
  std::string older;
  for (int i = 0; i < 2; ++i) {
    const uint64_t last = node->append(std::to_string(i), "entry").value();
    ASSERT_TRUE(node->set_snapshot({last, 4, {node->append_part("copy").value()}}).ok());
    if (i == 0) older = last_of("snapshot");
  }
  const uint64_t newest = node->snapshot().value()->sequence;
  EXPECT_EQ(newest, node->next(1).value()->sequence);
  ASSERT_TRUE(liar->set_snapshot({newest + 100, 1, {{1, digest_of("x")}}}).ok());
  raw("snapshot", "x"), raw("snapshot", older);
  auto another = open("the key");
  for (NatsLog* one : {node.get(), another.get()}) {
    const auto there = one->snapshot().value();
    ASSERT_TRUE(there);
    EXPECT_EQ(newest, there->sequence);
    EXPECT_EQ("copy", one->read_part(there->parts[0]).value());
  }
}

TEST_F(NatsLogTest, AnOlderSnapshotTakesNoNewerOnesPlace) {
  auto a = open(), b = open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a->append(std::to_string(i), "entry"));
  const auto part = a->append_part("copy").value();
  ASSERT_TRUE(a->set_snapshot({2, 4, {part}}).ok());
  EXPECT_EQ(Code::kAborted, b->set_snapshot({1, 4, {part}}).code);
  EXPECT_EQ(Code::kAborted, b->set_snapshot({2, 4, {part}}).code);
  EXPECT_TRUE(b->set_snapshot({3, 4, {part}}).ok());
  EXPECT_EQ(3u, a->snapshot().value()->sequence);
}

TEST_F(NatsLogTest, AServerThatTakesShortMessagesHasShortParts) {
  server.kill();
  server.more = "max_payload: 65536\n";
  server.start();
  auto log = open();
  const std::string bytes(300'000, 'x');
  ASSERT_TRUE(log->append("1", bytes));
  EXPECT_TRUE(log->next(0).value()->bytes == bytes);
  const NatsLog::Sizes sizes = log->sizes();
  EXPECT_EQ(32768u, sizes.part);
  EXPECT_TRUE(log->append_part(std::string(sizes.part, 'x')));
  EXPECT_EQ(sizes.part * NatsLog::kMostParts, sizes.entry);
  const uint64_t last = log->append("2", std::string(sizes.entry, 'y')).value();
  EXPECT_EQ(sizes.entry, log->next(last - 1).value()->bytes.size());
  EXPECT_EQ(Code::kResourceExhausted, log->append("3", std::string(sizes.entry + 1, 'z')).error().code);
}

TEST_F(NatsLogTest, ASnapshotOfTooManyPartsDropsNothing) {
  server.kill();
  server.more = "max_payload: 2048\n";
  server.start();
  auto log = open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log->append(std::to_string(i), "entry"));
  const auto part = log->append_part("copy").value();
  const std::vector<NatsLog::Part> many(2000, part);
  const auto before = log->room()->used;
  EXPECT_EQ(Code::kResourceExhausted, log->set_snapshot({3, 4 * many.size(), many}).code);
  EXPECT_EQ(before, log->room()->used);
  EXPECT_EQ("entry", log->next(0).value()->bytes);
  const std::vector<NatsLog::Part> some(900, part);
  ASSERT_TRUE(log->set_snapshot({3, 4 * some.size(), some}).ok());
  EXPECT_EQ(900u, log->snapshot().value()->parts.size());
}

TEST_F(NatsLogTest, EntriesAndPartsThatWereDroppedAreAGap) {
  auto log = open();
  const std::string bytes(3 * NatsLog::kPart, 'x');
  const uint64_t first = log->append("1", "one").value(), second = log->append("2", bytes).value();
  EXPECT_FALSE(log->next(0).value()->gap);
  EXPECT_FALSE(log->next(first).value()->gap);
  auto stream = plain();
  ASSERT_TRUE(stream->drop_before(first + 1).ok());
  EXPECT_TRUE(log->next(0).value()->gap);
  EXPECT_FALSE(log->next(first).value()->gap);
  ASSERT_TRUE(stream->drop_before(first + 2).ok());
  EXPECT_TRUE(log->next(first).value()->gap);
  EXPECT_TRUE(log->next(second - 1).value()->gap);  // of its parts
}

TEST_F(NatsLogTest, APlaceHasAnEntryOrSomethingElseOrWasDropped) {
  auto log = open("the key");
  const std::string bytes(2 * NatsLog::kPart, 'x');
  const uint64_t first = log->append("1", "one").value(), second = log->append("2", bytes).value();
  const uint64_t lie = raw("entry", "a lie");
  const auto place = [&](uint64_t sequence) {
    const NatsLog::Place is = log->at(sequence).value();
    return std::pair(is.entry, is.dropped);
  };
  EXPECT_EQ("one", log->at(first)->bytes);
  EXPECT_TRUE(log->at(second)->bytes == bytes);
  EXPECT_EQ(std::pair(true, false), place(second));
  EXPECT_EQ(std::pair(false, false), place(second - 1));  // a part
  EXPECT_EQ(std::pair(true, false), place(lie));
  EXPECT_EQ("", log->at(lie)->bytes);
  EXPECT_EQ(std::pair(false, false), place(lie + 1));  // lost, or not there yet
  ASSERT_TRUE(plain()->drop_before(second).ok());
  EXPECT_EQ(std::pair(false, true), place(first));
  EXPECT_TRUE(place(second).second);  // its parts
}

// A peer that sees an answer of the server come may be the first one to answer, with a sequence of its own.
TEST_F(NatsLogTest, APartThatIsNotTheOneThatWasWrittenIsNone) {
  auto node = open("the key"), liar = open("another key");
  const std::string bytes(2 * NatsLog::kPart, 'x'), lie(NatsLog::kPart, 'y');
  const auto part = node->append_part(std::string(NatsLog::kPart, 'x')).value();
  const auto forged = liar->append_part(lie).value();
  EXPECT_EQ(std::string(NatsLog::kPart, 'x'), node->read_part(part).value());
  EXPECT_EQ(Code::kDataLoss, node->read_part({forged.sequence, part.digest}).error().code);
  const std::string identity = node->extent()->identity;
  auto publish = [&](const PartList& list) {
    return raw("entry", seal_message({"the key", identity}, LogMessage::kInParts, write_list(list)));
  };
  publish({bytes.size(), {{part.sequence, part.digest}, {part.sequence, part.digest}}});
  publish({bytes.size(), {{part.sequence, part.digest}, {forged.sequence, part.digest}}});
  auto first = node->next(0).value();
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->bytes == bytes);
  EXPECT_EQ("", node->next(first->sequence).value()->bytes);
}

TEST_F(NatsLogTest, ASnapshotDropsWhatIsBefore) {
  auto log = open();
  uint64_t last = 0;
  for (int i = 0; i < 300; ++i) last = log->append(std::to_string(i), "entry").value();
  EXPECT_FALSE(log->snapshot().value());
  NatsLog::Snapshot snapshot{last, 8, {log->append_part("half").value(), log->append_part("more").value()}};
  const uint64_t before = log->room()->used;
  ASSERT_TRUE(log->set_snapshot(snapshot).ok());
  auto there = log->snapshot().value();
  ASSERT_TRUE(there);
  EXPECT_EQ(last, there->sequence);
  EXPECT_EQ(8u, there->bytes);
  ASSERT_EQ(2u, there->parts.size());
  EXPECT_EQ("halfmore", log->read_part(there->parts[0]).value() + log->read_part(there->parts[1]).value());
  EXPECT_EQ("", log->read_part({1, there->parts[0].digest}).value());
  EXPECT_EQ(Code::kDataLoss, log->read_part({last, there->parts[0].digest}).error().code);  // an entry is no part
  EXPECT_LT(log->room()->used, before);
  EXPECT_TRUE(log->next(5).value()->gap);
  EXPECT_FALSE(log->next(last - 1).value()->gap);
}

TEST_F(NatsLogTest, WithoutTheServerItFailsAtOnceAndComesBack) {
  auto log = open();
  ASSERT_TRUE(log->append("1", "one"));
  const std::string identity = log->extent()->identity;
  server.kill();
  ASSERT_TRUE(until([&] { return !log->connected(); }));
  EXPECT_EQ(Code::kUnavailable, log->append("2", "two").error().code);
  EXPECT_EQ(Code::kUnavailable, log->next(0).error().code);
  server.start();
  ASSERT_TRUE(until([&] { return log->connected() && log->extent().has_value(); }));
  EXPECT_EQ(identity, log->extent()->identity);
  EXPECT_EQ("one", log->next(0).value()->bytes);
  EXPECT_FALSE(log->next(1).value());  // what failed has not come later
}

// The part is longer than what the system takes for a peer that does not read.
TEST_F(NatsLogTest, AServerThatHangsInTheMiddleOfAPartEndsNeitherAppendNorStop) {
  auto log = open();
  ASSERT_TRUE(log->append("1", "one"));
  server.pause();
  auto appended = std::async(std::launch::async, [&] {
    base::Status last;
    for (int i = 0; i < 3; ++i)
      if (auto part = log->append_part(std::string(NatsLog::kPart, 'x')); !part) last = part.error();
    return last;
  });
  EXPECT_EQ(std::future_status::ready, appended.wait_for(seconds(30)));
  auto stopped = std::async(std::launch::async, [&] { log->stop(); });
  EXPECT_EQ(std::future_status::ready, stopped.wait_for(seconds(30)));
  server.kill();
  EXPECT_EQ(Code::kUnavailable, appended.get().code);
}

TEST_F(NatsLogTest, ALogThatIsAbandonedAnswersAtOnce) {
  auto log = open();
  ASSERT_TRUE(log->append("1", "one"));
  log->abandon();
  EXPECT_FALSE(log->connected());
  EXPECT_EQ(Code::kUnavailable, log->append("2", "two").error().code);
  EXPECT_EQ(Code::kUnavailable, log->extent().error().code);
  log->stop();
  EXPECT_FALSE(open()->next(1).value());
}

}  // namespace
}  // namespace weir::cluster
