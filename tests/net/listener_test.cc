// Addresses: what a server can listen at, and what it says when it cannot.
#include "net/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>

#include "lab.h"
#include "net/address.h"

namespace weir::net {
namespace {

using lab::loopback;
using lab::Peer;
using lab::Rig;
using lab::Running;

struct Folder {
  Folder() {
    char name[] = "/tmp/weir-net-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() {
    for (const auto& file : {"a.sock", "b.sock"}) ::unlink((path + "/" + file).c_str());
    ::rmdir(path.c_str());
  }
  std::string path;
};

TEST(Server, ListensAtUnixSocketsForAllShardsAndCleansUp) {
  Folder folder;
  std::string path = folder.path + "/a.sock";
  ServerOptions options;
  options.listen = {{"unix:" + path}, {"127.0.0.1:0"}};
  {
    Running rig(options, 2);
    EXPECT_EQ(rig.server->bound().at(0), "unix:" + path);
    std::vector<Peer> peers;
    for (int i = 0; i < 10; ++i) peers.emplace_back(path);
    for (auto& peer : peers) ASSERT_TRUE(peer.send("x"));
    for (auto& peer : peers) EXPECT_EQ(peer.read(7), "sniff:x");
    EXPECT_EQ(rig.metric("weir_connections_total{by=\"unix\"}"), "10");
    Peer tcp(rig.port(1));
    ASSERT_TRUE(tcp.send("y"));
    EXPECT_EQ(tcp.read(7), "sniff:y");
  }
  struct stat info {};
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST(Server, TheModeOfAUnixSocketIsSetWhereItIsAskedFor) {
  Folder folder;
  ServerOptions options;
  options.listen = {{"unix:" + folder.path + "/a.sock?mode=0660"}, {"unix:" + folder.path + "/b.sock"}};
  const mode_t before = ::umask(0027);
  Running rig(options);
  ::umask(before);
  EXPECT_EQ(rig.server->bound(), (std::vector{"unix:" + folder.path + "/a.sock", "unix:" + folder.path + "/b.sock"}));
  struct stat asked {
  }, left{};
  ASSERT_EQ(::stat((folder.path + "/a.sock").c_str(), &asked), 0);
  ASSERT_EQ(::stat((folder.path + "/b.sock").c_str(), &left), 0);
  EXPECT_EQ(asked.st_mode & 0777u, 0660u);
  EXPECT_EQ(left.st_mode & 0777u, 0750u) << "as the umask says";
  Peer peer(folder.path + "/a.sock");
  ASSERT_TRUE(peer.send("x"));
  EXPECT_EQ(peer.read(7), "sniff:x");
}

TEST(Server, AStaleSocketFileIsReplacedButAServerThatAnswersIsNot) {
  Folder folder;
  std::string path = folder.path + "/a.sock";
  {
    Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ServerOptions options;
  options.listen = {{"unix:" + path}};
  Running rig(options);
  Rig second(options);
  auto status = second.server->bind();
  EXPECT_EQ(status.code, base::Code::kUnavailable);
  EXPECT_NE(status.text.find("in use"), std::string::npos) << status.text;
  second.server.reset();
  Peer peer(path);
  EXPECT_TRUE(peer.connected()) << "the second server took the first one's file away";
}

TEST(Server, AFileThatIsNoSocketIsNotTouched) {
  Folder folder;
  std::string path = folder.path + "/a.sock";
  Fd(::open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  ServerOptions options;
  options.listen = {{"unix:" + path}};
  Rig rig(options);
  EXPECT_EQ(rig.server->bind().code, base::Code::kUnavailable);
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
}

TEST(Server, AnAddressInUseIsNamedInTheError) {
  Running rig;
  auto options = loopback();
  options.listen[0].text = rig.server->bound()[0];
  Rig second(options);
  auto status = second.server->bind();
  EXPECT_EQ(status.code, base::Code::kUnavailable);
  EXPECT_EQ(status.text, "cannot listen at " + rig.server->bound()[0] + ": the address is in use by another process");
  EXPECT_TRUE(second.server->bound().empty());
}

TEST(Server, AddressesThatMakeNoSenseAreNamedInTheError) {
  for (const char* text : {"8080", "127.0.0.1:", "127.0.0.1:70000", "::1:80", "unix:", "unix:/tmp/weir.sock?mode=rw",
                           "unix:/tmp/weir.sock?mode=4755", "nosuch.invalid:1"}) {
    ServerOptions options;
    options.listen = {{text}};
    Rig rig(options);
    auto status = rig.server->bind();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_FALSE(status.text.empty());
  }
}

TEST(Server, HostNamesAndBothFamiliesWork) {
  ServerOptions options;
  options.listen = {{"localhost:0"}, {"*:0"}};
  Running rig(options, 2);
  Peer by_name(rig.port(0)), by_any(rig.port(rig.server->bound().size() - 1));
  ASSERT_TRUE(by_name.send("x") && by_any.send("y"));
  EXPECT_EQ(by_name.read(7), "sniff:x");
  EXPECT_EQ(by_any.read(7), "sniff:y");
}

// Peers that come over IPv4 and IPv6.
TEST(Server, AnyAddressOfBothFamiliesMayShareAPort) {
  if (!Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))) GTEST_SKIP() << "this machine has no IPv6";
  const std::string port = std::to_string(Running().port(0));  // free again
  for (bool six_first : {true, false}) {
    ServerOptions options;
    options.listen = {{"0.0.0.0:" + port}, {"[::]:" + port}};
    if (six_first) std::swap(options.listen[0], options.listen[1]);
    Running rig(options, 2);
    EXPECT_EQ(rig.server->bound().size(), 2u);
    Peer four(rig.port(0));
    ASSERT_TRUE(four.send("x"));
    EXPECT_EQ(four.read(7), "sniff:x");
  }
  const std::vector<std::string_view> alone{"[::]:8080", "0.0.0.0:8081", "127.0.0.1:8080"};
  EXPECT_FALSE(resolve_all(alone).value()[0][0].ipv6_only) << "it serves IPv4, too";
}

TEST(Server, OneAddressMayShareThePortOfAllOthers) {
  if (!Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))) GTEST_SKIP() << "this machine has no IPv6";
  const std::string port = std::to_string(Running().port(0));  // free again
  for (auto [all, one_first] : {std::pair{"[::]:", true}, {"[::]:", false}, {"0.0.0.0:", true}, {"0.0.0.0:", false}}) {
    ServerOptions options;
    options.listen = {{"127.0.0.1:" + port}, {all + port}};
    if (!one_first) std::swap(options.listen[0], options.listen[1]);
    Running rig(options, 2);
    EXPECT_EQ(rig.server->bound(), (std::vector{options.listen[0].text, options.listen[1].text}));
    for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
      Peer peer(rig.port(0), address);
      ASSERT_TRUE(peer.send("x"));
      EXPECT_EQ(peer.read(7), "sniff:x");
    }
    Rig second(options);
    EXPECT_NE(second.server->bind().text.find("in use by another process"), std::string::npos);
  }
  // Each gets its own.
  Fd all = listen_at(resolve("[::]:" + port).value().front(), Sharing::kPerShard).value();
  Fd one = listen_at(resolve("127.0.0.1:" + port).value().front(), Sharing::kPerShard).value();
  const auto accepts = [](const Fd& fd) { return bool(Fd(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC))); };
  Peer to_one(uint16_t(std::stoi(port)));
  EXPECT_TRUE(accepts(one));
  EXPECT_FALSE(accepts(all));
  Peer to_another(uint16_t(std::stoi(port)), "127.0.0.2");
  EXPECT_TRUE(accepts(all));
  EXPECT_FALSE(accepts(one));
}

