// ConnOutput: writes a connection's output to its socket: the codec's, sealed where there is TLS.
//
// Sealed bytes are OpenSSL's and cannot be taken back: they count as consumed, and no more are sealed until they have
// gone. The codec watches whether the peer takes its output; what TLS has sealed, which the codec takes for gone, is
// watched here. Owned by the connection; the shard's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/metrics.h"
#include "net/conn_wire.h"
#include "net/socket.h"
#include "net/tls.h"
#include "wire/codec.h"

namespace weir::net {

class ConnOutput {
 public:
  static constexpr size_t kPieces = 64;  // per write

  // All are borrowed.
  ConnOutput(Socket& socket, ConnWire& wire, base::Counter& bytes) : socket_(socket), wire_(wire), bytes_(bytes) {}

  // kNotYet: the socket is full, or the rest is for the next turn; the connection is flushed then.
  enum class Written : uint8_t { kAll, kNotYet, kFailed };
  // Null: there is no codec to write for; no TLS.
  Written write(wire::Codec* codec, TlsSession* tls);

 private:
  Written write_plain(wire::Codec& codec);
  Written write_sealed(wire::Codec* codec, TlsSession& tls);
  bool sent(Socket::Moved moved, size_t offered);

  Socket& socket_;
  ConnWire& wire_;
  base::Counter& bytes_;
};

}  // namespace weir::net
