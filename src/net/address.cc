#include "net/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <set>
#include <system_error>

namespace weir::net {
namespace {

using base::Code;
using base::failure;

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
constexpr mode_t kModeBits = 0777;

template <class T>
T& as(sockaddr_storage& storage) {
  return reinterpret_cast<T&>(storage);
}
template <class T>
const T& as(const sockaddr_storage& storage) {
  return reinterpret_cast<const T&>(storage);
}

// "0660" behind "?mode=", which it takes from the path.
base::Status take_mode(std::string_view& path, std::optional<mode_t>& mode) {
  constexpr std::string_view kMode = "?mode=";
  const size_t at = path.rfind(kMode);
  if (at == path.npos) return {};
  const auto digits = path.substr(at + kMode.size());
  unsigned value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size() || value > kModeBits)
    return base::invalid(
        "the mode of a unix socket is octal, 0 to 0777, such as unix:/run/weir.sock?mode=0660, not \"" +
        std::string(digits) + '"');
  mode = mode_t(value), path = path.substr(0, at);
  return {};
}

base::Result<std::vector<Endpoint>> unix_endpoint(std::string_view path) {
  Endpoint endpoint;
  if (auto status = take_mode(path, endpoint.mode); !status.ok()) return status;
  auto& address = as<sockaddr_un>(endpoint.storage);
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return base::invalid("the path of a unix socket has 1 to " + std::to_string(sizeof address.sun_path - 1) +
                         " bytes: " + std::string(path));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  endpoint.size = socklen_t(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return std::vector{endpoint};
}

// "host:port" or "[host]:port".
bool split(std::string_view text, std::string& host, std::string& port) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  auto left = text.substr(0, colon), right = text.substr(colon + 1);
  if (left.size() > 2 && left.front() == '[' && left.back() == ']')
    left = left.substr(1, left.size() - 2);
  else if (left.find(':') != std::string_view::npos)
    return false;
  unsigned number = 0;
  auto [end, error] = std::from_chars(right.data(), right.data() + right.size(), number);
  if (error != std::errc() || end != right.data() + right.size() || number > 65535) return false;
  host = left, port = right;
  return true;
}

base::Status no_address(std::string_view text) {
  return base::invalid("an address is host:port, [IPv6 address]:port or unix:path, not \"" + std::string(text) + '"');
}

base::Status bind_failure(const Endpoint& endpoint, const char* doing, int error) {
  std::string text = std::string("cannot ") + doing + " " + endpoint.text() + ": ";
  if (error == EADDRINUSE)
    text += "the address is in use by another process";
  else if (error == EACCES)
    text += "permission denied";
  else if (error == EADDRNOTAVAIL)
    text += "this machine has no such address";
  else
    text += std::generic_category().message(error);
  return {Code::kUnavailable, text, std::to_string(error)};
}

// A socket file stays behind when its server dies. It is stale when nobody answers.
base::Status clear_stale(const Endpoint& endpoint) {
  auto path = endpoint.path();
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode))
    return failure(Code::kUnavailable, "cannot listen at " + endpoint.text() + ": a file that is no socket is there");
  Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int got = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.size);
  if (got == 0 || errno != ECONNREFUSED) return bind_failure(endpoint, "listen at", got == 0 ? EADDRINUSE : errno);
  ::unlink(path.c_str());
  return {};
}

bool any_address(const Endpoint& e, int family) {
  if (e.storage.ss_family != family) return false;
  if (family == AF_INET) return as<sockaddr_in>(e.storage).sin_addr.s_addr == htonl(INADDR_ANY);
  return bool(IN6_IS_ADDR_UNSPECIFIED(&as<sockaddr_in6>(e.storage).sin6_addr));
}

bool have_ipv6() { return bool(Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))); }

// The file of a socket that is bound: fchmod(2) would change the descriptor's mode, which nobody asks.
bool set_mode(const Endpoint& endpoint) {
  return !endpoint.mode || ::chmod(endpoint.path().c_str(), *endpoint.mode) == 0;
}

void set(const Fd& fd, int level, int option, int value) {
  ::setsockopt(fd.get(), level, option, &value, sizeof value);
}

}  // namespace

uint16_t Endpoint::port() const {
  if (storage.ss_family == AF_INET) return ntohs(as<sockaddr_in>(storage).sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(as<sockaddr_in6>(storage).sin6_port);
  return 0;
}

void Endpoint::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET) as<sockaddr_in>(storage).sin_port = htons(port);
  if (storage.ss_family == AF_INET6) as<sockaddr_in6>(storage).sin6_port = htons(port);
}

std::string Endpoint::path() const { return as<sockaddr_un>(storage).sun_path; }

bool Endpoint::loopback() const {
  constexpr uint8_t kNet = 127;
  if (storage.ss_family == AF_INET) return ntohl(as<sockaddr_in>(storage).sin_addr.s_addr) >> 24 == kNet;
  if (storage.ss_family != AF_INET6) return false;
  const auto& v6 = as<sockaddr_in6>(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == kNet);
}

