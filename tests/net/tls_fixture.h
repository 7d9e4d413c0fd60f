// Helpers for tests of TLS: a certificate, a client that blocks, a running server.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "lab.h"
#include "net/tls.h"

namespace weir::net {

using lab::Peer;

// A folder with a self-signed certificate and its key, made afresh.
struct CertificateFiles {
  explicit CertificateFiles(const char* name = "localhost") {
    char text[] = "/tmp/weir-tls-XXXXXX";
    folder = ::mkdtemp(text);
    renew(name);
  }
  ~CertificateFiles() {
    ::unlink(certificate().c_str());
    ::unlink(key().c_str());
    ::rmdir(folder.c_str());
  }
  void renew(const char* name) {
    std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
    std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
    X509_set_version(x509.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
    X509_set_pubkey(x509.get(), pair.get());
    auto* subject = X509_get_subject_name(x509.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(x509.get(), subject);
    X509_sign(x509.get(), pair.get(), EVP_sha256());
    FILE* file = ::fopen(certificate().c_str(), "w");
    PEM_write_X509(file, x509.get());
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
  struct Options {
    std::string_view alpn = {};  // length-prefixed
    int newest = TLS1_3_VERSION, oldest = 0;
    const CertificateFiles* certificate = nullptr;
  };
  TlsPeer(uint16_t port, const Options& options) : TlsPeer(Peer(port), options) {}
  TlsPeer(Peer peer, const Options& options) : peer_(std::move(peer)), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, options.newest);
    if (options.oldest) SSL_CTX_set_min_proto_version(context_, options.oldest);
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (!options.alpn.empty())
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(options.alpn.data()),
                              unsigned(options.alpn.size()));
    if (options.certificate) {
      SSL_CTX_use_certificate_file(context_, options.certificate->certificate().c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_, options.certificate->key().c_str(), SSL_FILETYPE_PEM);
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
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    long serial = ASN1_INTEGER_get(X509_get0_serialNumber(certificate));
    X509_free(certificate);
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
  explicit Running(TlsOptions tls, int shards = 1, wire::Limits limits = {})
      : Running(options(std::move(tls)), shards, limits) {}
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

}  // namespace weir::net
