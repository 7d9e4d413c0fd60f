#include "net/inherited.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace weir::net {
namespace {

constexpr int kFirstInherited = 3;  // sd_listen_fds(3): after standard input, output and error
constexpr long kMostInherited = 1 << 16;

// The whole of a variable as a number; -1 where it is not one.
long number_of(const char* text) {
  long value = -1;
  if (!text || !*text) return -1;
  const char* end = text + std::strlen(text);
  auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc() && at == end ? value : -1;
}

bool listens(const Fd& fd) {
  int accepts = 0;
  socklen_t size = sizeof accepts;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts != 0;
}

bool is_at(const Fd& fd, const Endpoint& endpoint) {
  const Endpoint at = local_endpoint(fd);
  return at.transport() == endpoint.transport() && at.text() == endpoint.text();
}

bool overlap(const Endpoint& a, const Endpoint& b) {
  return a.transport() == Transport::kTcp && b.transport() == Transport::kTcp && a.port() == b.port() &&
         (a.any() || b.any());
}

void prepare(const Fd& fd) {
  ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  const int on = 1;  // accepted sockets inherit it; sockets of the unix domain do not know it
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

InheritedSockets::InheritedSockets(std::vector<Fd> sockets) {
  for (auto& fd : sockets) {
    prepare(fd);
    if (listens(fd))
      sockets_.push_back(std::move(fd));
    else
      base::log::warning("a descriptor of the service manager is no listening socket: closed", {{"fd", fd.get()}});
  }
}

// Descriptors that exec() has left open are not closed by it; all that weir opens itself are.
base::Result<InheritedSockets> InheritedSockets::from_environment() {
  const long count = number_of(std::getenv("LISTEN_FDS"));
  if (number_of(std::getenv("LISTEN_PID")) != ::getpid() || count <= 0 || count > kMostInherited)
    return InheritedSockets();
  for (int fd = kFirstInherited; fd < kFirstInherited + count; ++fd)
    if (const int flags = ::fcntl(fd, F_GETFD); flags < 0 || (flags & FD_CLOEXEC) != 0)
      return base::invalid("LISTEN_FDS is " + std::to_string(count) + ", but descriptor " + std::to_string(fd) +
                           " is none that the service manager has given");
  std::vector<Fd> sockets;
  for (int i = 0; i < count; ++i) sockets.emplace_back(kFirstInherited + i);
  return InheritedSockets(std::move(sockets));
}

bool InheritedSockets::holds(const Endpoint& endpoint) const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [&](const Fd& fd) { return is_at(fd, endpoint) || overlap(local_endpoint(fd), endpoint); });
}

std::vector<Fd> InheritedSockets::take(const Endpoint& endpoint) {
  std::vector<Fd> taken, rest;
  for (auto& fd : sockets_) (is_at(fd, endpoint) ? taken : rest).push_back(std::move(fd));
  sockets_ = std::move(rest);
  return taken;
}

void InheritedSockets::end_rest() {
  for (const auto& fd : sockets_) {
    base::log::warning("a socket of the service manager is at an address that no `listen` names: closed",
                       {{"address", local_endpoint(fd).text()}});
    ::shutdown(fd.get(), SHUT_RDWR);
  }
  sockets_.clear();
}

}  // namespace weir::net
