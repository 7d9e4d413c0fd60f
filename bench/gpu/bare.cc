#include "bare.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client.h"

namespace weir::load {
namespace {

constexpr size_t kPiece = 256 << 10;

struct Pair {
  int from, to;
};

Pair make_pair() {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  socklen_t size = sizeof at;
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(listener, address, size) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, address, &size) != 0)
    fail("cannot listen on the loopback");
  int from = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(from, address, size) != 0) fail("cannot connect to the loopback");
  int to = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  if (to < 0) fail("cannot accept");
  return {from, to};
}

// Until the connection is shut.
void send_all(int fd, size_t bytes) {
  std::vector<char> data(bytes, 'x');
  for (size_t at = 0;;) {
    ssize_t n = ::send(fd, data.data() + at, bytes - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at = (at + size_t(n)) % bytes;
  }
}

}  // namespace

double loopback(uint32_t threads, size_t bytes, double seconds) {
  std::vector<Pair> pairs;
  for (uint32_t i = 0; i < threads; ++i) pairs.push_back(make_pair());
  std::atomic<uint64_t> received{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> all;
  for (Pair pair : pairs) {
    all.emplace_back([=] { send_all(pair.from, bytes); });
    all.emplace_back([&, pair] {
      std::vector<char> buffer(kPiece);
      while (!over.load(std::memory_order_relaxed)) {
        ssize_t n = ::recv(pair.to, buffer.data(), buffer.size(), 0);
        if (n <= 0) return;
        received.fetch_add(uint64_t(n), std::memory_order_relaxed);
      }
    });
  }
  auto pause = [](double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); };
  pause(seconds / 4);  // until buffers have grown
  uint64_t before = received.load();
  auto began = Clock::now();
  pause(seconds);
  double rate = double(received.load() - before) / std::chrono::duration<double>(Clock::now() - began).count();
  over = true;
  for (Pair pair : pairs) ::shutdown(pair.from, SHUT_RDWR), ::shutdown(pair.to, SHUT_RDWR);  // wakes both
  for (auto& thread : all) thread.join();
  for (Pair pair : pairs) ::close(pair.from), ::close(pair.to);
  return rate;
}

}  // namespace weir::load
