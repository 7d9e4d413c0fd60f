#include "net/inherited.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "lab.h"
#include "net/address.h"

namespace weir::net {
namespace {

using lab::Peer;
using lab::Rig;

Endpoint endpoint(const std::string& text) { return resolve(text).value().at(0); }

// A manager that has opened a socket at a port of its own.
struct Manager {
  explicit Manager(Sharing sharing) : fd(listen_at(endpoint("127.0.0.1:0"), sharing).value()) {}
  uint16_t port() const { return local_endpoint(fd).port(); }
  std::string address() const { return local_endpoint(fd).text(); }
  Fd copy() const { return Fd(::dup(fd.get())); }
  Fd fd;
};

InheritedSockets handed(const Manager& manager) {
  std::vector<Fd> sockets;
  sockets.push_back(manager.copy());
  return InheritedSockets(std::move(sockets));
}

// A process of the service: it serves, and drains when it goes.
struct Process : Rig {
  Process(const Manager& manager, int shards) : Rig(ServerOptions{.listen = {{manager.address()}}}, shards) {
    server->inherit(handed(manager));
    auto status = server->bind();
    EXPECT_TRUE(status.ok()) << status.text;
    shared = server->share_sockets();
    server->start();
  }
  void drain() {
    std::promise<bool> clean;
    server->drain([&](bool it_was) { clean.set_value(it_was); });
    EXPECT_TRUE(clean.get_future().get());
  }
  std::vector<int> shared;
};

TEST(InheritedSockets, ClientsThatCameBeforeTheProcessAreServed) {
  Manager manager(Sharing::kPerShard);
  Peer early(manager.port());
  ASSERT_TRUE(early.send("hello"));
  Process process(manager, 2);
  EXPECT_EQ(process.shared.size(), 2u);  // the second shard has a socket of its own
  EXPECT_EQ(process.server->bound(), std::vector<std::string>{manager.address()});
  EXPECT_EQ(early.read(11), "sniff:hello");
}

TEST(InheritedSockets, NobodyIsRefusedBetweenTwoProcesses) {
  Manager manager(Sharing::kPerShard);
  {
    Process first(manager, 1);
    Peer client(manager.port());
    ASSERT_TRUE(client.send("one"));
    EXPECT_EQ(client.read(9), "sniff:one");
    first.drain();
  }
  Peer between(manager.port());
  ASSERT_TRUE(between.connected());
  ASSERT_TRUE(between.send("two"));
  Process second(manager, 1);
  EXPECT_EQ(between.read(9), "sniff:two");
}

TEST(InheritedSockets, ShardsShareASocketThatKeepsItsPortToItself) {
  Manager manager(Sharing::kAlone);
  Process process(manager, 3);
  EXPECT_EQ(process.shared.size(), 3u);
  for (int i = 0; i < 20; ++i) {
    Peer peer(manager.port());
    ASSERT_TRUE(peer.send("hello"));
    EXPECT_EQ(peer.read(11), "sniff:hello");
  }
}

TEST(InheritedSockets, SocketsOfMoreShardsThanThereAreNowAreAllServed) {
  Manager one(Sharing::kPerShard);
  Fd other = listen_at(endpoint(one.address()), Sharing::kPerShard).value();
  std::vector<Fd> sockets;
  sockets.push_back(one.copy());
  sockets.push_back(Fd(::dup(other.get())));
  Rig rig(ServerOptions{.listen = {{one.address()}}}, 1);
  rig.server->inherit(InheritedSockets(std::move(sockets)));
  ASSERT_TRUE(rig.server->bind().ok());
  rig.server->start();
  for (int i = 0; i < 40; ++i) {  // the kernel deals them out to both sockets
    Peer peer(one.port());
    ASSERT_TRUE(peer.send("hello"));
    EXPECT_EQ(peer.read(11), "sniff:hello");
  }
}

TEST(InheritedSockets, AnAddressThatNobodyListensAtAnyMoreRefusesItsClients) {
  Manager manager(Sharing::kPerShard);
  Rig rig(lab::loopback());
  rig.server->inherit(handed(manager));
  ASSERT_TRUE(rig.server->bind().ok());
  EXPECT_NE(rig.port(), manager.port());
  EXPECT_FALSE(Peer(manager.port()).connected());
}

// The socket that holds the port is the server's own.
TEST(InheritedSockets, AnAddressIsAddedBesideAllAddressesOfItsPort) {
  for (const std::string had : {"0.0.0.0:", "127.0.0.1:"}) {
    Fd socket = listen_at(endpoint(had + "0"), Sharing::kPerShard).value();
    const std::string port = std::to_string(local_endpoint(socket).port());
    std::vector<Fd> sockets;
    sockets.push_back(Fd(::dup(socket.get())));
    Rig rig(ServerOptions{.listen = {{"0.0.0.0:" + port}, {"127.0.0.1:" + port}}}, 1);
    rig.server->inherit(InheritedSockets(std::move(sockets)));
    const auto status = rig.server->bind();
    EXPECT_TRUE(status.ok()) << "behind " << had << ": " << status.text;
  }
}

TEST(InheritedSockets, TheFileOfAUnixSocketStaysForTheNextProcess) {
  const std::string path = std::filesystem::temp_directory_path() / ("weir-inherited-" + std::to_string(::getpid()));
  Fd socket = listen_at(endpoint("unix:" + path), Sharing::kAlone).value();
  for (int process = 0; process < 2; ++process) {
    std::vector<Fd> sockets;
    sockets.push_back(Fd(::dup(socket.get())));
    Rig rig(ServerOptions{.listen = {{"unix:" + path}}}, 1);
    rig.server->inherit(InheritedSockets(std::move(sockets)));
    ASSERT_TRUE(rig.server->bind().ok());
    rig.server->share_sockets();
    rig.server->start();
    Peer peer(path);
    ASSERT_TRUE(peer.send("hello"));
    EXPECT_EQ(peer.read(11), "sniff:hello");
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

// As of a .socket unit, or of the process before this one.
TEST(InheritedSockets, TheModeOfAUnixSocketIsSetWhereItIsAskedFor) {
  const std::string path = std::filesystem::temp_directory_path() / ("weir-inherited-" + std::to_string(::getpid()));
  Fd socket = listen_at(endpoint("unix:" + path + "?mode=0600"), Sharing::kAlone).value();
  for (const std::string mode : {"", "?mode=0660", "?mode=0660"}) {
    std::vector<Fd> sockets;
    sockets.push_back(Fd(::dup(socket.get())));
    Rig rig(ServerOptions{.listen = {{"unix:" + path + mode}}}, 1);
    rig.server->inherit(InheritedSockets(std::move(sockets)));
    ASSERT_TRUE(rig.server->bind().ok());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, mode.empty() ? 0600u : 0660u);
    rig.server->share_sockets();
  }
  std::filesystem::remove(path);
}

TEST(InheritedSockets, WhatDoesNotListenIsClosed) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  Fd ours(pair[0]);
  std::vector<Fd> sockets;
  sockets.emplace_back(pair[1]);
  InheritedSockets none(std::move(sockets));
  char byte;
  EXPECT_EQ(::read(ours.get(), &byte, 1), 0);
}

// A copy out of the way of the descriptors that are handed over; none where `fd` is not open.
Fd out_of_the_way(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 64)); }

