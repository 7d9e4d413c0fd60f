#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "lab.h"

namespace weir::net {
namespace {

using lab::pattern;
using lab::Peer;

// A folder with a self-signed certificate and its key, made afresh.
struct Papers {
  explicit Papers(const char* name = "localhost") {
    char text[] = "/tmp/weir-tls-XXXXXX";
    folder = ::mkdtemp(text);
    renew(name);
  }
  ~Papers() {
    ::unlink(certificate().c_str());
    ::unlink(key().c_str());
    ::rmdir(folder.c_str());
  }
  void renew(const char* name) {
    std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
    std::unique_ptr<X509, decltype(&X509_free)> paper(X509_new(), X509_free);
    X509_set_version(paper.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(paper.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(paper.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(paper.get()), 3600);
    X509_set_pubkey(paper.get(), pair.get());
    auto* subject = X509_get_subject_name(paper.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(paper.get(), subject);
    X509_sign(paper.get(), pair.get(), EVP_sha256());
    FILE* file = ::fopen(certificate().c_str(), "w");
    PEM_write_X509(file, paper.get());
    ::fclose(file);
    file = ::fopen(key().c_str(), "w");
    PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
    ::fclose(file);
  }
  std::string certificate() const { return folder + "/cert.pem"; }
  std::string key() const { return folder + "/key.pem"; }
  TlsOptions options() const { return {certificate(), key(), {}, false}; }

  std::string folder;
  long serial = 0;
};

// A blocking TLS client on a Peer.
class TlsPeer {
 public:
  struct Wish {
    std::string_view alpn = {};  // length-prefixed
    int newest = TLS1_3_VERSION, oldest = 0;
    const Papers* papers = nullptr;
  };
  TlsPeer(uint16_t port, const Wish& wish) : TlsPeer(Peer(port), wish) {}
  TlsPeer(Peer peer, const Wish& wish) : peer_(std::move(peer)), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, wish.newest);
    if (wish.oldest) SSL_CTX_set_min_proto_version(context_, wish.oldest);
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (!wish.alpn.empty())
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(wish.alpn.data()),
                              unsigned(wish.alpn.size()));
    if (wish.papers) {
      SSL_CTX_use_certificate_file(context_, wish.papers->certificate().c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_, wish.papers->key().c_str(), SSL_FILETYPE_PEM);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, peer_.fd());
    ERR_clear_error();
    connected_ = SSL_connect(ssl_) == 1;
    reason_ = ERR_GET_REASON(ERR_peek_last_error());
  }
  ~TlsPeer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  int reason() const { return reason_; }
  SSL* ssl() { return ssl_; }
  Peer& peer() { return peer_; }
  std::string alpn() const {
    const unsigned char* name;
    unsigned size;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  long serial() const {
    X509* paper = SSL_get1_peer_certificate(ssl_);
    long serial = ASN1_INTEGER_get(X509_get0_serialNumber(paper));
    X509_free(paper);
    return serial;
  }
  bool send(std::string_view text) {
    size_t n = 0;
    for (; !text.empty(); text.remove_prefix(n))
      if (SSL_write_ex(ssl_, text.data(), text.size(), &n) != 1) return false;
    return true;
  }
  std::string read(size_t n) {
    std::string out(n, '\0');
    size_t have = 0, got = 0;
    for (; have < n; have += got)
      if (SSL_read_ex(ssl_, out.data() + have, n - have, &got) != 1) break;
    out.resize(have);
    return out;
  }

 private:
  Peer peer_;
  SSL_CTX* context_;
  SSL* ssl_;
  bool connected_ = false;
  int reason_ = 0;
};

struct Running : lab::Rig {
  explicit Running(TlsOptions tls, int shards = 1) : Running(options(std::move(tls)), shards) {}
  explicit Running(ServerOptions options, int shards = 1, wire::Limits limits = {})
      : Rig(std::move(options), shards, limits) {
    auto status = server->bind();
    EXPECT_TRUE(status.ok()) << status.text;
    server->start();
  }
  static ServerOptions options(TlsOptions tls) {
    auto out = lab::loopback();
    out.tls = std::move(tls);
    return out;
  }
};

TEST(Tls, AlpnChoosesTheCodec) {
  Papers papers;
  Running rig(papers.options());
  struct Case {
    std::string_view offer, chosen, greeting;
  };
  using namespace std::string_view_literals;
  for (const auto& c : {Case{"\x02h2\x08http/1.1"sv, "h2", "h2:x"}, Case{"\x08http/1.1\x02h2"sv, "h2", "h2:x"},
                        Case{"\x08http/1.1"sv, "http/1.1", "h1:x"}, Case{""sv, "", "sniff:x"},
                        Case{"\x03"
                             "foo\x02h2"sv,
                             "h2", "h2:x"}}) {
    TlsPeer peer(rig.port(), {.alpn = c.offer});
    ASSERT_TRUE(peer.connected());
    EXPECT_EQ(peer.alpn(), c.chosen);
    ASSERT_TRUE(peer.send("x"));
    EXPECT_EQ(peer.read(c.greeting.size()), c.greeting);
  }
}

TEST(Tls, AListOfUnknownProtocolsOnlyIsAFatalAlert) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {.alpn = "\x03"
                                    "foo"});
  EXPECT_FALSE(peer.connected());
  EXPECT_EQ(peer.reason(), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.rejects() == std::vector<std::string>{"alpn"}; }));
}

