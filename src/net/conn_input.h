// ConnInput: the way of a connection's bytes from its socket to its codec.
//
// Where the peer is a proxy that says so, a PROXY header names the client; the first byte decides between TLS and
// cleartext; under TLS, ALPN decides on the codec, and where the client does not speak it, the first bytes do. Owned by
// the connection; the shard's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/client.h"
#include "base/env.h"
#include "net/conn_env.h"
#include "net/socket.h"
#include "net/tls.h"
#include "wire/codec.h"
#include "wire/proxy_protocol.h"

namespace weir::net {

class ConnInput {
 public:
  static constexpr base::Duration kHandshakeTime = std::chrono::seconds(10);

  enum class Outcome : uint8_t {
    kTaken,
    kRefused,  // and counted: what TLS has to say of it is to be sent, then the connection ends
    kEnded,    // TLS: the peer has said that no more will come
    kFailed,
  };

  // `env` and `wire` are borrowed.
  ConnInput(ConnEnv& env, wire::Wire& wire, Accepted&& accepted, base::ClientRef client);

  // Takes all of `bytes`.
  Outcome received(std::span<const std::byte> bytes);
  // The connection has no codec yet, and has had time enough for that. Counts what must be counted.
  bool overdue(base::Time now) const;
  // Null until the first bytes have decided.
  wire::Codec* codec() const { return codec_.get(); }
  // Null in cleartext.
  TlsSession* tls() const { return tls_.get(); }
  const wire::PeerInfo& peer() const { return peer_; }
  // Lets go of codec and TLS.
  void release();

 private:
  enum class State : uint8_t { kProxyHeader, kFirstByte, kHandshake, kServing };

  Outcome read_proxy_header(std::span<const std::byte>& bytes);
  Outcome choose(std::byte first);
  TlsSession::Memory tls_memory() const;
  Outcome open_records(std::span<const std::byte> bytes);
  Outcome serve_tls();
  void serve(std::unique_ptr<wire::Codec> codec);
  void feed(std::span<const std::byte> bytes);
  Outcome refuse(std::string_view reason) const;
  bool for_nodes() const { return listener_ == ListensFor::kNodes; }
  static std::shared_ptr<const std::vector<std::string>> names_of_node();

  ConnEnv& env_;
  wire::Wire& wire_;
  wire::PeerInfo peer_;
  std::unique_ptr<wire::Codec> codec_;
  std::unique_ptr<TlsSession> tls_;
  std::unique_ptr<wire::ProxyHeader> proxy_header_;  // while it is awaited
  base::Time since_;                                 // of the first byte, or of the handshake, that is awaited
  const Transport transport_;
  const ListensFor listener_;
  State state_ = State::kFirstByte;
};

}  // namespace weir::net