bool Endpoint::any() const { return any_address(*this, AF_INET) || any_address(*this, AF_INET6); }

std::string Endpoint::text() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_UNIX) return "unix:" + path();
  if (storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &as<sockaddr_in>(storage).sin_addr, host, sizeof host);
    return std::string(host) + ':' + std::to_string(port());
  }
  const auto& v6 = as<sockaddr_in6>(storage).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    ::inet_ntop(AF_INET, v6.s6_addr + 12, host, sizeof host);
    return std::string(host) + ':' + std::to_string(port());
  }
  ::inet_ntop(AF_INET6, &v6, host, sizeof host);
  return '[' + std::string(host) + "]:" + std::to_string(port());
}

base::Status check_address(std::string_view text) {
  std::string host, port;
  if (text.starts_with("unix:")) {
    auto endpoint = unix_endpoint(text.substr(5));
    return endpoint ? base::Status() : endpoint.error();
  }
  return split(text, host, port) ? base::Status() : no_address(text);
}

base::Result<std::vector<Endpoint>> resolve(std::string_view text) {
  if (text.starts_with("unix:")) return unix_endpoint(text.substr(5));
  std::string host, port;
  if (!split(text, host, port)) return no_address(text);
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (host == "*" || host.empty()) host = have_ipv6() ? "::" : "0.0.0.0";
  if (int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found))
    return failure(Code::kUnavailable, "cannot resolve " + host + ": " + ::gai_strerror(error));
  std::vector<Endpoint> out;
  for (auto* at = found; at; at = at->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    endpoint.size = at->ai_addrlen;
    bool known = std::any_of(out.begin(), out.end(), [&](const auto& e) { return e.text() == endpoint.text(); });
    if (!known) out.push_back(endpoint);
  }
  ::freeaddrinfo(found);
  return out;
}

base::Result<std::vector<std::vector<Endpoint>>> resolve_all(std::span<const std::string_view> texts) {
  std::vector<std::vector<Endpoint>> out;
  std::vector<uint16_t> taken;  // ports of 0.0.0.0
  for (auto text : texts) {
    auto found = resolve(text);
    if (!found) return found.error();
    for (const auto& one : out.emplace_back(std::move(*found)))
      if (any_address(one, AF_INET)) taken.push_back(one.port());
  }
  for (auto& endpoints : out)
    for (auto& one : endpoints)
      one.ipv6_only = any_address(one, AF_INET6) && std::count(taken.begin(), taken.end(), one.port()) > 0;
  return out;
}

base::Result<Fd> listen_at(const Endpoint& endpoint, Sharing sharing) {
  bool tcp = endpoint.transport() == Transport::kTcp;
  if (!tcp)
    if (auto status = clear_stale(endpoint); !status.ok()) return status;
  Fd fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return bind_failure(endpoint, "open a socket for", errno);
  if (tcp) set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (tcp && sharing == Sharing::kPerShard) set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  if (endpoint.storage.ss_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, endpoint.ipv6_only);
  if (tcp) set(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // accepted sockets inherit it
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.size) != 0 ||
      !set_mode(endpoint) || ::listen(fd.get(), kBacklog) != 0)
    return bind_failure(endpoint, "listen at", errno);
  return fd;
}

// The file may be another user's, who has given it that mode.
base::Result<Fd> listen_again(const Endpoint& endpoint, Fd inherited) {
  struct stat info {};
  const bool there = ::lstat(endpoint.path().c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  if (there && (info.st_mode & kModeBits) != endpoint.mode && !set_mode(endpoint))
    return bind_failure(endpoint, "set the mode of", errno);
  return inherited;
}

// A port that is shared among shards would be shared with another weir, too: so each is tried without that.
base::Status check_free(std::span<const std::vector<Endpoint>> endpoints,
                        const std::function<bool(const Endpoint&)>& ours) {
  std::set<std::string> seen;
  for (const auto& of_one_text : endpoints)
    for (const auto& one : of_one_text) {
      const bool tcp = one.transport() == Transport::kTcp;
      if (tcp && one.port() == 0) continue;
      if (!seen.insert(one.text()).second)
        return base::invalid("cannot listen at " + one.text() + ": the address is listed twice");
      if (!tcp || (ours && ours(one))) continue;
      auto probe = listen_at(one, Sharing::kAlone);
      if (!probe && probe.error().details == std::to_string(EADDRINUSE)) return probe.error();
    }
  return {};
}

base::Result<Fd> listen_beside(const Endpoint& endpoint, const Fd* inherited) {
  auto fd = listen_at(endpoint, Sharing::kPerShard);
  if (fd || !inherited) return fd;
  Fd copy(::fcntl(inherited->get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fd;
  return copy;
}

Endpoint local_endpoint(const Fd& fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.storage;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.size);
  return endpoint;
}

}  // namespace weir::net
