// Server-Sent Events with the least that a server can do for them: the same event to each open stream, a send() each,
// every so many milliseconds. Whatever is asked for is answered so. What weir does on top of this is everything.
//
// usage: bare_sse PORT TOKENS MILLISECONDS_A_STEP
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

std::string chunk(const std::string& text) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + text + "\r\n";
}

const std::string kHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: "
    "chunked\r\n\r\n";
// As long as weir's.
const std::string kEvent = chunk(
    "data: {\"id\":\"chatcmpl-0123456789abcdef01234567\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
    "\"model\":\"echo\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":null,\"finish_reason\":"
    "null}]}"
    "\n\n");
const std::string kLast = chunk("data: [DONE]\n\n") + "0\r\n\r\n";

struct Stream {
  int fd;
  int left;
};

void put(int fd, std::string_view bytes) { (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

// Those that have a token left get it.
void step(std::vector<Stream>& streams) {
  for (Stream& stream : streams) put(stream.fd, stream.left-- > 0 ? kEvent : kLast);
  std::erase_if(streams, [](const Stream& stream) { return stream.left < 0; });
}

int listen_on(uint16_t port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(port), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener, 4096) != 0) std::exit(1);
  return listener;
}

void watch(int events, int fd) {
  epoll_event interest{};
  interest.events = EPOLLIN, interest.data.fd = fd;
  ::epoll_ctl(events, EPOLL_CTL_ADD, fd, &interest);
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 4) return 2;
  const int listener = listen_on(uint16_t(std::atoi(argv[1]))), events = ::epoll_create1(0),
            tokens = std::atoi(argv[2]), one = 1;
  const auto pace = std::chrono::milliseconds(std::max(1, std::atoi(argv[3])));
  watch(events, listener);
  std::vector<Stream> streams;
  for (auto next = Clock::now() + pace;;) {
    epoll_event got[256];
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    const int n = ::epoll_wait(events, got, 256, int(std::max<int64_t>(0, left.count())));
    for (int i = 0; i < n; ++i) {
      if (got[i].data.fd == listener) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        if (fd < 0) continue;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(events, fd);
        continue;
      }
      char request[16384];  // whole, as a load's are
      if (::recv(got[i].data.fd, request, sizeof request, 0) <= 0) {
        std::erase_if(streams, [&](const Stream& stream) { return stream.fd == got[i].data.fd; });
        ::close(got[i].data.fd);
        continue;
      }
      put(got[i].data.fd, kHead);
      streams.push_back({got[i].data.fd, tokens});
    }
    if (Clock::now() < next) continue;
    step(streams);
    next = std::max(next + pace, Clock::now());
  }
}
