#include "net/tls.h"

#include <string>
#include <thread>

#include "tls_fixture.h"

namespace weir::net {
namespace {

using lab::pattern;

TEST(Tls, AlpnChoosesTheCodec) {
  CertificateFiles certificate;
  Running rig(certificate.options());
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
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {.alpn = "\x03"
                                    "foo"});
  EXPECT_FALSE(peer.connected());
  EXPECT_EQ(peer.reason(), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.rejects() == std::vector<std::string>{"alpn"}; }));
}

TEST(Tls, OldVersionsAreRefused) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer old(rig.port(), {.newest = TLS1_1_VERSION, .oldest = TLS1_VERSION});
  EXPECT_FALSE(old.connected());
  TlsPeer newer(rig.port(), {.newest = TLS1_2_VERSION});
  EXPECT_TRUE(newer.connected());
}

TEST(Tls, RenegotiationIsRefused) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {.newest = TLS1_2_VERSION});
  ASSERT_TRUE(peer.connected());
  ASSERT_EQ(SSL_renegotiate(peer.ssl()), 1);
  EXPECT_NE(SSL_do_handshake(peer.ssl()), 1);
}

TEST(Tls, AFloodOfKeyUpdatesEndsTheConnection) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.connected());
  ASSERT_TRUE(peer.send("x"));
  ASSERT_EQ(peer.read(7), "sniff:x");
  for (int i = 0; i < 100 && SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1; ++i)
    if (!peer.send("y")) break;
  EXPECT_TRUE(rig.lab.until([&] { return rig.server->connections() == 0; }));
}

// OpenSSL would ask for the password on the terminal, and the shard that reads the files again would stand still.
TEST(Tls, AKeyThatIsEncryptedIsRefusedAndNobodyIsAsked) {
  CertificateFiles certificate;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(nullptr, EVP_PKEY_free);
  FILE* file = std::fopen(certificate.key().c_str(), "r");
  key.reset(PEM_read_PrivateKey(file, nullptr, nullptr, nullptr));
  std::fclose(file);
  ASSERT_TRUE(key);
  for (bool traditional : {false, true}) {
    BIO* out = BIO_new_file(certificate.key().c_str(), "w");
    unsigned char secret[] = "secret";
    int written = traditional ? PEM_write_bio_PrivateKey_traditional(out, key.get(), EVP_aes_256_cbc(), secret, 6,
                                                                     nullptr, nullptr)
                              : PEM_write_bio_PKCS8PrivateKey(out, key.get(), EVP_aes_256_cbc(),
                                                              reinterpret_cast<char*>(secret), 6, nullptr, nullptr);
    BIO_free(out);
    ASSERT_EQ(written, 1);
    auto context = TlsContext::load(certificate.options());
    ASSERT_FALSE(context);
    EXPECT_EQ(context.error().text, "TLS: cannot use key " + certificate.key() + ": the key is encrypted");
    EXPECT_EQ(ERR_peek_error(), 0UL);
  }
}

// One session of each side, without a network; the client's handshake is done.
struct InMemory {
  CertificateFiles certificate;
  std::shared_ptr<const TlsContext> context = std::move(TlsContext::load(certificate.options())).value();
  TlsSession server{*context, TlsSession::Memory{}};
  SSL_CTX* client_context = SSL_CTX_new(TLS_client_method());
  SSL* client = SSL_new(client_context);
  std::vector<std::byte> plain = std::vector<std::byte>(1 << 16);

  InMemory() {
    SSL_set_bio(client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(client);
    for (int i = 0; i < 4; ++i) {
      SSL_do_handshake(client);
      feed(sent(), base::Time{});
      auto output = server.output();
      BIO_write(SSL_get_rbio(client), output.data(), int(output.size()));
      server.consumed(output.size());
    }
  }
  ~InMemory() {
    SSL_free(client);
    SSL_CTX_free(client_context);
  }
  std::string sent() {
    std::string out(1 << 20, 0);
    const int n = BIO_read(SSL_get_wbio(client), out.data(), int(out.size()));
    out.resize(size_t(std::max(n, 0)));
    return out;
  }
  std::string key_updates(int count, int kind) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(SSL_key_update(client, kind), 1);
      SSL_do_handshake(client);
    }
    return sent();
  }
  size_t feed(const std::string& bytes, base::Time now) {
    server.feed(std::as_bytes(std::span(bytes)));
    return server.open(plain, now);
  }
};

