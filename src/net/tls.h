// TLS over memory: OpenSSL sees buffers, never a socket, so that a TLS connection too makes one read and one write per
// turn of the loop.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "base/stepped_charge.h"
#include "net/dormant_ssl.h"
#include "net/hello_limit.h"
#include "net/server.h"
#include "wire/rate_floor.h"

namespace weir::net {

// A certificate, its key and our rules: TLS 1.2 or newer, ALPN `h2` before `http/1.1` (RFC 7301; a list with neither is
// answered with the fatal alert no_application_protocol), key exchanges over elliptic curves alone, no renegotiation,
// no compression. Immutable: a reload makes another. Any thread.
class TlsContext {
 public:
  // Errors name the file and what is wrong with it.
  static base::Result<std::shared_ptr<const TlsContext>> load(const TlsOptions& options);
  // For connections of our own: servers have to show a certificate that is signed by one in `ca_file` (PEM); empty: by
  // one that the system trusts (OpenSSL's default paths).
  enum class Offer : uint8_t { kHttp1, kHttp2 };  // the one protocol of ALPN
  static base::Result<std::shared_ptr<const TlsContext>> for_client(const std::string& ca_file,
                                                                    Offer offer = Offer::kHttp1);
  // The same between servers that show each other certificates of one authority of their own. Whatever name is in one,
  // it is good: the authority signs for nobody else.
  struct Mutual {
    std::string certificate, key, ca;  // PEM files
  };
  static base::Result<std::shared_ptr<const TlsContext>> for_member(const Mutual& files, Offer offer);

  enum class Names : uint8_t { kChecked, kAny };
  explicit TlsContext(SSL_CTX* context, Names names = Names::kChecked) : context_(context), names_(names) {}
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  SSL_CTX* get() const { return context_; }
  Names names() const { return names_; }  // in certificates of servers
  // Unix time at which our certificate, the first of its chain, expires; 0 when there is none.
  int64_t expires() const;

 private:
  SSL_CTX* context_;
  const Names names_;
};

// One connection's TLS. One thread.
//
// What OpenSSL allocates for a peer is charged as kHandshakeBytes from the beginning, with more where the peer has to
// show certificates, and as kOpenBytes once the handshake is done: measured, with room for one record each way. At rest
// it has no such room, and is charged kRestBytes. Sealed bytes beyond one record are charged until they have gone.
class TlsSession {
 public:
  enum class State : uint8_t { kHandshake, kOpen, kPeerClosed, kFailed };
  static constexpr uint64_t kHandshakeBytes = 80 << 10, kOpenBytes = 48 << 10, kRestBytes = 16 << 10;

  // The account that the memory is charged to. Without a ledger nobody counts.
  struct Memory {
    base::MemoryLedger* ledger = nullptr;
    base::SteppedCharge::Owner owner = {};
  };
  // The server's side. Where there is no memory for a handshake, or the owner has its share, it has failed from the
  // beginning, and its output is the alert that says so. Throws bad_alloc.
  TlsSession(const TlsContext& context, Memory memory);
  // The client's side, of for_client() or for_member(): the certificate has to be `host`'s, a name or an address,
  // unless any will do. open() begins. Where there is no memory it has failed from the beginning. Throws bad_alloc.
  TlsSession(const TlsContext& context, const std::string& host, Memory memory);
  TlsSession(const TlsSession&) = delete;

  // Ciphertext from the peer; it must stay until open() has returned 0.
  void feed(std::span<const std::byte> bytes) { input_ = bytes; }
  // Moves the handshake on and opens records into `plain`; returns how many bytes. 0: all input is used up, or the
  // session is over; see state().
  size_t open(std::span<std::byte> plain, base::Time now);
  State state() const { return state_; }
  // "h2", "http/1.1" or nothing; from kOpen on.
  std::string_view alpn() const;
  // The names in the peer's certificate (net/certificate_names.h); from kOpen on.
  std::shared_ptr<const std::vector<std::string>> peer_names() const;
  // Why it failed, in OpenSSL's words.
  const std::string& error() const { return error_; }
  // The peer offered protocols, and none of ours.
  bool alpn_refused() const { return alpn_refused_; }

  // Seals up to kSealAtOnce bytes, or one record where memory is short; returns how many it took. Only in kOpen and
  // kPeerClosed.
  size_t seal(std::span<const iovec> pieces);
  // Says that no more will come (close_notify).
  void finish();

  // Ciphertext for the peer. Stable until consumed(), open() or seal().
  std::span<const std::byte> output() const { return std::as_bytes(std::span(output_)).subspan(sent_); }
  // False: some is left, and there is no memory to keep it. The connection has to end.
  bool consumed(size_t n);
  // Whether the peer takes sealed bytes as fast as it must; asked about once a second. `undelivered`: those that
  // the socket has, while there is output().
  bool peer_keeps_up(base::Time now, size_t undelivered, const wire::Limits& limits);
  // Now and then, while the peer may be silent: puts OpenSSL's state away and gives back the charge for records where
  // nothing has been opened or sealed since the last call, and neither a part of a record nor sealed bytes are kept.
  // The next record takes it again; where there is no memory, records that come and go whole pass without.
  void rest();

  static constexpr size_t kSealAtOnce = 256 << 10;

 private:
  struct Bio;  // OpenSSL's way to input_ and output_
  bool may_begin(const TlsContext& context);
  void connect_buffers();
  bool write(const void* data, size_t n);
  void handshake();
  void fail();
  bool wake();
  bool keeps_record() const;
  void refuse(unsigned char alert, const char* why);
  size_t take_room(std::span<const iovec> pieces);
  static void watch_messages(int write, int version, int type, const void* data, size_t n, SSL* ssl, void* self);

  State state_ = State::kHandshake;
  base::SteppedCharge memory_;
  uint64_t sealed_ = 0;   // of memory_, for bytes that are sealed
  bool resting_ = false;  // memory_ has no room for records
  bool used_ = false;     // since the last rest()
  HelloLimit hello_;
  bool hello_too_long_ = false;
  std::span<const std::byte> input_;
  std::string output_;
  size_t sent_ = 0;
  std::string error_;
  bool alpn_refused_ = false;
  wire::OutputFloor output_floor_;  // under output_, which waits for the socket
  base::Time now_{}, new_keys_since_{};
  uint32_t new_keys_ = 0;  // KeyUpdates and renegotiations that the peer has asked for, since then
  DormantSsl ssl_;         // none: it was refused
};

}  // namespace weir::net
