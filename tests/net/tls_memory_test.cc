// The memory that TLS holds for a client is in the ledger.
#include <string>
#include <vector>

#include "net/tls.h"
#include "tls_fixture.h"

namespace weir::net {
namespace {

using base::MemoryKind;
using lab::CountedHeap;
using lab::pattern;

// The first bytes of a client.
std::string hello(const char* groups = nullptr) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (groups) SSL_CTX_set1_groups_list(context, groups);
  SSL* ssl = SSL_new(context);
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  char* data;
  const long size = BIO_get_mem_data(SSL_get_wbio(ssl), &data);
  std::string out(data, size_t(size));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return out;
}

void replace_in(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
}

// One whose key share is of a group that nobody knows: the server asks for another hello (RFC 8446 §4.1.4).
std::string hello_of_unknown_group() {
  using namespace std::string_view_literals;
  std::string out = hello("X25519:P-256");
  replace_in(out, "\x00\x1d\x00\x17"sv, "\x0a\x1d\x00\x17"sv);  // supported_groups
  replace_in(out, "\x00\x1d\x00\x20"sv, "\x0a\x1d\x00\x20"sv);  // key_share
  return out;
}

// The same, which says that early data follow (§4.2.10): an extension without octets behind the others.
std::string hello_with_early_data() {
  std::string out = hello_of_unknown_group();
  auto grow = [&](size_t at) {  // a length of two octets
    const size_t length = (size_t(uint8_t(out[at])) << 8 | uint8_t(out[at + 1])) + 4;
    out[at] = char(length >> 8), out[at + 1] = char(length);
  };
  constexpr size_t kSessionAt = 5 + 4 + 2 + 32;  // record, message, version, random
  const size_t ciphers = kSessionAt + 1 + uint8_t(out[kSessionAt]);
  const size_t compressions = ciphers + 2 + (size_t(uint8_t(out[ciphers])) << 8 | uint8_t(out[ciphers + 1]));
  grow(compressions + 1 + uint8_t(out[compressions]));
  grow(3), grow(7);
  return out + std::string("\0\x2a\0\0", 4);
}

// The header of a hello that says it is so long.
std::string announced_hello(size_t length) {
  return std::string{22, 3, 1, 0x20, 0, 1, char(length >> 16), char(length >> 8), char(length)};
}

constexpr std::string_view kNoMemory = "\x15\x03\x03\0\x02\x02\x50";  // internal_error
constexpr std::string_view kTooLong = "\x15\x03\x03\0\x02\x02\x2f";   // illegal_parameter
const std::string kPartOfRecord{"\x17\x03\x03\x40\0", 5};             // its header alone
std::string alert(std::string_view octets) { return {octets.data(), 7}; }

struct Charged {
  CertificateFiles certificate;
  Running rig{certificate.options()};
  base::MemoryLedger& ledger = rig.slabs.memory;
  bool held(uint64_t least, uint64_t most) {
    return rig.lab.until([&] { return ledger.held() >= least && ledger.held() <= most; });
  }
};

TEST(TlsMemory, AHandshakeIsChargedAConnectionIsChargedLessAndItsEndGivesBackAll) {
  Charged t;
  Peer half(t.rig.port());
  ASSERT_TRUE(half.send(hello()));
  EXPECT_TRUE(t.held(TlsSession::kHandshakeBytes, TlsSession::kHandshakeBytes + (16 << 10)));
  half.reset();
  EXPECT_TRUE(t.held(0, 0));
  {
    TlsPeer peer(t.rig.port(), {});
    ASSERT_TRUE(peer.connected() && peer.send("x"));
    ASSERT_EQ(peer.read(7), "sniff:x");
    EXPECT_TRUE(t.held(TlsSession::kRestBytes, TlsSession::kRestBytes + (16 << 10))) << "at rest";
    ASSERT_TRUE(peer.peer().send(kPartOfRecord));
    EXPECT_TRUE(t.held(TlsSession::kOpenBytes, TlsSession::kOpenBytes + (16 << 10))) << "and no more";
  }
  EXPECT_TRUE(t.held(0, 0));
}

TEST(TlsMemory, WhatWasAtRestIsServedWhereThereIsNoMemoryAndKeepsNoRecords) {
  for (bool is_short : {false, true}) {
    Charged t;
    TlsPeer peer(t.rig.port(), {});
    ASSERT_TRUE(peer.connected() && peer.send("x"));
    ASSERT_EQ(peer.read(7), "sniff:x");
    ASSERT_TRUE(t.held(TlsSession::kRestBytes, TlsSession::kRestBytes + (16 << 10)));
    const uint64_t others = is_short ? CountedHeap::kBudget - t.ledger.held() : 0;
    t.ledger.add(MemoryKind::kAnswers, others);
    ASSERT_TRUE(peer.send("y"));
    EXPECT_EQ(peer.read(1), "y");
    ASSERT_TRUE(peer.peer().send(kPartOfRecord));
    if (is_short) {
      EXPECT_EQ(peer.read(1), "");
      EXPECT_TRUE(t.held(others, others));
    } else {
      EXPECT_TRUE(t.held(TlsSession::kOpenBytes, TlsSession::kOpenBytes + (16 << 10)));
    }
    t.ledger.give(MemoryKind::kAnswers, others);
  }
}

TEST(TlsMemory, WhereThereIsNoneAHandshakeIsRefusedByAnAlert) {
  Charged t;
  const uint64_t others = CountedHeap::kBudget - TlsSession::kHandshakeBytes / 2;
  t.ledger.add(MemoryKind::kAnswers, others);
  Peer peer(t.rig.port());
  ASSERT_TRUE(peer.send(hello()));
  EXPECT_EQ(peer.read_all(), alert(kNoMemory));
  EXPECT_EQ(t.rig.lab.rejects(), std::vector<std::string>{"overload"});
  t.ledger.give(MemoryKind::kAnswers, others);
  EXPECT_TRUE(TlsPeer(t.rig.port(), {}).connected()) << "there is room again";
}

TEST(TlsMemory, TheNewestHandshakesOfAClientThatHasItsShareAreRefusedAndOthersAreNot) {
  Charged t;
  std::vector<Peer> peers;
  size_t held = 0;
  for (bool refused = false; !refused; ++held) {
    ASSERT_LT(held, CountedHeap::kBudget / TlsSession::kHandshakeBytes) << "nobody is refused";
    Peer& peer = peers.emplace_back(t.rig.port());
    ASSERT_TRUE(peer.send(hello()));
    std::string first = peer.read(7);
    refused = first == alert(kNoMemory);
  }
  EXPECT_GT(held, CountedHeap::kBudget / (TlsSession::kHandshakeBytes + (16 << 10)) / 2 - 2)
      << "half of it is anybody's";
  TlsPeer other(Peer(t.rig.port(), "127.0.0.1", "127.3.3.3"), {});
  EXPECT_TRUE(other.connected());
  EXPECT_TRUE(other.send("x") && other.read(7) == "sniff:x");
}

TEST(TlsMemory, AHelloThatSaysItIsLongIsRefusedBeforeThereIsRoomForIt) {
  Charged t;
  Peer peer(t.rig.port());
  ASSERT_TRUE(peer.send(announced_hello(16385)));
  EXPECT_EQ(peer.read_all(), alert(kTooLong));
  EXPECT_EQ(t.rig.lab.rejects(), std::vector<std::string>{"tls"});
}

// Sends a first hello; then `rest`, once another one is asked for. Returns how it is answered.
std::string answer_to_second(Charged& t, const std::string& first, const std::string& rest) {
  Peer peer(t.rig.port());
  EXPECT_TRUE(peer.send(first));
  const std::string retry = peer.read(5);
  EXPECT_TRUE(retry.size() == 5 && retry[0] == 22) << retry;
  if (retry.size() < 5) return "";
  (void)peer.read(size_t(uint8_t(retry[3])) << 8 | uint8_t(retry[4]));
  EXPECT_TRUE(peer.send(rest));
  const std::string out = peer.read_all();
  return out.substr(out.size() - std::min<size_t>(out.size(), 7));  // behind a change_cipher_spec
}

TEST(TlsMemory, SoIsASecondHello) {
  Charged t;
  EXPECT_EQ(answer_to_second(t, hello_of_unknown_group(), announced_hello(16385)), alert(kTooLong));
}

TEST(TlsMemory, SoIsASecondHelloBehindEarlyData) {
  Charged t;
  const std::string early = std::string{23, 3, 3, 0, 32} + std::string(32, 'x');
  EXPECT_EQ(answer_to_second(t, hello_with_early_data(), early + announced_hello(16385)), alert(kTooLong));
  EXPECT_EQ(t.rig.lab.rejects(), std::vector<std::string>{"tls"});
}

TEST(TlsMemory, ASecondHelloInTheRecordOfTheFirstIsRefused) {
  Charged t;
  std::string both = hello_of_unknown_group();
  const size_t length = both.size() - 5 + 4;
  both[3] = char(length >> 8), both[4] = char(length);
  Peer peer(t.rig.port());
  ASSERT_TRUE(peer.send(both + announced_hello(16385).substr(5)));
  const std::string out = peer.read_all();
  ASSERT_GE(out.size(), 7u);
  EXPECT_EQ(out[out.size() - 7], 21) << "an alert";
  EXPECT_EQ(t.rig.lab.rejects(), std::vector<std::string>{"tls"});
}

TEST(TlsMemory, SealedBytesThatNobodyReadsAreChargedAndFewWhereMemoryIsShort) {
  for (bool is_short : {false, true}) {
    CertificateFiles certificate;
    ServerOptions options;
    const std::string path = certificate.folder + "/a.sock";
    options.listen = {{"unix:" + path}};  // whose room does not grow
    options.tls = certificate.options();
    Running rig(options);
    TlsPeer peer(Peer(path), {});
    ASSERT_TRUE(peer.connected() && peer.send("x"));
    ASSERT_EQ(peer.read(7), "sniff:x");
    auto& ledger = rig.slabs.memory;
    ASSERT_TRUE(rig.lab.until([&] { return ledger.held() < TlsSession::kOpenBytes; })) << "at rest";
    const uint64_t before = ledger.held(), records = TlsSession::kOpenBytes - TlsSession::kRestBytes;
    const uint64_t others = is_short ? CountedHeap::kBudget - before - records - 8192 : 0;
    ledger.add(MemoryKind::kAnswers, others);
    ASSERT_TRUE(peer.send("!send 4000000\n"));
    auto sent = [&] { return std::atoll(rig.metric("weir_sent_bytes_total").c_str()); };
    ASSERT_TRUE(rig.lab.until([&] { return sent() > 100'000; }));
    const uint64_t held = ledger.held() - others - before;
    EXPECT_EQ(held > (100 << 10), !is_short) << held;
    EXPECT_TRUE(peer.read(4'000'000) == pattern(4'000'000));
    EXPECT_TRUE(rig.lab.until([&] { return ledger.held() == before + others; })) << "all is given back";
    ledger.give(MemoryKind::kAnswers, others);
    ::unlink(path.c_str());
  }
}

TEST(TlsMemory, NoSessionIsKeptForAClientThatShowsNoTicket) {
  CertificateFiles certificate;
  auto context = std::move(TlsContext::load(certificate.options())).value();
  EXPECT_EQ(SSL_CTX_get_session_cache_mode(context->get()), SSL_SESS_CACHE_OFF);
}

}  // namespace
}  // namespace weir::net
