// gRPC over HTTP/2 for client.h (RFC 9113): heads go out as literals, heads that come in are not decoded – whether an
// answer is good its messages tell. frame = length:24 type:8 flags:8 stream:32 payload.
#include <deque>
#include <unordered_map>
#include <utility>

#include "client.h"

namespace weir::load {
namespace {

constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kGoaway = 7, kWindow = 8;
constexpr uint8_t kAck = 1, kEndStream = 1, kEndHeaders = 4;
constexpr uint32_t kWholeWindow = 0x7fff0000, kTopUp = 256 << 20;

std::string u32(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  size_t n = payload.size();
  std::string out{char(n >> 16), char(n >> 8), char(n), char(type), char(flags)};
  return out.append(u32(stream)).append(payload);
}

std::string literal(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  return out.append(1, char(name.size())).append(name).append(1, char(value.size())).append(value);
}

class Grpc final : public Conn {
 public:
  Grpc(uint16_t port, Hearer& hearer, const std::string& path) : Conn(port, hearer) {
    if (path.size() > 126) fail("the method's name is too long");
    head_ = literal(":method", "POST") + literal(":scheme", "http") + literal(":path", path) +
            literal(":authority", "localhost") + literal("content-type", "application/grpc") +
            literal("te", "trailers");
    out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    out_ += frame(kSettings, 0, 0, std::string("\0\4", 2) + u32(0x7fffffff));
    out_ += frame(kWindow, 0, 0, u32(kWholeWindow - 65535));
    write();
  }

  void send(uint32_t job, Request request) override {
    jobs_[next_] = job;
    std::string message(1, '\0');
    message.append(u32(uint32_t(request.head.size() + request.body.size()))).append(request.head).append(request.body);
    if (message.size() > 16384) fail("a message is larger than a frame");
    waiting_.emplace_back(next_, std::move(message));
    next_ += 2;
    pump();
  }

 private:
  // Bytes that the connection's window has room for; the streams' are larger than any message here.
  void pump() {
    for (; !waiting_.empty() && int64_t(waiting_.front().second.size()) <= window_; waiting_.pop_front()) {
      auto& [stream, message] = waiting_.front();
      window_ -= int64_t(message.size());
      out_ += frame(kHeaders, kEndHeaders, stream, head_);
      out_ += frame(kData, kEndStream, stream, message);
    }
    write();
  }
  void received(std::string_view bytes) override {
    in_ += bytes;
    std::string_view left = in_;
    while (left.size() >= 9) {
      auto byte = [&](size_t i) { return uint32_t(uint8_t(left[i])); };
      size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (left.size() - 9 < size) break;
      uint32_t stream = (byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)) & 0x7fffffff;
      heard(uint8_t(byte(3)), uint8_t(byte(4)), stream, left.substr(9, size));
      left.remove_prefix(9 + size);
    }
    in_.erase(0, in_.size() - left.size());
    pump();
  }
  void heard(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
    if (type == kSettings && !(flags & kAck)) out_ += frame(kSettings, kAck, 0, "");
    if (type == kPing && !(flags & kAck)) out_ += frame(kPing, kAck, 0, payload);
    if (type == kGoaway) fail("GOAWAY");
    if (type == kWindow && stream == 0 && payload.size() == 4) {
      uint32_t grown = 0;
      for (char c : payload) grown = grown << 8 | uint8_t(c);
      window_ += grown;
    }
    auto job = jobs_.find(stream);
    if (job == jobs_.end()) return;
    if (type == kData) {
      consumed(payload.size());
      if (!payload.empty()) hearer_.on_body(job->second, payload);
    }
    if (type == kReset) return end(stream, Hearer::End::kBad);
    if ((type == kData || type == kHeaders) && (flags & kEndStream)) end(stream, Hearer::End::kGood);
  }
  void end(uint32_t stream, Hearer::End how) {
    uint32_t job = jobs_[stream];
    jobs_.erase(stream);
    hearer_.on_end(job, how);
  }
  void consumed(size_t bytes) {
    if ((consumed_ += uint32_t(bytes)) < kTopUp) return;
    out_ += frame(kWindow, 0, 0, u32(std::exchange(consumed_, 0)));
  }

  std::string head_, in_;
  std::unordered_map<uint32_t, uint32_t> jobs_;           // by stream
  std::deque<std::pair<uint32_t, std::string>> waiting_;  // for the window
  int64_t window_ = 65535;
  uint32_t next_ = 1, consumed_ = 0;
};

}  // namespace

std::unique_ptr<Conn> make_grpc(uint16_t port, Hearer& hearer, const std::string& path) {
  return std::make_unique<Grpc>(port, hearer, path);
}

}  // namespace weir::load