TEST(Server, AnAddressThatIsListedTwiceIsNamedInTheError) {
  Folder folder;
  const std::string port = std::to_string(Running().port(0));
  for (const std::string& text : {"127.0.0.1:" + port, "unix:" + folder.path + "/a.sock"}) {
    ServerOptions options;
    options.listen = {{text}, {text}};
    Rig rig(options);
    EXPECT_EQ(rig.server->bind().text, "cannot listen at " + text + ": the address is listed twice");
  }
}

// One turn would take them all. No clock but a slow one can make this fail: each waits for a timer of 100 ms.
TEST(Listener, AcceptsOneAfterTheOtherWhileThereIsHardlyAnyMemory) {
  Running rig;
  constexpr uint64_t kMost = lab::CountedHeap::kBudget / 100 * 98;
  rig.slabs.memory.add(base::MemoryKind::kInput, kMost);
  const auto began = std::chrono::steady_clock::now();
  std::vector<Peer> peers;
  for (int i = 0; i < 5; ++i) peers.emplace_back(rig.port());
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 5; })) << "whoever waits gets in";
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(390));
  rig.slabs.memory.give(base::MemoryKind::kInput, kMost);
  ASSERT_TRUE(peers.front().send("x"));
  EXPECT_EQ(peers.front().read(7), "sniff:x");
}

TEST(Listener, GoesOnAfterAnException) {
  Shard shard(base::ShardId(0), Pin::kNo);
  base::Counter starved;
  std::unique_ptr<Listener> listener;
  std::atomic<int> delivered{0};
  auto fd = listen_at(resolve("127.0.0.1:0").value().front(), Sharing::kAlone);
  ASSERT_TRUE(fd);
  const uint16_t port = local_endpoint(*fd).port();
  shard.start();
  shard.post([&] {
    auto deliver = [&](Accepted) {
      if (delivered++ % 2 == 0) throw std::bad_alloc();
    };
    listener = std::make_unique<Listener>(shard.parts(), std::move(*fd), Transport::kTcp, deliver, starved, nullptr);
    listener->begin();
  });
  for (int i = 1; i <= 4; ++i) {
    Peer peer(port);
    EXPECT_TRUE(peer.ended());
    EXPECT_EQ(delivered, i);
  }
  shard.parts().run_and_wait([&] {
    listener->stop();
    shard.parts().retire(std::move(listener));
  });
  shard.stop();
  shard.join();
}

TEST(Endpoint, KnowsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(resolve(text).value().front().loopback()) << text;
  for (const char* text : {"128.0.0.1:1", "0.0.0.0:1", "10.0.0.127:1", "[::2]:1", "[::ffff:10.0.0.1]:1", "unix:/a"})
    EXPECT_FALSE(resolve(text).value().front().loopback()) << text;
}

TEST(Server, ListenersThatServeAdminMethodsAreToldApart) {
  ServerOptions options = loopback();
  options.listen[0].admin = wire::AdminMethods::kElsewhere;
  options.listen.push_back({"127.0.0.1:0"});
  Running rig(options, 2);
  ASSERT_EQ(rig.server->bound().size(), 2u);
  EXPECT_EQ(rig.server->bound(wire::AdminMethods::kElsewhere), std::vector{rig.server->bound()[0]});
  EXPECT_EQ(rig.server->bound(wire::AdminMethods::kServed), std::vector{rig.server->bound()[1]});
}

}  // namespace
}  // namespace weir::net