TEST(Tls, EightKeyUpdatesInTenSecondsAreAllowedAndNineAreNot) {
  InMemory t;
  ASSERT_EQ(t.server.state(), TlsSession::State::kOpen);
  for (int second : {1, 12, 23}) {
    (void)t.feed(t.key_updates(8, SSL_KEY_UPDATE_REQUESTED), base::Time(std::chrono::seconds(second)));
    ASSERT_EQ(t.server.state(), TlsSession::State::kOpen) << second;
  }
  (void)t.feed(t.key_updates(1, SSL_KEY_UPDATE_REQUESTED), base::Time(std::chrono::seconds(24)));
  EXPECT_EQ(t.server.state(), TlsSession::State::kFailed);
  EXPECT_EQ(t.server.error(), "too many key updates or renegotiations");
}

TEST(Tls, OfKeyUpdatesInOneReadNoMoreAreWorkedOnThanAreAllowed) {
  InMemory t;
  const std::string flood = t.key_updates(2000, SSL_KEY_UPDATE_REQUESTED);
  (void)t.feed(flood, base::Time(std::chrono::seconds(1)));
  EXPECT_EQ(t.server.state(), TlsSession::State::kFailed);
  EXPECT_LT(t.server.output().size(), 20u * 64) << "each of them is answered";
}

TEST(Tls, LargeTransfersArriveWhole) {
  CertificateFiles certificate;
  Running rig(certificate.options());
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
  std::string path() const { return certificate.folder + "/a.sock"; }
  ServerOptions options() const {
    ServerOptions out;
    out.listen = {{"unix:" + path()}};
    out.tls = certificate.options();
    return out;
  }
  CertificateFiles certificate;
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
  for (const char* request : {"!last 250000\n", "!send 250000\n"}) {
    Narrow narrow(limits);
    TlsPeer peer(Peer(narrow.path()), {});
    ASSERT_TRUE(peer.connected());
    ASSERT_TRUE(peer.send(request));
    EXPECT_TRUE(narrow.rig.lab.until([&] { return narrow.rig.server->connections() == 0; })) << request;
    EXPECT_EQ(narrow.rig.lab.rejects(), std::vector<std::string>{"slow_read"}) << request;
  }
}

// TCP's socket takes megabytes, and then none for longer than this grace though the peer reads all the time.
TEST(Tls, APeerThatReadsSlowlyAndSteadilyIsNotCutOff) {
  wire::Limits limits;
  limits.grace = std::chrono::milliseconds(100);
  CertificateFiles certificate;
  Running rig(certificate.options(), 1, limits);
  Peer peer(rig.port());
  int small = 4096;
  ::setsockopt(peer.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  TlsPeer tls(std::move(peer), {});
  ASSERT_TRUE(tls.connected());
  ASSERT_TRUE(tls.send("!send 67108864\n"));
  for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5); std::chrono::steady_clock::now() < end;) {
    ASSERT_EQ(tls.read(4096).size(), 4096u);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(rig.lab.rejects(), std::vector<std::string>{});
}

TEST(Tls, TheLastAnswerIsFollowedByACloseNotify) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_EQ(peer.read(100), "sniff:bye\n");
  EXPECT_EQ(SSL_get_shutdown(peer.ssl()), SSL_RECEIVED_SHUTDOWN);
}

TEST(Tls, APeersCloseNotifyIsAnEndOfStream) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  TlsPeer peer(rig.port(), {});
  ASSERT_TRUE(peer.send("x"));
  ASSERT_EQ(peer.read(7), "sniff:x");
  SSL_shutdown(peer.ssl());
  EXPECT_TRUE(rig.lab.until([&] { return rig.lab.eofs == 1 && rig.server->connections() == 0; }));
}

