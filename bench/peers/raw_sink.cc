// The ceiling for large requests: receives each HTTP/1.1 body straight into one buffer that is there already, and sends
// so many of its last bytes back. What weir does on top of this is everything.
//
// usage: raw_sink ANSWER_BYTES PORT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kHead = 16 << 10, kLargest = size_t(512) << 20;

// One request and its answer. False at the end of the connection.
bool serve(int fd, std::vector<char>& body, size_t answer) {
  std::string head;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    char piece[kHead];
    ssize_t n = recv(fd, piece, sizeof piece, 0);
    if (n <= 0) return false;
    head.append(piece, size_t(n));
    end = head.find("\r\n\r\n");
  }
  size_t field = head.find("content-length: ");
  if (field == std::string::npos) field = head.find("Content-Length: ");
  if (field == std::string::npos) return false;
  size_t length = std::strtoull(head.c_str() + field + 16, nullptr, 10), have = head.size() - end - 4;
  if (length > kLargest || length < answer) return false;
  std::memcpy(body.data(), head.data() + end + 4, std::min(have, length));
  while (have < length) {
    ssize_t n = recv(fd, body.data() + have, length - have, 0);
    if (n <= 0) return false;
    have += size_t(n);
  }
  std::string start = "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(answer) + "\r\n\r\n";
  iovec out[] = {{start.data(), start.size()}, {body.data() + length - answer, answer}};
  size_t left = start.size() + answer;
  for (iovec* at = out; left > 0;) {
    ssize_t n = writev(fd, at, int(out + 2 - at));
    if (n <= 0) return false;
    left -= size_t(n);
    for (auto sent = size_t(n); sent > 0 && at < out + 2;) {
      size_t step = std::min(sent, at->iov_len);
      at->iov_base = static_cast<char*>(at->iov_base) + step, at->iov_len -= step, sent -= step;
      if (at->iov_len == 0) ++at;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<char> body(kLargest);  // touched once here, as a pool's slabs are
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(std::atoi(argv[2])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 16) != 0) return 1;
  for (;;) {
    int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) return 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (serve(fd, body, std::strtoull(argv[1], nullptr, 10))) {
    }
    close(fd);
  }
}
