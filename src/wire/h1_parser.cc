#include "wire/h1_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <optional>

namespace weir::wire {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;

constexpr uint64_t kFreeOverhead = 64 << 10;
constexpr size_t kLastChunk = 5;              // "0\r\n\r\n", the least that can follow where a chunk is due
constexpr size_t kMaxWaiting = 16 << 10;      // bytes of a chunk's header or of trailers without an end
constexpr size_t kMaxExtensions = 16 << 10;   // bytes of chunk extensions in a body
constexpr uint32_t kNoHeaderLimit = 1 << 30;  // the gate has seen to it

// A line that ends for some and goes on for others has no place in an extension.
bool breaks_lines(char c) { return (uint8_t(c) < 0x20 && c != '\t') || c == 0x7f; }

std::span<const std::byte> bytes_of(Text t) { return std::as_bytes(std::span(t.data(), t.size())); }

// Whether what is there of a chunk's header cannot become one. Beast looks only when it has all of the line; so the
// answer would depend on how the bytes come.
bool hopeless(std::span<const std::byte> header, bool first) {
  for (char due : first ? std::string_view() : std::string_view("\r\n")) {
    if (header.empty()) return false;
    if (char(header[0]) != due) return true;
    header = header.subspan(1);
  }
  return !header.empty() && !std::isxdigit(uint8_t(header[0]));
}

class Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(H1Parser::Sink& sink) : sink_(sink) {
    eager(true);
    header_limit(kNoHeaderLimit);
    body_limit(boost::none);
  }
  uint64_t body_bytes = 0;
  uint64_t extension_bytes = 0;
  uint64_t chunk_left = 0;  // of the chunk that is being read; 0 where a chunk's header is due

 private:
  void on_request_impl(http::verb, Text, Text, int, error_code&) override {}
  void on_response_impl(int, Text, int, error_code&) override {}
  void on_field_impl(http::field, Text, Text, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(boost::optional<uint64_t> const&, error_code&) override {}
  size_t on_body_impl(Text piece, error_code&) override { return body(piece); }
  void on_chunk_header_impl(uint64_t size, Text extensions, error_code& ec) override {
    extension_bytes += extensions.size();
    bool clean = std::none_of(extensions.begin(), extensions.end(), [](char c) { return breaks_lines(c); });
    if (!clean || extension_bytes > kMaxExtensions) ec = http::error::bad_chunk_extension;
    chunk_left = size;
  }
  size_t on_chunk_body_impl(uint64_t left, Text piece, error_code&) override {
    chunk_left = left - piece.size();
    return body(piece);
  }
  void on_finish_impl(error_code&) override {}

  size_t body(Text piece) {
    body_bytes += piece.size();
    if (!piece.empty()) sink_.on_body(bytes_of(piece));
    return piece.size();
  }

  H1Parser::Sink& sink_;
};

}  // namespace

// Beast's parsers cannot be used twice; this one is made anew in place for each message.
struct H1Parser::Message {
  std::optional<Parser> parser;
  uint64_t encoded = 0;  // bytes behind the head
};

H1Parser::H1Parser(Sink& sink) : sink_(sink) {}
H1Parser::~H1Parser() = default;

bool H1Parser::head(std::string_view head) {
  if (!message_) message_ = std::make_unique<Message>();
  plain_ = false;
  Message& m = *message_;
  m.parser.emplace(sink_);
  m.encoded = 0;
  error_code ec;
  size_t taken = m.parser->put(boost::beast::net::const_buffer(head.data(), head.size()), ec);
  if (ec == http::error::need_more) ec = {};
  return !ec && taken == head.size() && m.parser->is_header_done();
}

size_t H1Parser::plain_body(std::span<const std::byte> bytes, Fate* fate) {
  const size_t n = size_t(std::min<uint64_t>(bytes.size(), left_));
  left_ -= n;
  *fate = left_ == 0 ? Fate::kDone : Fate::kMore;
  if (n > 0) sink_.on_body(bytes.first(n));
  return n;
}

size_t H1Parser::body(std::span<const std::byte> bytes, Fate* fate) {
  if (plain_) return plain_body(bytes, fate);
  Message& m = *message_;
  *fate = done() ? Fate::kDone : Fate::kMore;
  if (done() || bytes.empty()) return 0;  // Beast must not be fed behind a message's end
  error_code ec;
  size_t taken = 0;
  // Beast asserts that a last chunk which it has seen the begin of has its five bytes when it looks again.
  if (!m.parser->chunked() || m.parser->chunk_left > 0 || bytes.size() >= kLastChunk)
    taken = m.parser->put(boost::beast::net::const_buffer(bytes.data(), bytes.size()), ec);
  m.encoded += taken;
  if (ec && ec != http::error::need_more) {
    *fate = Fate::kBad;
  } else if (m.parser->is_done()) {
    *fate = Fate::kDone;
  } else if (m.parser->chunked()) {
    uint64_t overhead = m.encoded - m.parser->body_bytes;
    bool wasteful = overhead > 4 * m.parser->body_bytes + kFreeOverhead;
    bool no_header = m.parser->chunk_left == 0 && hopeless(bytes.subspan(taken), m.encoded == 0);
    if (wasteful || no_header || bytes.size() - taken > kMaxWaiting) *fate = Fate::kBad;
  }
  return taken;
}

void H1Parser::release() {
  message_.reset();
  plain_ = true, left_ = 0;
}

bool H1Parser::done() const { return plain_ ? left_ == 0 : message_->parser->is_done(); }
bool H1Parser::chunked() const { return !plain_ && message_->parser->chunked(); }
uint64_t H1Parser::remaining() const {
  if (plain_) return left_;
  auto left = message_->parser->content_length_remaining();
  return left ? *left : 0;
}

}  // namespace weir::wire
