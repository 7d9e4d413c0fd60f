// HTTP/1.1 for client.h: one request at a time; answers with content-length or chunked (RFC 9112).
//
//   chunked = *(size-in-hex [;extension] CRLF bytes CRLF) "0" CRLF *(trailer CRLF) CRLF
#include <algorithm>
#include <charconv>

#include "client.h"

namespace weir::load {
namespace {

constexpr size_t kMostHead = 64 << 10;

class H1 final : public Conn {
 public:
  H1(uint16_t port, Hearer& hearer) : Conn(port, hearer) {}

  void send(uint32_t job, Request request) override {
    if (state_ != State::kIdle || !out_.empty()) fail("an answer has come before its request was sent");
    job_ = job, state_ = State::kHead;
    out_ = std::move(request.head), tail_ = request.body;
    write();
  }

 private:
  enum class State : uint8_t { kIdle, kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer };

  void received(std::string_view in) override {
    while (!in.empty()) in.remove_prefix(take(in));
  }
  // Returns how many bytes are done with.
  size_t take(std::string_view in) {
    switch (state_) {
      case State::kIdle: fail("bytes that nobody asked for");
      case State::kLength:
      case State::kChunk: return body(in);
      default: return line(in);
    }
  }
  size_t body(std::string_view in) {
    size_t n = std::min(in.size(), left_);
    hearer_.on_body(job_, in.substr(0, n));
    left_ -= n;
    if (left_ > 0) return n;
    if (state_ == State::kChunk)
      state_ = State::kChunkEnd;
    else
      end();
    return n;
  }
  // Heads and what frames chunks come in lines.
  size_t line(std::string_view in) {
    size_t feed = in.find('\n'), n = feed == in.npos ? in.size() : feed + 1;
    line_ += in.substr(0, n);
    if (line_.size() > kMostHead) fail("a line of an answer has no end");
    if (feed == in.npos) return n;
    while (!line_.empty() && (line_.back() == '\n' || line_.back() == '\r')) line_.pop_back();
    whole_line();
    line_.clear();
    return n;
  }
  void whole_line() {
    if (state_ == State::kHead) return head();
    if (state_ == State::kChunkEnd) {
      state_ = State::kChunkSize;
    } else if (state_ == State::kChunkSize) {
      left_ = number(line_, 16);
      state_ = left_ > 0 ? State::kChunk : State::kTrailer;
    } else if (line_.empty()) {
      end();
    }
  }
  void head() {
    if (line_.empty()) return begin_body();
    if (line_.starts_with("HTTP/1.1 ")) {
      good_ = line_.starts_with("HTTP/1.1 200"), chunked_ = false, left_ = 0;
      return;
    }
    size_t colon = std::min(line_.find(':'), line_.size());
    std::transform(line_.begin(), line_.begin() + long(colon), line_.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    if (line_.starts_with("content-length:")) left_ = number(line_.substr(15), 10);
    if (line_.starts_with("transfer-encoding:")) chunked_ = line_.find("chunked") != line_.npos;
  }
  void begin_body() {
    if (chunked_)
      state_ = State::kChunkSize;
    else if (left_ > 0)
      state_ = State::kLength;
    else
      end();
  }
  void end() {
    state_ = State::kIdle;
    hearer_.on_end(job_, good_ ? Hearer::End::kGood : Hearer::End::kBad);
  }
  static size_t number(std::string_view text, int base) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    size_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value, base).ec != std::errc())
      fail("an answer's length is no number");
    return value;
  }

  State state_ = State::kIdle;
  uint32_t job_ = 0;
  bool good_ = false, chunked_ = false;
  size_t left_ = 0;  // of the body, or of a chunk
  std::string line_;
};

}  // namespace

std::unique_ptr<Conn> make_h1(uint16_t port, Hearer& hearer) { return std::make_unique<H1>(port, hearer); }

}  // namespace weir::load
