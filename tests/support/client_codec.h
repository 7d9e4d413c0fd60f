// A client's codec without a socket: its output, and its input as a connection gives it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "wire/client_codec.h"

namespace weir::support {

inline std::string output_of(wire::ClientCodec& codec) {
  std::string out;
  std::array<iovec, 16> pieces;
  while (size_t n = codec.pending(pieces)) {
    size_t bytes = 0;
    for (const iovec& piece : std::span(pieces).first(n)) {
      out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      bytes += piece.iov_len;
    }
    codec.consumed(bytes);
  }
  return out;
}

// To where the bytes will lie, where the codec says that; the others in pieces of `step`.
inline void feed(wire::ClientCodec& codec, std::string_view text, size_t step = SIZE_MAX) {
  auto bytes = std::as_bytes(std::span(text));
  while (!bytes.empty()) {
    const auto to = codec.receive_buffer();
    const size_t n = std::min(bytes.size(), to.empty() ? step : to.size());
    if (!to.empty()) std::copy_n(bytes.begin(), n, to.begin());
    codec.feed(to.empty() ? bytes.first(n) : to.first(n));
    bytes = bytes.subspan(n);
  }
}

// Carries bytes between the codec and a test::Server until nobody has any, also what the server has left for a later
// turn; to the codec in pieces of so many (0: all at once).
template <class Server>
void talk(wire::ClientCodec& codec, Server& server, size_t piece = 0) {
  for (;;) {
    const bool later = server.wire.tick_wanted;
    server.next_turn();
    const std::string up = output_of(codec);
    server.feed(up);
    const std::string down = server.take();
    if (up.empty() && down.empty() && !later) return;
    const size_t step = piece ? piece : down.size();
    for (size_t at = 0; at < down.size(); at += step) feed(codec, std::string_view(down).substr(at, step));
  }
}

}  // namespace weir::support
