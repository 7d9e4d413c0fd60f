#include "net/client_conn.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lab.h"
#include "net/fd.h"
#include "net/write_budget.h"
#include "support/few_descriptors.h"
#include "tls_fixture.h"

namespace weir::net {
namespace {

struct Canned : lab::Rig {
  explicit Canned(std::string answer, ServerOptions options = lab::loopback()) : Rig(std::move(options)) {
    lab.canned = std::move(answer);
    EXPECT_TRUE(server->bind().ok());
    server->start();
  }
};

// A shard with one connection, which sends a request as soon as it may. Made and destroyed on the test's thread.
class Asking final : private ClientConn::Owner, private wire::ClientAnswer {
 public:
  // `descriptors`: so many more can be opened from here on.
  explicit Asking(const std::string& address, ClientConn::Options options = {}, std::optional<int> descriptors = {},
                  base::MemoryLedger* memory = nullptr, size_t request_bytes = 100'000)
      : memory_(memory), request_bytes_(request_bytes) {
    options.endpoints = *resolve(address);
    if (memory) shard_.charge(*memory);
    shard_.at_turn_end([this] {  // each of a turn's rounds
      const base::Time now = shard_.env().now();
      if (std::exchange(turn_, now) != now) ++turns;
    });
    shard_.start();
    if (descriptors) few_.emplace(*descriptors);
    on_shard([this, options] {
      ClientConn::Owner& self = *this;
      conn_.emplace(shard_, options, self);
    });
  }
  ~Asking() {
    on_shard([this] { conn_.reset(); });
    shard_.stop();
    shard_.join();
  }
  // The end of the connection.
  base::Status closed() { return closed_.get_future().get(); }
  // On the shard while it runs: after closed() alone.
  std::string body;
  base::Status failure;
  int status = 0, ends = 0;
  uint64_t charged = 0;           // bytes, when the answer came
  std::atomic<size_t> turns = 0;  // of its shard

 private:
  void on_shard(const std::function<void()>& work) {
    std::promise<void> done;
    shard_.post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void on_open(ClientConn& conn) override {
    ASSERT_TRUE(conn.has_room());
    wire::ClientRequest request{"POST", "http", "h", "/", {}, base::Bytes::adopt(std::string(request_bytes_, 'x'))};
    conn.send(request, *this);
  }
  void on_closed(ClientConn&, const base::Status& why) override {
    conn_.reset();  // which an owner may
    closed_.set_value(why);
  }
  void on_head(int its_status, const wire::Fields&) override {
    status = its_status;
    if (memory_) charged = memory_->held();
  }
  size_t on_body(std::span<const std::byte> piece) override {
    body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return piece.size();
  }
  void on_end(const wire::Fields&) override { ++ends; }
  void on_failed(const base::Status& why) override { ++ends, failure = why; }

  base::MemoryLedger* const memory_;
  const size_t request_bytes_;
  base::Time turn_ = base::kNever;
  Shard shard_{base::ShardId(0), Pin::kNo};
  std::optional<test::FewDescriptors> few_;
  std::optional<ClientConn> conn_;
  std::promise<base::Status> closed_;
};

TEST(ClientConn, SendsWhenItIsOpenAndHearsTheAnswer) {
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'y'));
  Asking asking(rig.server->bound()[0]);
  EXPECT_EQ(asking.closed().code, base::Code::kUnavailable) << "the server closes";
  EXPECT_EQ(asking.ends, 1);
  EXPECT_TRUE(asking.failure.ok()) << asking.failure.text;
  EXPECT_EQ(asking.status, 200);
  EXPECT_EQ(asking.body, std::string(100'000, 'y'));
}

TEST(ClientConn, AnAnswerThatIsCutShortFailsBeforeTheConnectionDoes) {
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
  Asking asking(rig.server->bound()[0]);
  (void)asking.closed();
  EXPECT_EQ(asking.ends, 1);
  EXPECT_EQ(asking.failure.code, base::Code::kUnavailable);
}

// Reads one request of that many bytes and more, as fast as it comes, and answers it.
class Swallowing {
 public:
  Swallowing(size_t bytes, const CertificateFiles* tls) : bytes_(bytes) {
    sockaddr_in any{};
    any.sin_family = AF_INET, any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
    EXPECT_EQ(::listen(listening_.get(), 1), 0);
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&any), &size);
    address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    if (tls) {
      context_.reset(SSL_CTX_new(TLS_server_method()));
      SSL_CTX_use_certificate_file(context_.get(), tls->certificate().c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_.get(), tls->key().c_str(), SSL_FILETYPE_PEM);
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~Swallowing() { thread_.join(); }
  std::string address;

 private:
  void serve() {
    Fd fd(::accept(listening_.get(), nullptr, nullptr));
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl(context_ ? SSL_new(context_.get()) : nullptr, SSL_free);
    if (ssl) SSL_set_fd(ssl.get(), fd.get()), SSL_accept(ssl.get());
    std::vector<char> piece(1 << 20);
    for (size_t left = bytes_; left > 0;) {
      const ssize_t n =
          ssl ? SSL_read(ssl.get(), piece.data(), int(piece.size())) : ::recv(fd.get(), piece.data(), piece.size(), 0);
      if (n <= 0) return;
      left -= std::min(left, size_t(n));
    }
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    if (ssl)
      SSL_write(ssl.get(), answer.data(), int(answer.size()));
    else
      (void)::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    ::shutdown(fd.get(), SHUT_WR);
    while (::recv(fd.get(), piece.data(), piece.size(), 0) > 0) {
    }
  }

  const size_t bytes_;
  Fd listening_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::thread thread_;
};

// One that went out as fast as its reader takes it would keep the shard from everybody else.
TEST(ClientConn, ALargeRequestTakesManyTurns) {
  constexpr size_t kBytes = 64 << 20;
  CertificateFiles files;
  for (const CertificateFiles* tls : {static_cast<const CertificateFiles*>(nullptr), &std::as_const(files)}) {
    Swallowing server(kBytes, tls);
    ClientConn::Options how;
    if (tls) how.tls = *TlsContext::for_client(files.certificate()), how.tls_host = "localhost";
    Asking asking(server.address, how, {}, nullptr, kBytes);
    (void)asking.closed();
    EXPECT_EQ(asking.status, 200) << asking.failure.text;
    EXPECT_EQ(asking.body, "ok");
    EXPECT_GE(asking.turns, kBytes / kWrittenPerTurn);
  }
}

TEST(ClientConn, NobodyThereIsSaidWithItsAddress) {
  uint16_t port = 0;
  {
    Canned rig("x");
    port = rig.port();
  }
  Asking asking("127.0.0.1:" + std::to_string(port));
  EXPECT_TRUE(asking.closed().text.starts_with("cannot connect to 127.0.0.1:" + std::to_string(port)));
  EXPECT_EQ(asking.ends, 0);
}

TEST(ClientConn, WithoutADescriptorItSaysSo) {
  Canned rig("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  Asking asking("127.0.0.1:" + std::to_string(rig.port()), {}, 0);
  const base::Status why = asking.closed();
  EXPECT_EQ(why.code, base::Code::kUnavailable);
  EXPECT_NE(why.text.find("Too many open files"), std::string::npos) << why.text;
}

TEST(ClientConn, AServerThatDoesNotSpeakHttp2FailsTheRequest) {
  Canned rig("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  Asking asking(rig.server->bound()[0], {.http = ClientConn::Http::k2});
  (void)asking.closed();
  EXPECT_EQ(asking.ends, 1);
  EXPECT_EQ(asking.failure.code, base::Code::kUnavailable);
}

// Sends as many requests as there is room for, and one more as it hears of room.
class FillsUp final : public ClientConn::Owner, public wire::ClientAnswer {
 public:
  void on_open(ClientConn& conn) override {
    while (conn.has_room()) ask(conn);
  }
  void on_room(ClientConn& conn) override {
    ASSERT_TRUE(conn.has_room());
    ask(conn);
    has_room_again.set_value();
  }
  void on_closed(ClientConn&, const base::Status&) override {}
  void on_head(int, const wire::Fields&) override {}
  size_t on_body(std::span<const std::byte> piece) override { return piece.size(); }
  void on_end(const wire::Fields&) override {}
  void on_failed(const base::Status&) override {}

  int asked = 0;
  std::promise<void> has_room_again;

 private:
  void ask(ClientConn& conn) {
    ++asked;
    conn.send({"GET", "http", "h", "/", {}, {}}, *this);
  }
};

TEST(ClientConn, SaysThatThereIsRoomAgain) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET, name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size);
  ClientConn::Options options{.http = ClientConn::Http::k2};
  options.endpoints = *resolve("127.0.0.1:" + std::to_string(ntohs(name.sin_port)));
  Shard shard(base::ShardId(0), Pin::kNo);
  shard.start();
  FillsUp owner;
  std::optional<ClientConn> conn;
  shard.post([&] { conn.emplace(shard, options, owner); });
  const Fd server(::accept(listener.get(), nullptr, nullptr));
  const std::string settings = std::string(9, '\0').replace(3, 1, 1, '\4');  // more streams than are taken for granted
  ASSERT_EQ(::send(server.get(), settings.data(), settings.size(), MSG_NOSIGNAL), ssize_t(settings.size()));
  owner.has_room_again.get_future().wait();
  std::promise<void> gone;
  shard.post([&] { conn.reset(), gone.set_value(); });
  gone.get_future().wait();
  shard.stop();
  shard.join();
  EXPECT_EQ(owner.asked, 101);
}

TEST(ClientConn, SpeaksTlsToWhoCanProveItsName) {
  CertificateFiles files;
  ServerOptions options = lab::loopback();
  options.tls = files.options();
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'y'), options);
  ClientConn::Options how;
  how.tls = *TlsContext::for_client(files.certificate()), how.tls_host = "localhost";
  {
    Asking asking(rig.server->bound()[0], how);
    (void)asking.closed();
    EXPECT_TRUE(asking.failure.ok()) << asking.failure.text;
    EXPECT_EQ(asking.body, std::string(100'000, 'y'));
  }
  how.tls_host = "other.example";
  Asking stranger(rig.server->bound()[0], how);
  EXPECT_TRUE(stranger.closed().text.starts_with("TLS failed: "));
  EXPECT_EQ(stranger.ends, 0);
}

TEST(ClientConn, TlsIsChargedAndNotBegunWhereThereIsNoMemory) {
  CertificateFiles files;
  ServerOptions options = lab::loopback();
  options.tls = files.options();
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", options);
  ClientConn::Options how;
  how.tls = *TlsContext::for_client(files.certificate()), how.tls_host = "localhost";
  base::MemoryLedger memory(1 << 20);
  {
    Asking asking(rig.server->bound()[0], how, {}, &memory);
    (void)asking.closed();
    EXPECT_TRUE(asking.failure.ok()) << asking.failure.text;
    EXPECT_GE(asking.charged, TlsSession::kOpenBytes);
    EXPECT_LT(asking.charged, TlsSession::kHandshakeBytes + (32 << 10)) << "of a handshake no more";
  }
  EXPECT_EQ(memory.held(), 0u) << "and its end gives all back";
  memory.add(base::MemoryKind::kAnswers, (1 << 20) - TlsSession::kHandshakeBytes / 2);
  Asking refused(rig.server->bound()[0], how, {}, &memory);
  EXPECT_EQ(refused.closed().text, "TLS failed: there is no memory for a handshake");
}

TEST(ClientConn, AServerThatNeverAcceptsTlsIsGivenUp) {
  lab::Rig rig(lab::loopback());
  ASSERT_TRUE(rig.server->bind().ok());  // listens, but is never started
  ClientConn::Options how;
  how.tls = *TlsContext::for_client(""), how.tls_host = "localhost";
  how.connect_timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(Asking(rig.server->bound()[0], how).closed().text, "no connection in time");
}

}  // namespace
}  // namespace weir::net
