// Fd: owns one file descriptor. And accepted sockets on their way from a listener to the shard that will serve them.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

#include "wire/exchange.h"

namespace weir::net {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (int fd = release(); fd >= 0) ::close(fd);
  }

 private:
  int fd_ = -1;
};

enum class Transport : bool { kTcp, kUnix };

// The peers that a listener is for: clients, or the other nodes of a cluster, which show a certificate of the cluster's
// authority.
enum class ListensFor : uint8_t { kClients, kNodes };
// The first of PeerInfo::certificate_names of a connection to a listener for nodes: no certificate has such a name.
inline constexpr std::string_view kShownByNode = "listener:nodes";

struct Accepted {
  Fd fd;             // non-blocking
  std::string peer;  // "127.0.0.1:5000", "[::1]:5000", "unix"
  Transport transport = Transport::kTcp;
  wire::Network network = wire::Network::kOther;           // of `peer`
  wire::AdminMethods admin = wire::AdminMethods::kServed;  // this and the next: of the listener
  ListensFor listener = ListensFor::kClients;
};

}  // namespace weir::net
