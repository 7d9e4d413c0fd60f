// Ping-pong of small fragments over gRPC bidi streams: `ping_pong PORT weir|peer|tcp SESSIONS PINGS`.
//
// Each session has one fragment on its way and sends the next when the answer has come; weir runs ECHO, the peer
// (bench/peers/grpc_bidi_echo.cc) sends every message back as it is. The client is HTTP/2 by hand on one connection, so
// that what is measured is the server. tcp: as many bytes without any protocol, one session: what kernel and wake-ups
// cost in any case. Prints median and 99th percentile of the round trips and fragments per second.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::string u32(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }
std::string frame(int type, int flags, uint32_t stream, std::string_view payload) {
  size_t n = payload.size();
  return std::string{char(n >> 16), char(n >> 8), char(n), char(type), char(flags)} + u32(stream) +
         std::string(payload);
}
std::string literal(std::string_view name, std::string_view value) {
  return std::string(1, '\0') + char(name.size()) + std::string(name) + char(value.size()) + std::string(value);
}
std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += char(v | 128);
  return out += char(v);
}
std::string field(int number, std::string_view bytes) {
  return varint(uint64_t(number) << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string grpc(std::string_view message) {
  return std::string(1, '\0') + u32(uint32_t(message.size())) + std::string(message);
}

const std::string kOpen =
    field(2, field(2, "ECHO") + field(3, field(1, "x") + field(2, "in")) + field(4, field(1, "x") + field(2, "out")));
std::string ping(uint32_t seq) {
  std::string chunk = seq == 0 ? field(1, field(1, "text/plain")) : "";
  chunk += field(10, "sixteen bytes!!!");
  std::string number = seq == 0 ? "" : '\x10' + varint(seq);
  return field(1, field(1, "in") + number + "\x18\x01" + field(5, chunk));
}

struct Session {
  uint32_t seq = 0;
  std::string in;  // of an answer that is cut
  Clock::time_point sent;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "ping_pong: %s\n", what);
  std::exit(1);
}

void report(const char* kind, uint32_t count, std::vector<uint32_t>& times, double seconds) {  // nanoseconds
  std::sort(times.begin(), times.end());
  std::printf("%s sessions=%u p50_us=%.2f p99_us=%.2f fragments_per_s=%.0f\n", kind, count,
              times[times.size() / 2] / 1e3, times[times.size() * 99 / 100] / 1e3, double(times.size()) / seconds);
}

int bare(int fd, uint32_t pings) {
  std::vector<uint32_t> times;
  char buffer[64] = {};
  auto began = Clock::now();
  for (uint32_t i = 0; i < pings; ++i) {
    auto sent = Clock::now();
    if (::write(fd, buffer, sizeof buffer) != sizeof buffer) fail("cannot write");
    for (size_t got = 0; got < sizeof buffer;) {
      ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n <= 0) fail("the server has closed");
      got += size_t(n);
    }
    times.push_back(uint32_t((Clock::now() - sent).count()));
  }
  report("tcp", 1, times, std::chrono::duration<double>(Clock::now() - began).count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fail("PORT weir|peer|tcp SESSIONS PINGS");
  bool weir = std::string_view(argv[2]) == "weir";
  auto count = uint32_t(std::atoi(argv[3])), pings = uint32_t(std::atoi(argv[4]));
  int fd = ::socket(AF_INET, SOCK_STREAM, 0), one = 1;
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(uint16_t(std::atoi(argv[1]))),
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fail("cannot connect");
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (std::string_view(argv[2]) == "tcp") return bare(fd, pings);

  const int kData = 0, kHeaders = 1, kSettings = 4, kPing = 6, kGoaway = 7, kWindow = 8, kAck = 1;
  std::string out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  out +=
      frame(kSettings, 0, 0, std::string("\0\4", 2) + u32(0x7fffffff)) + frame(kWindow, 0, 0, u32(0x7fff0000 - 65535));
  std::string head = literal(":method", "POST") + literal(":scheme", "http") +
                     literal(":path", weir ? "/evergreen.v2.EvergreenService/StartSession" : "/echo.Echo/Bidi") +
                     literal(":authority", "localhost") + literal("content-type", "application/grpc") +
                     literal("te", "trailers");
  std::vector<Session> sessions(count);
  auto next = [&](uint32_t i) {
    out += frame(kData, 0, 2 * i + 1, grpc(ping(sessions[i].seq)));
    sessions[i].sent = Clock::now();
  };
  for (uint32_t i = 0; i < count; ++i) {
    out += frame(kHeaders, 4, 2 * i + 1, head);
    if (weir) out += frame(kData, 0, 2 * i + 1, grpc(kOpen));
    next(i);
  }

  std::vector<uint32_t> times;
  std::string in;
  uint32_t answers = 0;
  const uint32_t total = pings * count;
  auto began = Clock::now();
  char buffer[65536];
  while (answers < total) {
    for (size_t at = 0; at < out.size();) {
      ssize_t n = ::write(fd, out.data() + at, out.size() - at);
      if (n <= 0) fail("cannot write");
      at += size_t(n);
    }
    out.clear();
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) fail("the server has closed");
    in.append(buffer, size_t(n));
    size_t at = 0;
    auto byte = [&](size_t i) { return uint32_t(uint8_t(in[at + i])); };
    while (in.size() - at >= 9) {
      size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (in.size() - at < 9 + size) break;
      uint32_t type = byte(3), flags = byte(4), stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      std::string_view payload = std::string_view(in).substr(at + 9, size);
      at += 9 + size;
      if (type == kSettings && !(flags & kAck)) out += frame(kSettings, kAck, 0, "");
      if (type == kPing && !(flags & kAck)) out += frame(kPing, kAck, 0, payload);
      if (type == kGoaway) fail("GOAWAY");
      if (type == kHeaders && (flags & 1)) fail("the stream has ended");
      if (type != kData || size == 0) continue;
      uint32_t i = (stream - 1) / 2;
      Session& session = sessions[i];
      session.in += payload;
      if (session.in.size() < 5 || session.in.size() < 5u + uint8_t(session.in[4])) continue;  // an answer is short
      if (session.in.size() != 5u + uint8_t(session.in[4])) fail("more than one answer");
      if (session.in.find("sixteen bytes!!!") == session.in.npos) fail("another answer");
      session.in.clear();
      times.push_back(uint32_t((Clock::now() - session.sent).count()));
      ++answers;
      if (++session.seq < pings) next(i);
    }
    in.erase(0, at);
  }
  report(argv[2], count, times, std::chrono::duration<double>(Clock::now() - began).count());
}
