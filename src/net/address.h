// Addresses to listen at: from their text to sockets that listen.
//
//   127.0.0.1:8080   [::1]:8080   localhost:0   *:8080   [::]:8080 (both IPv6 and IPv4, see resolve_all())
//   unix:/run/weir.sock   unix:/run/weir.sock?mode=0660
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/fd.h"

namespace weir::net {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool ipv6_only = false;      // of "[::]": not IPv4 too
  std::optional<mode_t> mode;  // of a unix socket's file; nothing: as the umask leaves it

  Transport transport() const { return storage.ss_family == AF_UNIX ? Transport::kUnix : Transport::kTcp; }
  uint16_t port() const;  // 0 for unix
  void set_port(uint16_t port);
  std::string path() const;  // of a unix socket
  bool loopback() const;     // 127.0.0.0/8, ::1; false for unix
  bool any() const;          // 0.0.0.0, ::; false for unix
  // "127.0.0.1:5000", "[::1]:5000", "unix:/run/weir.sock"; IPv4 in IPv6 as IPv4.
  std::string text() const;
};

// Whether resolve() can read the text; no name is looked up. Errors: INVALID_ARGUMENT.
base::Status check_address(std::string_view text);

// Returns the endpoints that the text names; a host name may name several. Blocks on the name service. Errors:
// INVALID_ARGUMENT for a text of another form, UNAVAILABLE for a name that is not known.
base::Result<std::vector<Endpoint>> resolve(std::string_view text);

// The endpoints of each text, for one server: where "0.0.0.0" stands beside "[::]" with the same port, the second is
// for IPv6 alone, or both would want that port of IPv4. Errors: those of resolve().
base::Result<std::vector<std::vector<Endpoint>>> resolve_all(std::span<const std::string_view> texts);

// Before any of them is bound: whether all are free, but for those that are `ours` already (null: none is). One may be
// a part of another: of "127.0.0.1:80" and "[::]:80" the first gets what comes to it. Errors: that one is listed twice
// (INVALID_ARGUMENT), or in use by another process (UNAVAILABLE, as of listen_at()).
base::Status check_free(std::span<const std::vector<Endpoint>> endpoints,
                        const std::function<bool(const Endpoint&)>& ours);

enum class Sharing : bool {
  kAlone,     // fails where anybody else listens
  kPerShard,  // SO_REUSEPORT: the kernel spreads connections over all sockets of that port
};

// A socket that is bound and listens. Errors name the address and the reason, and their details is the errno in
// decimal. A socket file that nobody listens at any more is replaced; a file of another kind is never touched. Its mode
// is set before anybody can connect.
base::Result<Fd> listen_at(const Endpoint& endpoint, Sharing sharing);

// A unix socket that was inherited: its file gets the endpoint's mode, too.
base::Result<Fd> listen_again(const Endpoint& endpoint, Fd inherited);

// A socket for one more shard. One that was inherited (null: none was) may keep its port to itself, without
// SO_REUSEPORT or for another user: then the shards accept from the same one.
base::Result<Fd> listen_beside(const Endpoint& endpoint, const Fd* inherited);

// Returns the address that a bound socket has got, with its port where 0 was asked for.
Endpoint local_endpoint(const Fd& fd);

}  // namespace weir::net