TEST(InheritedSockets, TheVariablesOfAnotherProcessAreNotOurs) {
  Fd saved = out_of_the_way(3), socket = out_of_the_way(Manager(Sharing::kAlone).fd.get());
  ASSERT_EQ(::dup2(socket.get(), 3), 3);
  const Endpoint at = local_endpoint(socket);
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", std::to_string(::getppid()).c_str(), 1);
  EXPECT_TRUE(InheritedSockets::from_environment().value().take(at).empty());
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  auto taken = InheritedSockets::from_environment().value().take(at);
  EXPECT_EQ(taken.size(), 1u);
  for (const auto& fd : taken) EXPECT_TRUE(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK);
  ::unsetenv("LISTEN_FDS");
  ::unsetenv("LISTEN_PID");
  taken.clear();
  if (saved) ::dup2(saved.get(), 3);
}

// Descriptors that this process has opened itself must not be closed as sockets that nobody listens at.
TEST(InheritedSockets, MoreThanTheManagerHasGivenIsAnError) {
  Fd saved = out_of_the_way(3), saved_too = out_of_the_way(4),
     socket = out_of_the_way(Manager(Sharing::kAlone).fd.get());
  ASSERT_EQ(::dup2(socket.get(), 3), 3);
  ASSERT_EQ(::dup3(socket.get(), 4, O_CLOEXEC), 4);
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  auto given = InheritedSockets::from_environment();
  ASSERT_FALSE(given);
  EXPECT_NE(given.error().text.find("LISTEN_FDS is 2, but descriptor 4 "), std::string::npos) << given.error().text;
  EXPECT_EQ(::fcntl(4, F_GETFD), FD_CLOEXEC) << "it stays open";
  ::close(4);
  EXPECT_FALSE(InheritedSockets::from_environment());
  ::unsetenv("LISTEN_FDS");
  ::unsetenv("LISTEN_PID");
  ::close(3);
  if (saved) ::dup2(saved.get(), 3);
  if (saved_too) ::dup2(saved_too.get(), 4);
}

}  // namespace
}  // namespace weir::net
