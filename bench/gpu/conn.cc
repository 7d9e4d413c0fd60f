// The socket of client.h's Conn.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "client.h"

namespace weir::load {
namespace {

constexpr size_t kRead = 256 << 10;

int connected(uint16_t port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(port), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
    fail(std::string("cannot connect: ") + std::strerror(errno));
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return fd;
}

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "gpu_load: %s\n", what.c_str());
  std::exit(1);
}

Conn::Conn(uint16_t port, Hearer& hearer) : hearer_(hearer), fd_(connected(port)) {}
Conn::~Conn() { ::close(fd_); }

void Conn::read() {
  thread_local std::vector<char> buffer(kRead);
  for (;;) {
    ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("the server has closed a connection");
    received({buffer.data(), size_t(n)});
    if (size_t(n) < buffer.size()) return;  // more comes with an edge of its own
  }
}

void Conn::write() {
  while (sent_ < out_.size() || !tail_.empty()) {
    iovec parts[2] = {{out_.data() + sent_, out_.size() - sent_}, {const_cast<char*>(tail_.data()), tail_.size()}};
    msghdr message{};
    message.msg_iov = parts, message.msg_iovlen = 2;
    ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) fail(std::string("cannot write: ") + std::strerror(errno));
    size_t of_head = std::min(size_t(n), parts[0].iov_len);
    sent_ += of_head;
    tail_.remove_prefix(size_t(n) - of_head);
  }
  out_.clear(), sent_ = 0;
}

}  // namespace weir::load
