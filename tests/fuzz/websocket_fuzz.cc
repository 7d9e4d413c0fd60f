// Frames of a client, in two cuts: both see the same, and nothing is delivered after the close.
//
// An input that begins with 0xff, which begins no frame, is a script instead: each byte behind it is a step (Script::
// happen), and what happens beside the frames is that there is no room, no memory or no hope of it, and that our side
// sends and closes.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "require.h"
#include "support/fake_wire.h"
#include "wire/websocket.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
using wire::WebSocket;

constexpr uint64_t kMost = 1 << 16;  // bytes of a message

// Checks that what goes out is whole frames of a server, and that nothing follows a close frame.
void require_frames(std::string_view out) {
  while (!out.empty()) {
    require(out.size() >= 2 && (uint8_t(out[0]) & 0xf0) == 0x80, "frames are whole, without reserved bits");
    require((uint8_t(out[1]) & 0x80) == 0, "a server's frames are not masked");
    const uint8_t length = uint8_t(out[1]);
    const size_t head = length == 126 ? 4 : length == 127 ? 10 : 2;
    require(out.size() >= head, "a head is whole");
    size_t n = head == 2 ? length : 0;
    for (size_t i = 2; i < head; ++i) n = n << 8 | uint8_t(out[i]);
    require(out.size() >= head + n, "a payload is whole");
    bool closes = uint8_t(out[0]) == 0x88;
    out.remove_prefix(head + n);
    require(!closes || out.empty(), "nothing follows a close frame");
  }
}

struct Recorder : WebSocket::Side {
  std::string seen, written;
  bool closing = false, busy = false;
  void on_message(WebSocket::Kind kind, base::Bytes message) override {
    require(!closing, "no message follows the close");
    require(message.size() <= kMost, "messages are bounded");
    if (kind == WebSocket::Kind::kText) {
      wire::Utf8Check utf8;
      require(utf8.push(message.view()) && utf8.whole(), "text is UTF-8");
    }
    seen += kind == WebSocket::Kind::kText ? 't' : 'b';
    seen += std::to_string(message.size()) + ":";
    seen += message.view();
  }
  bool full() override { return busy; }
  void on_closing(uint16_t) override {
    require(!closing, "a WebSocket closes once");
    closing = true;
  }
  void write(base::Bytes bytes) override { written += bytes.view(); }
};

void run(std::string_view bytes, size_t step, Recorder& to) {
  WebSocket socket(to, base::heap(), kMost);
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    require(socket.feed(std::as_bytes(std::span(piece))) == piece.size(), "all is taken where there is room");
    bytes.remove_prefix(piece.size());
  }
}

class Script {
 public:
  explicit Script(std::string_view script) : script_(script) {}
  void play() {
    while (at_ < script_.size()) happen(next());
    side_.busy = slabs_.empty = false;
    feed();
    require(unread_.empty(), "all is taken where there is room");
    require_frames(side_.written);
  }

 private:
  uint8_t next() { return at_ < script_.size() ? uint8_t(script_[at_++]) : 0; }

  // A masked frame with `size` bytes of payload, each of them `fill`.
  void frame(int first, size_t size, char fill) {
    std::string head{char(first)};
    head += char(0x80 | (size < 126 ? size : size <= 0xffff ? 126 : 127));
    for (int i = size < 126 ? 0 : size <= 0xffff ? 2 : 8; i-- > 0;) head += char(uint64_t(size) >> (8 * i));
    const std::string mask = "\x12\x34\x56\x78";
    std::string payload(size, fill);
    for (size_t i = 0; i < size; ++i) payload[i] ^= mask[i % 4];
    unread_ += head + mask + payload;
  }
  void feed() {
    size_t used = socket_.feed(std::as_bytes(std::span(unread_)));
    require(used <= unread_.size(), "no more is used than there is");
    bool free = !side_.busy && !slabs_.empty;
    require(used == unread_.size() || !free, "all is taken where there is room");
    unread_.erase(0, used);
  }
  std::vector<base::Bytes> pieces(size_t size) {
    std::vector<base::Bytes> out;
    for (int i = 0; i < 3; ++i) out.push_back(base::Bytes::adopt(std::string(size, 's')));
    return out;
  }

  void happen(uint8_t what) {
    const size_t size = next();
    switch (what & 15) {
      case 0: frame(0x81, size, 'a'); break;
      case 1: frame(0x01, size * 16, 'b'); break;
      case 2: frame(0x00, size * 64, 'c'); break;
      case 3: frame(0x80, size, what & 16 ? char(0xc3) : 'd'); break;
      case 4: frame(0x82, size * 300, 'e'); break;
      case 5: frame(what & 16 ? 0x8a : 0x89, size, 'p'); break;
      case 6: frame(0x88, size % 4, char(size)); break;
      case 7: frame(next(), size, 'x'); break;
      case 8: unread_ += script_.substr(at_, size), at_ = std::min(script_.size(), at_ + size); break;
      case 9: side_.busy = !side_.busy; break;
      case 10: slabs_.empty = !slabs_.empty; break;
      case 11: slabs_.is_hopeless = !slabs_.is_hopeless; break;
      case 12: socket_.send(what & 16 ? WebSocket::Kind::kText : WebSocket::Kind::kBinary, pieces(size * size)); break;
      case 13: socket_.close(uint16_t(1000 + size), std::string(size, 'r')); break;
      default: unread_.resize(unread_.size() - std::min(unread_.size(), size)); break;  // a frame that is cut
    }
    if ((what & 0x80) == 0) feed();
  }

  std::string_view script_;
  size_t at_ = 1;
  std::string unread_;
  Recorder side_;
  support::FakeSlabs slabs_;
  WebSocket socket_{side_, slabs_, kMost};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('\xff')) return Script(bytes).play(), 0;
  Recorder whole, cut;
  run(bytes, size + 1, whole);
  run(bytes, 1 + size % 7, cut);
  require(whole.seen == cut.seen && whole.written == cut.written && whole.closing == cut.closing,
          "what is seen does not depend on the cut");
  require_frames(whole.written);
  return 0;
}
