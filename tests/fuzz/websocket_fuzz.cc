// Frames of a client, in two cuts: both see the same, and nothing is delivered after the close.
#include <cstdlib>

#include "wire/websocket.h"

namespace {

using weir::base::Bytes;
using weir::wire::WebSocket;

struct Recorder : WebSocket::Side {
  std::string seen, written;
  bool closing = false;
  void on_message(WebSocket::Kind kind, Bytes message) override {
    if (closing) std::abort();
    if (kind == WebSocket::Kind::kText) {
      weir::wire::Utf8Check utf8;
      if (!utf8.push(message.view()) || !utf8.whole()) std::abort();
    }
    seen += kind == WebSocket::Kind::kText ? 't' : 'b';
    seen += std::to_string(message.size()) + ":";
    seen += message.view();
  }
  bool full() const override { return false; }
  void on_closing(uint16_t) override {
    if (closing) std::abort();
    closing = true;
  }
  void write(Bytes bytes) override { written += bytes.view(); }
};

void run(std::string_view bytes, size_t step, Recorder& to) {
  WebSocket socket(to, weir::base::heap(), 1 << 16);
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    if (socket.feed(std::as_bytes(std::span(piece))) != piece.size()) std::abort();
    bytes.remove_prefix(piece.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Recorder whole, cut;
  run(bytes, size + 1, whole);
  run(bytes, 1 + size % 7, cut);
  if (whole.seen != cut.seen || whole.written != cut.written || whole.closing != cut.closing) std::abort();
  return 0;
}