TEST(Tls, OldVersionsAreRefused) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer old(rig.port(), {.newest = TLS1_1_VERSION, .oldest = TLS1_VERSION});
  EXPECT_FALSE(old.connected());
  TlsPeer newer(rig.port(), {.newest = TLS1_2_VERSION});
  EXPECT_TRUE(newer.connected());
}

TEST(Tls, RenegotiationIsRefused) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {.newest = TLS1_2_VERSION});
  ASSERT_TRUE(peer.connected());
  ASSERT_EQ(SSL_renegotiate(peer.ssl()), 1);
  EXPECT_NE(SSL_do_handshake(peer.ssl()), 1);
}

TEST(Tls, AFloodOfKeyUpdatesEndsTheConnection) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.connected());
  ASSERT_TRUE(peer.send("x"));
  ASSERT_EQ(peer.read(7), "sniff:x");
  for (int i = 0; i < 100 && SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1; ++i)
    if (!peer.send("y")) break;
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0; }));
}

TEST(Tls, LargeTransfersArriveWhole) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.connected());
  ASSERT_TRUE(peer.send("!send 8388608\n"));
  EXPECT_TRUE(peer.read(6 + (8 << 20)) == "sniff:" + pattern(8 << 20));
  // 64 KiB pieces of echo in lock step: a blocking client cannot read and write at once.
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(peer.send(pattern(64 << 10)));
    EXPECT_TRUE(peer.read(64 << 10) == pattern(64 << 10));
  }
}

// A server at a unix socket, whose room does not grow as TCP's does: less than is sealed at once.
struct Narrow {
  explicit Narrow(wire::Limits limits = {}) : rig(options(), 1, limits) {}
  ~Narrow() { ::unlink(path().c_str()); }
  std::string path() const { return papers.folder + "/a.sock"; }
  ServerOptions options() const {
    ServerOptions out;
    out.listen = {{"unix:" + path()}};
    out.tls = papers.options();
    return out;
  }
  Papers papers;
  Running rig;
};

TEST(Tls, TheLastAnswerGoesOutWholeToAReaderThatPauses) {
  for (size_t size : {size_t(250'000), size_t(8 << 20)}) {
    Narrow narrow;
    TlsPeer peer(Peer(narrow.path()), {});
    ASSERT_TRUE(peer.connected());
    ASSERT_TRUE(peer.send("!last " + std::to_string(size) + "\n"));
    auto sent = [&] { return std::atoll(narrow.rig.metric("weir_sent_bytes_total").c_str()); };
    EXPECT_TRUE(narrow.rig.lab.until([&] { return sent() > 100'000; }));  // the socket is full now, or soon
    EXPECT_TRUE(peer.read(6 + size) == "sniff:" + pattern(size)) << size;
    EXPECT_EQ(peer.read(1), "");
    EXPECT_EQ(SSL_get_shutdown(peer.ssl()), SSL_RECEIVED_SHUTDOWN) << size;
  }
}

TEST(Tls, APeerThatDoesNotReadWhatIsSealedIsCutOff) {
  wire::Limits limits;
  limits.grace = std::chrono::milliseconds(1);
  for (const char* wish : {"!last 250000\n", "!send 250000\n"}) {
    Narrow narrow(limits);
    TlsPeer peer(Peer(narrow.path()), {});
    ASSERT_TRUE(peer.connected());
    ASSERT_TRUE(peer.send(wish));
    EXPECT_TRUE(narrow.rig.lab.until([&] { return narrow.rig.server->connections() == 0; })) << wish;
    EXPECT_EQ(narrow.rig.lab.rejects(), std::vector<std::string>{"slow_read"}) << wish;
  }
}

TEST(Tls, TheLastAnswerIsFollowedByACloseNotify) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_EQ(peer.read(100), "sniff:bye\n");
  EXPECT_EQ(SSL_get_shutdown(peer.ssl()), SSL_RECEIVED_SHUTDOWN);
}

TEST(Tls, APeersCloseNotifyIsAnEndOfStream) {
  Papers papers;
  Running rig(papers.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.send("x"));
  ASSERT_EQ(peer.read(7), "sniff:x");
  SSL_shutdown(peer.ssl());
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 1 && rig.server->connections() == 0; }));
}

TEST(Tls, SharesThePortWithCleartextUnlessItIsRequired) {
  Papers papers;
  Running both(papers.options());
  Peer clear(both.port());
  ASSERT_TRUE(clear.send("x"));
  EXPECT_EQ(clear.read(7), "sniff:x");

  auto only = papers.options();
  only.required = true;
  Running strict(only);
  Peer refused(strict.port());
  ASSERT_TRUE(refused.send("x"));
  EXPECT_EQ(refused.read(12), "tls_wanted:x");
  TlsPeer welcome(strict.port(), {});
  EXPECT_TRUE(welcome.connected());
}

TEST(Tls, AClientCaRefusesCleartext) {
  Papers papers;
  auto options = papers.options();
  options.client_ca = papers.certificate();
  Running rig(options);
  Peer refused(rig.port());
  ASSERT_TRUE(refused.send("x"));
  EXPECT_EQ(refused.read(12), "tls_wanted:x");
}

TEST(Tls, ToAServerWithoutACertificateIsClosed) {
  Running rig(TlsOptions{});
  TlsPeer peer(rig.port(), {});
  EXPECT_FALSE(peer.connected());
  EXPECT_EQ(rig.lab.rejects(), std::vector<std::string>{"tls"});
}

TEST(Tls, GarbageAfterTheFirstByteIsAnAlert) {
  Papers papers;
  Running rig(papers.options());
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send(std::string_view("\x16\x03\x01\x00\x05hello", 10)));
  auto alert = peer.read_all();
  ASSERT_GE(alert.size(), 1u);
  EXPECT_EQ(alert[0], 0x15);
  EXPECT_EQ(rig.lab.rejects(), std::vector<std::string>{"tls"});
}

