#include "net/readiness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

#include "net/fd.h"
#include "net/socket.h"

namespace weir::net {
namespace {

constexpr size_t kPerTurn = 8;

// Always has more to read: asks again at the end of each turn in which it was served, as connections do.
struct Uploader final : Readiness::Watcher {
  explicit Uploader(std::deque<Uploader*>& its_served) : served(its_served) {}
  void ready(uint32_t) override {
    ++times;
    served.push_back(this);
  }
  std::deque<Uploader*>& served;
  int times = 0;
};

struct Loop {
  // The shard's work in a turn that is full after a few reads.
  void turn() {
    io.restart();
    sockets.arm();
    io.poll();
    for (size_t i = 0; i < kPerTurn; ++i)
      if (!sockets.next()) break;
    for (; !served.empty(); served.pop_front()) sockets.again(*served.front());
  }
  boost::asio::io_context io{1};
  Readiness sockets{io};
  std::deque<Uploader*> served;
};

TEST(Readiness, WhoeverAsksAgainComesBehindThoseWhoWait) {
  Loop loop;
  std::deque<Uploader> uploaders;
  for (int i = 0; i < 20; ++i) loop.sockets.again(uploaders.emplace_back(loop.served));
  for (int i = 0; i < 5; ++i) loop.turn();
  for (const auto& one : uploaders) EXPECT_EQ(one.times, 2);
}

TEST(Readiness, NewsFromTheKernelDoesNotKeepThoseWaitingWhoAskedAgain) {
  Loop loop;
  Uploader patient(loop.served);
  std::deque<Uploader> busy;
  std::deque<Fd> near, far;
  for (size_t i = 0; i < kPerTurn; ++i) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    near.emplace_back(pair[0]);
    far.emplace_back(pair[1]);
    ASSERT_TRUE(loop.sockets.add(pair[0], busy.emplace_back(loop.served)));
  }
  auto write_all = [&] {
    for (const auto& fd : far) ASSERT_EQ(::write(fd.get(), "x", 1), 1);
  };
  write_all();
  loop.turn();
  loop.sockets.again(patient);
  for (int i = 0; i < 10; ++i) write_all(), loop.turn();
  EXPECT_GE(patient.times, 2);
  for (const auto& one : busy) EXPECT_GE(one.times, 2);
}

// Two sockets at once: more have often come by the next turn, and are found without the loop. One: the loop is asked.
TEST(Readiness, SocketsThatComeTogetherAreLookedForWithoutTheLoop) {
  Loop loop;
  std::deque<Uploader> watchers;
  std::deque<Fd> near, far;
  for (size_t i = 0; i < 2; ++i) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    near.emplace_back(pair[0]);
    far.emplace_back(pair[1]);
    ASSERT_TRUE(loop.sockets.add(pair[0], watchers.emplace_back(loop.served)));
  }
  auto write_to = [&](size_t i) { ASSERT_EQ(::write(far[i].get(), "x", 1), 1); };
  auto serve_all = [&] {
    while (loop.sockets.next()) {
    }
  };
  write_to(0), write_to(1);
  EXPECT_FALSE(loop.sockets.look());
  loop.sockets.arm();
  loop.io.poll();
  serve_all();
  EXPECT_EQ(watchers[0].times + watchers[1].times, 2);
  write_to(0), write_to(1);
  EXPECT_TRUE(loop.sockets.look());
  serve_all();
  write_to(0);
  EXPECT_TRUE(loop.sockets.look());
  serve_all();
  write_to(1);
  EXPECT_FALSE(loop.sockets.look());
  loop.io.restart();
  loop.sockets.arm();
  loop.io.poll();
  serve_all();
  EXPECT_EQ(watchers[0].times + watchers[1].times, 6);
}

TEST(Readiness, AskingAgainTwiceIsAskingOnce) {
  Loop loop;
  Uploader one(loop.served);
  loop.sockets.again(one);
  loop.sockets.again(one);
  while (loop.sockets.next()) {
  }
  EXPECT_EQ(one.times, 1);
  loop.sockets.again(one);
  loop.sockets.remove(-1, one);
  EXPECT_FALSE(loop.sockets.next());
  loop.sockets.again(one);
  EXPECT_TRUE(loop.sockets.next());
  EXPECT_EQ(one.times, 2);
}

struct Silent final : Socket::Owner {
  void on_readable() override {}
  void on_writable() override {}
  void on_broken() override {}
};

// A child that has not yet run its program holds a copy of each descriptor; meanwhile the connection of a closed one
// stays open, and its peer goes on.
TEST(Readiness, ASocketThatIsClosedWhileAnotherProcessHoldsItTellsNothingMore) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  const Fd peer(pair[1]), copy(::fcntl(pair[0], F_DUPFD_CLOEXEC, 0));
  Shard::Parts shard(base::ShardId(0), Pin::kNo);
  Silent owner;
  Socket socket(shard, Fd(pair[0]), owner);
  auto turn = [&] {
    shard.io.restart();
    shard.sockets.arm();
    shard.io.poll();
    size_t told = 0;
    while (shard.sockets.next()) ++told;
    return told;
  };
  ASSERT_EQ(::write(peer.get(), "x", 1), 1);
  EXPECT_EQ(turn(), 1u);
  socket.close();
  ASSERT_EQ(::write(peer.get(), "x", 1), 1);
  EXPECT_EQ(turn(), 0u);
}

}  // namespace
}  // namespace weir::net
