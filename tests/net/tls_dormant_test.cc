// OpenSSL's state of an idle connection has been put away, and something happens. Sessions of both sides in one thread,
// without sockets.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "net/dormant_ssl.h"
#include "net/tls.h"
#include "tls_fixture.h"

namespace weir::net {
namespace {

const bool kInstalled = use_memory_for_ssl();  // before anything calls OpenSSL

struct Contexts {
  CertificateFiles files;
  std::shared_ptr<const TlsContext> server = *TlsContext::load(files.options());
  std::shared_ptr<const TlsContext> client = *TlsContext::for_client(files.certificate());
};

void limit_version(const TlsContext& context, int newest) { SSL_CTX_set_max_proto_version(context.get(), newest); }

// Carries what `from` has for `to`, and returns what `to` reads in it.
std::string carry(TlsSession& from, TlsSession& to) {
  const auto sealed = from.output();
  const std::string bytes(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  EXPECT_TRUE(from.consumed(bytes.size()));
  to.feed(std::as_bytes(std::span(bytes)));
  std::string read;
  std::vector<std::byte> plain(64 << 10);
  while (size_t n = to.open(plain, {})) read.append(reinterpret_cast<const char*>(plain.data()), n);
  return read;
}

struct Pair {
  explicit Pair(const Contexts& contexts) : server(*contexts.server, {}), client(*contexts.client, "localhost", {}) {
    std::byte none[1];
    client.open(none, {});
    for (int i = 0; i < 4; ++i) carry(client, server), carry(server, client);
    EXPECT_EQ(server.state(), TlsSession::State::kOpen) << server.error();
    EXPECT_EQ(client.state(), TlsSession::State::kOpen) << client.error();
  }
  void sleep() {
    for (int i = 0; i < 2; ++i) server.rest(), client.rest();
  }
  void talk(size_t bytes) {
    const std::string text = lab::pattern(bytes);
    for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
      std::string read;
      for (size_t at = 0; at < bytes;) {
        const iovec piece{const_cast<char*>(text.data()) + at, bytes - at};
        const size_t taken = from->seal({&piece, 1});
        ASSERT_GT(taken, 0u);
        at += taken;
        read += carry(*from, *to);
      }
      ASSERT_EQ(read, text);
    }
  }

  TlsSession server, client;
};

TEST(TlsDormant, AConversationGoesOnWhereItWas) {
  ASSERT_TRUE(kInstalled);
  for (int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Contexts contexts;
    limit_version(*contexts.server, newest);
    Pair pair(contexts);
    for (size_t bytes : {1, 100, 20000, 1, 300000}) {
      pair.sleep();
      pair.talk(bytes);
      pair.talk(bytes);
    }
    pair.sleep();
    EXPECT_EQ(pair.client.alpn(), "http/1.1");
    pair.sleep();
    EXPECT_TRUE(pair.client.peer_names());
  }
}

TEST(TlsDormant, TheEndIsSaidAndHeardAsleep) {
  Contexts contexts;
  Pair pair(contexts);
  pair.talk(10);
  pair.sleep();
  pair.client.finish();
  EXPECT_FALSE(pair.client.output().empty());
  EXPECT_EQ(carry(pair.client, pair.server), "");
  EXPECT_EQ(pair.server.state(), TlsSession::State::kPeerClosed);
  pair.server.finish();
  carry(pair.server, pair.client);
  EXPECT_EQ(pair.client.state(), TlsSession::State::kPeerClosed);
}

TEST(TlsDormant, ABrokenRecordIsRefusedAsleep) {
  Contexts contexts;
  Pair pair(contexts);
  pair.sleep();
  const std::string record("\x17\x03\x03\0\x20", 5), garbage = record + std::string(32, 'x');
  pair.server.feed(std::as_bytes(std::span(garbage)));
  std::byte plain[100];
  EXPECT_EQ(pair.server.open(plain, {}), 0u);
  EXPECT_EQ(pair.server.state(), TlsSession::State::kFailed);
  EXPECT_FALSE(pair.server.error().empty());
  pair.sleep();
}

// A part of a record keeps it awake; what follows is read.
TEST(TlsDormant, RecordsMayComeInParts) {
  Contexts contexts;
  Pair pair(contexts);
  pair.sleep();
  std::string text = "in parts";
  const iovec piece{text.data(), text.size()};
  ASSERT_EQ(pair.client.seal({&piece, 1}), text.size());
  const auto sealed = pair.client.output();
  std::string read;
  for (std::byte octet : sealed) {
    pair.server.feed({&octet, 1});
    std::byte plain[100];
    const size_t n = pair.server.open(plain, {});
    read.append(reinterpret_cast<const char*>(plain), n);
    pair.sleep();
  }
  EXPECT_EQ(read, text);
}

// Sessions end asleep and awake, others have their pages next.
TEST(TlsDormant, PagesAreUsedAgain) {
  Contexts contexts;
  for (int i = 0; i < 20; ++i) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int k = 0; k < 3; ++k) {
      pairs.push_back(std::make_unique<Pair>(contexts));
      if ((i + k) % 2) pairs.back()->sleep();
    }
    pairs[1]->talk(10);
    pairs[1].reset();
    pairs[0]->talk(1000);
  }
}

// The rules of OpenSSL's own functions hold for ours.
TEST(TlsDormant, MemoryOfOthersIsTheHeaps) {
  EXPECT_EQ(OPENSSL_malloc(0), nullptr);
  void* at = OPENSSL_realloc(nullptr, 5000);
  ASSERT_TRUE(at);
  std::memset(at, 1, 5000);
  at = OPENSSL_realloc(at, 10000);
  ASSERT_TRUE(at);
  EXPECT_EQ(static_cast<char*>(at)[4999], 1);
  EXPECT_EQ(OPENSSL_realloc(at, 0), nullptr);
  OPENSSL_free(nullptr);
}

TEST(DormantSsl, SleepsAndWakes) {
  Contexts contexts;
  DormantSsl ssl;
  EXPECT_FALSE(ssl);
  ssl.rest();
  EXPECT_FALSE(ssl.asleep());
  ssl.make(contexts.server->get());
  const SSL* const at = ssl.get();
  for (int i = 0; i < 3; ++i) {
    ssl.rest();
    EXPECT_TRUE(ssl);
    EXPECT_TRUE(ssl.asleep());
    EXPECT_EQ(ssl.get(), at);
    EXPECT_FALSE(ssl.asleep());
    EXPECT_EQ(SSL_get_SSL_CTX(at), contexts.server->get());
  }
  ssl.rest();
}

uint64_t resident_bytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * uint64_t(::sysconf(_SC_PAGESIZE));
}

TEST(TlsDormant, AtRestTheyHoldLess) {
  constexpr size_t kMany = 300, kLeast = 2 * 6000;  // bytes of both sides
  Contexts contexts;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (size_t i = 0; i < kMany; ++i) pairs.push_back(std::make_unique<Pair>(contexts));
  const uint64_t awake = resident_bytes();
  for (auto& pair : pairs) pair->sleep();
  EXPECT_LT(resident_bytes(), awake - kMany * kLeast);
  for (auto& pair : pairs) pair->talk(10);
}

}  // namespace
}  // namespace weir::net