TEST(Tls, SharesThePortWithCleartextUnlessItIsRequired) {
  CertificateFiles certificate;
  Running both(certificate.options());
  Peer clear(both.port());
  ASSERT_TRUE(clear.send("x"));
  EXPECT_EQ(clear.read(7), "sniff:x");

  auto only = certificate.options();
  only.required = true;
  Running strict(only);
  Peer refused(strict.port());
  ASSERT_TRUE(refused.send("x"));
  EXPECT_EQ(refused.read(12), "tls_wanted:x");
  TlsPeer welcome(strict.port(), {});
  EXPECT_TRUE(welcome.connected());
}

TEST(Tls, AClientCaRefusesCleartext) {
  CertificateFiles certificate;
  auto options = certificate.options();
  options.client_ca = certificate.certificate();
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
  CertificateFiles certificate;
  Running rig(certificate.options());
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send(std::string_view("\x16\x03\x01\x00\x05hello", 10)));
  auto alert = peer.read_all();
  ASSERT_GE(alert.size(), 1u);
  EXPECT_EQ(alert[0], 0x15);
  EXPECT_EQ(rig.lab.rejects(), std::vector<std::string>{"tls"});
}

TEST(Tls, AHandshakeCutOffAtAnyByteLeavesNothingBehind) {
  CertificateFiles certificate;
  Running rig(certificate.options());
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
  CertificateFiles certificate;
  Running rig(certificate.options(), 2);
  TlsPeer before(rig.port(), {});
  ASSERT_TRUE(before.connected());
  EXPECT_EQ(before.serial(), 1);
  certificate.renew("renewed");
  ASSERT_TRUE(rig.server->reload_tls().ok());
  EXPECT_TRUE(rig.lab.until([&] { return TlsPeer(rig.port(), {}).serial() == 2; }));
  ASSERT_TRUE(before.send("x"));
  EXPECT_EQ(before.read(7), "sniff:x");
}

TEST(Tls, TheTimeAtWhichTheCertificateExpiresIsAMetricThatFollowsReloads) {
  CertificateFiles files;
  Running rig(files.options());
  auto expires = [&] { return std::to_string((*TlsContext::load(files.options()))->expires()); };
  EXPECT_EQ(rig.metric("weir_tls_certificate_expiry_timestamp_seconds"), expires());
  files.renew("localhost");
  ASSERT_TRUE(rig.server->reload_tls().ok());
  EXPECT_EQ(rig.metric("weir_tls_certificate_expiry_timestamp_seconds"), expires());
}

TEST(Tls, AReloadThatFailsKeepsTheOldCertificate) {
  CertificateFiles certificate;
  Running rig(certificate.options());
  FILE* file = ::fopen(certificate.certificate().c_str(), "w");
  ::fputs("no certificate\n", file);
  ::fclose(file);
  auto status = rig.server->reload_tls();
  EXPECT_EQ(status.code, base::Code::kFailedPrecondition);
  EXPECT_NE(status.text.find(certificate.certificate()), std::string::npos) << status.text;
  EXPECT_EQ(TlsPeer(rig.port(), {}).serial(), 1);
}

TEST(Tls, FilesThatAreMissingOrDoNotMatchAreNamed) {
  CertificateFiles certificate, others;
  auto missing = certificate.options();
  missing.key = "/nonexistent/key.pem";
  auto status = TlsContext::load(missing);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("/nonexistent/key.pem: No such file"), std::string::npos) << status.error().text;
  auto mismatch = certificate.options();
  mismatch.key = others.key();
  EXPECT_FALSE(TlsContext::load(mismatch));
}

TEST(Tls, WithAClientCaStrangersAreRefused) {
  CertificateFiles server, friends("friend"), strangers("stranger");
  auto options = server.options();
  options.client_ca = friends.certificate();
  Running rig(options);
  // In TLS 1.3 the client hears of it only after its handshake.
  auto served = [&](const CertificateFiles* certificate) {
    TlsPeer peer(rig.port(), {.certificate = certificate});
    return peer.connected() && peer.send("x") && peer.read(7) == "sniff:x";
  };
  EXPECT_TRUE(served(&friends));
  EXPECT_FALSE(served(&strangers));
  EXPECT_FALSE(served(nullptr));
}

}  // namespace
}  // namespace weir::net
