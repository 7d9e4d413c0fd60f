// Which groups and key exchanges the two sides of our TLS take from a peer of OpenSSL's.
#include "net/key_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "net/tls.h"
#include "tls_fixture.h"

namespace weir::net {
namespace {

using PeerContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// The other end of a handshake, over memory.
class PeerSession {
 public:
  explicit PeerSession(SSL_CTX* context) : ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_is_server(ssl_) ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
  }
  ~PeerSession() { SSL_free(ssl_); }
  PeerSession(const PeerSession&) = delete;

  // Until nothing more comes of it; whether both sides are through.
  bool handshake_with(TlsSession& ours) {
    std::vector<std::byte> plain(1 << 16);
    for (int i = 0; i < 6; ++i) {
      SSL_do_handshake(ssl_);
      std::string sent(1 << 16, 0);
      sent.resize(size_t(std::max(BIO_read(SSL_get_wbio(ssl_), sent.data(), int(sent.size())), 0)));
      ours.feed(std::as_bytes(std::span(sent)));
      (void)ours.open(plain, base::Time{});
      const auto output = ours.output();
      BIO_write(SSL_get_rbio(ssl_), output.data(), int(output.size()));
      ours.consumed(output.size());
    }
    ERR_clear_error();
    return SSL_is_init_finished(ssl_) && ours.state() == TlsSession::State::kOpen;
  }
  SSL* ssl() { return ssl_; }

 private:
  SSL* ssl_;
};

PeerContext client_of(const char* groups, int version = TLS1_3_VERSION) {
  PeerContext out(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(out.get(), version);
  EXPECT_EQ(SSL_CTX_set1_groups_list(out.get(), groups), 1) << groups;
  return out;
}

PeerContext server_of(const CertificateFiles& files, const char* groups, int version) {
  PeerContext out(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(out.get(), version);
  EXPECT_EQ(SSL_CTX_set1_groups_list(out.get(), groups), 1) << groups;
  SSL_CTX_use_certificate_file(out.get(), files.certificate().c_str(), SSL_FILETYPE_PEM);
  SSL_CTX_use_PrivateKey_file(out.get(), files.key().c_str(), SSL_FILETYPE_PEM);
  return out;
}

TEST(KeyExchange, TheServerTakesCurvesAndNoFiniteField) {
  CertificateFiles files;
  const auto ours = std::move(TlsContext::load(files.options())).value();
  auto through = [&](const char* groups, int version) {
    TlsSession server(*ours, TlsSession::Memory{});
    const PeerContext context = client_of(groups, version);
    return PeerSession(context.get()).handshake_with(server);
  };
  for (const char* curve : {"X25519", "P-256", "P-384", "P-521"}) EXPECT_TRUE(through(curve, TLS1_3_VERSION)) << curve;
  EXPECT_TRUE(through("P-256", TLS1_2_VERSION)) << "which is the certificate's, too";
  EXPECT_FALSE(through("X448", TLS1_2_VERSION)) << "RSA without a curve";
  for (const char* field : {"ffdhe2048", "ffdhe3072", "ffdhe8192"})
    EXPECT_FALSE(through(field, TLS1_3_VERSION)) << field;
}

// The share is of the field; the client is asked for one of the curve instead.
TEST(KeyExchange, AClientThatPrefersAFiniteFieldIsAskedForACurve) {
  CertificateFiles files;
  const auto ours = std::move(TlsContext::load(files.options())).value();
  TlsSession server(*ours, TlsSession::Memory{});
  const PeerContext context = client_of("ffdhe2048:X25519");
  PeerSession peer(context.get());
  EXPECT_TRUE(peer.handshake_with(server));
  EXPECT_EQ(SSL_get_negotiated_group(peer.ssl()), NID_X25519);
}

TEST(KeyExchange, OurClientTakesNoFiniteFieldFromAServer) {
  CertificateFiles files;
  const auto ours = std::move(TlsContext::for_client(files.certificate())).value();
  auto through = [&](SSL_CTX* context) {
    TlsSession client(*ours, "localhost", TlsSession::Memory{});
    return PeerSession(context).handshake_with(client);
  };
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION})
    EXPECT_TRUE(through(server_of(files, "X25519", version).get())) << version;
  EXPECT_FALSE(through(server_of(files, "ffdhe2048", TLS1_3_VERSION).get()));
}

TEST(KeyExchange, CiphersAreThoseOfCurves) {
  PeerContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  auto others = [&] {
    int n = 0;
    const auto* ciphers = SSL_CTX_get_ciphers(context.get());
    for (int i = 0; i < sk_SSL_CIPHER_num(ciphers); ++i) {
      const int exchange = SSL_CIPHER_get_kx_nid(sk_SSL_CIPHER_value(ciphers, i));
      n += exchange == NID_kx_dhe || exchange == NID_kx_rsa;
    }
    return n;
  };
  const char* all = "ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES256-GCM-SHA384:AES256-GCM-SHA384";
  ASSERT_EQ(SSL_CTX_set_cipher_list(context.get(), all), 1);
  EXPECT_EQ(others(), 2);
  EXPECT_TRUE(use_ciphers_of_curves(context.get()).ok());
  EXPECT_EQ(others(), 0);
  ASSERT_EQ(SSL_CTX_set_cipher_list(context.get(), "DHE-RSA-AES256-GCM-SHA384"), 1);
  EXPECT_TRUE(use_ciphers_of_curves(context.get()).ok());
  EXPECT_EQ(SSL_CTX_get_min_proto_version(context.get()), TLS1_3_VERSION) << "of 1.2 nothing is left";
}

}  // namespace
}  // namespace weir::net
