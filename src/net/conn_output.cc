#include "net/conn_output.h"

#include <algorithm>
#include <array>

#include "net/write_budget.h"

namespace weir::net {

ConnOutput::Written ConnOutput::write(wire::Codec* codec, TlsSession* tls) {
  if (socket_.writing()) return Written::kNotYet;
  if (tls) return write_sealed(codec, *tls);
  return codec ? write_plain(*codec) : Written::kAll;
}

ConnOutput::Written ConnOutput::write_plain(wire::Codec& codec) {
  std::array<iovec, kPieces> pieces;
  for (size_t budget = kWrittenPerTurn; budget != 0;) {
    size_t count = codec.pending(pieces);
    if (count == 0) return Written::kAll;
    bool whole = count < kPieces;
    size_t offered = cut_to(pieces, budget, count);
    auto moved = socket_.write({pieces.data(), count});
    if (moved.fate == Socket::Fate::kError) return Written::kFailed;
    if (moved.n != 0) codec.consumed(moved.n);
    if (!sent(moved, offered)) return Written::kNotYet;
    budget -= offered;
    // Output that consumed() has caused since then marks this connection for the next round.
    if (whole && budget != 0) return wire_.marked() ? Written::kNotYet : Written::kAll;
  }
  wire_.mark_for_next_turn();
  return Written::kNotYet;
}

ConnOutput::Written ConnOutput::write_sealed(wire::Codec* codec, TlsSession& tls) {
  std::array<iovec, kPieces> pieces;
  for (size_t budget = kWrittenPerTurn; budget != 0;) {
    auto sealed = tls.output();
    if (sealed.empty()) {
      size_t count = codec ? codec->pending(pieces) : 0;
      if (count == 0) return Written::kAll;
      size_t taken = tls.seal({pieces.data(), count});
      if (taken == 0) return Written::kFailed;
      codec->consumed(taken);
      continue;
    }
    iovec piece{const_cast<std::byte*>(sealed.data()), std::min(sealed.size(), budget)};
    auto moved = socket_.write({&piece, 1});
    if (moved.fate == Socket::Fate::kError) return Written::kFailed;
    const bool kept = tls.consumed(moved.n);
    if (!kept && moved.n < piece.iov_len) return Written::kFailed;
    if (!sent(moved, piece.iov_len)) return Written::kNotYet;
    budget -= piece.iov_len;
  }
  wire_.mark_for_next_turn();
  return Written::kNotYet;
}

// False: the socket is full.
bool ConnOutput::sent(Socket::Moved moved, size_t offered) {
  bytes_.add(moved.n);
  if (moved.n == offered) return true;
  socket_.await_write();
  return false;
}

}  // namespace weir::net
