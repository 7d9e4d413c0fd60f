// TCP that sends back what comes, with the least a server can do for it: epoll_wait, recv, send. `tcp_echo PORT`.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int listener = ::socket(AF_INET, SOCK_STREAM, 0), one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(uint16_t(std::atoi(argv[1]))),
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener, 64) != 0) return 1;
  int events = ::epoll_create1(0);
  epoll_event interest{}, got{};
  interest.events = EPOLLIN, interest.data.fd = listener;
  ::epoll_ctl(events, EPOLL_CTL_ADD, listener, &interest);
  char buffer[65536];
  while (::epoll_wait(events, &got, 1, -1) >= 0) {
    int fd = got.data.fd;
    if (fd == listener) {
      interest.data.fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
      ::setsockopt(interest.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      ::epoll_ctl(events, EPOLL_CTL_ADD, interest.data.fd, &interest);
      continue;
    }
    ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0 || ::send(fd, buffer, size_t(n), MSG_NOSIGNAL) != n) ::close(fd);
  }
}