TEST(Tls, AHandshakeCutOffAtAnyByteLeavesNothingBehind) {
  Papers papers;
  Running rig(papers.options());
  // A client hello as OpenSSL writes it.
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  char* data;
  long size = BIO_get_mem_data(out, &data);
  std::string hello(data, size_t(size));
  SSL_free(ssl);
  SSL_CTX_free(context);
  for (size_t n = 1; n <= hello.size(); n += 7) {
    Peer peer(rig.port());
    ASSERT_TRUE(peer.send(hello.substr(0, n)));
  }
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0; }));
}

TEST(Tls, AReloadServesTheNewCertificateAndKeepsConnections) {
  Papers papers;
  Running rig(papers.options(), 2);
  TlsPeer before(rig.port(), {});
  ASSERT_TRUE(before.connected());
  EXPECT_EQ(before.serial(), 1);
  papers.renew("renewed");
  ASSERT_TRUE(rig.server->reload_tls().ok());
  EXPECT_TRUE(rig.lab.until([&] { return TlsPeer(rig.port(), {}).serial() == 2; }));
  ASSERT_TRUE(before.send("x"));
  EXPECT_EQ(before.read(7), "sniff:x");
}

TEST(Tls, AReloadThatFailsKeepsTheOldCertificate) {
  Papers papers;
  Running rig(papers.options());
  FILE* file = ::fopen(papers.certificate().c_str(), "w");
  ::fputs("no certificate\n", file);
  ::fclose(file);
  auto status = rig.server->reload_tls();
  EXPECT_EQ(status.code, base::Code::kFailedPrecondition);
  EXPECT_NE(status.text.find(papers.certificate()), std::string::npos) << status.text;
  EXPECT_EQ(TlsPeer(rig.port(), {}).serial(), 1);
}

TEST(Tls, FilesThatAreMissingOrDoNotMatchAreNamed) {
  Papers papers, others;
  auto missing = papers.options();
  missing.key = "/nonexistent/key.pem";
  auto status = TlsContext::load(missing);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("/nonexistent/key.pem: No such file"), std::string::npos) << status.error().text;
  auto mismatch = papers.options();
  mismatch.key = others.key();
  EXPECT_FALSE(TlsContext::load(mismatch));
}

TEST(Tls, WithAClientCaStrangersAreRefused) {
  Papers server, friends("friend"), strangers("stranger");
  auto options = server.options();
  options.client_ca = friends.certificate();
  Running rig(options);
  // In TLS 1.3 the client hears of it only after its handshake.
  auto served = [&](const Papers* papers) {
    TlsPeer peer(rig.port(), {.papers = papers});
    return peer.connected() && peer.send("x") && peer.read(7) == "sniff:x";
  };
  EXPECT_TRUE(served(&friends));
  EXPECT_FALSE(served(&strangers));
  EXPECT_FALSE(served(nullptr));
}

}  // namespace
}  // namespace weir::net
