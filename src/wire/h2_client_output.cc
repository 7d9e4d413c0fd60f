#include "wire/h2_client_output.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <nghttp2/nghttp2.h>

#include "wire/h2_frame_cutter.h"

namespace weir::wire {
namespace {

constexpr size_t kFilledAhead = 256 << 10;    // output gathered ahead of the socket
constexpr size_t kCopyAtMost = 4096;          // smaller pieces are cheaper to copy than to point at
constexpr uint32_t kMostInFrame = 256 << 10;  // of a body in one frame, whatever the server takes
constexpr size_t kStreamsOfAck = 1 << 12;     // a change of all their windows costs as much as an acknowledgement
constexpr size_t kMostGone = 64;              // streams that are closed, and still wait for a turn

}  // namespace

void H2ClientOutput::open(std::span<const H2FrameWriter::Setting> settings) {
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  frames_.output.copy(kPreface.data(), kPreface.size());
  frames_.settings(settings);
}

bool H2ClientOutput::acknowledge(H2Frame type, std::string_view payload) {
  if (++acks_ > kMostAcks) return false;
  frames_.put(type, NGHTTP2_FLAG_ACK, 0, payload);
  return true;
}

// The output of a long body is never empty.
void H2ClientOutput::consumed(size_t n) {
  frames_.output.consumed(n);
  if (!frames_.output.empty() && frames_.output.taken() < ack_mark_) return;
  acks_ = 0;
  ack_mark_ = frames_.output.put();
}

// --- windows ---------------------------------------------------------------------------------------------------------

// The more streams there are, the fewer changes may wait with their acknowledgements.
bool H2ClientOutput::set_first_window(uint32_t bytes) {
  const int64_t by = int64_t(bytes) - first_window_;
  if (by == 0) return true;
  first_window_ = bytes;
  acks_ += uint32_t(streams_.size() / kStreamsOfAck);
  bool fits = true;
  streams_.each([&](ClientStream& stream) {
    stream.window += by;
    fits = fits && stream.window <= kLargestWindow;
    queue(stream);
  });
  return fits;
}

void H2ClientOutput::set_largest_frame(uint32_t bytes) { largest_frame_ = std::min(bytes, kMostInFrame); }

bool H2ClientOutput::widen(uint32_t by) {
  window_ += by;
  return window_ <= kLargestWindow;
}

bool H2ClientOutput::widen(ClientStream& stream, uint32_t by) {
  stream.window += by;
  queue(stream);
  return stream.window <= kLargestWindow;
}

// --- requests --------------------------------------------------------------------------------------------------------

bool H2ClientOutput::send(ClientStream& stream, const ClientRequest& request) {
  stream.window = first_window_;
  stream.left = request.body_size();
  const std::string_view block = encoder_.block(request);
  if (block.empty()) return false;
  if (request.more.empty() && put_small(stream, block, request.body)) return true;
  stream.pieces.reserve(request.more.size() + 1);
  stream.pieces.assign(request.more.rbegin(), request.more.rend());
  if (!request.body.empty()) stream.pieces.push_back(request.body);
  frames_.head(stream.left == 0 ? NGHTTP2_FLAG_END_STREAM : 0, stream.id, block);
  const bool first = turns_.empty() && frames_.output.size() < kFilledAhead;
  if (!first || send_data(stream)) queue(stream);
  return true;
}

// A small request at once, where it need not wait. False: it is not, or has to.
bool H2ClientOutput::put_small(ClientStream& stream, std::string_view block, const base::Bytes& body) {
  constexpr size_t kMost = H2Output::kMostInRow;
  const size_t n = body.size(), size = 2 * kH2FrameHead + block.size() + n;
  const bool goes =
      int64_t(n) <= std::min(window_, stream.window) && turns_.empty() && frames_.output.size() < kFilledAhead;
  if (!goes || n == 0 || size > kMost) return false;
  char* at = frames_.output.room(size);
  write_frame_head(at, block.size(), H2Frame::kHeaders, NGHTTP2_FLAG_END_HEADERS, stream.id);
  std::memcpy(at += kH2FrameHead, block.data(), block.size());
  write_frame_head(at += block.size(), n, H2Frame::kData, NGHTTP2_FLAG_END_STREAM, stream.id);
  std::memcpy(at + kH2FrameHead, body.data(), n);
  frames_.output.wrote(size);
  window_ -= int64_t(n), stream.window -= int64_t(n), stream.left = 0;
  return true;
}

// Where it has something to send, and may.
void H2ClientOutput::queue(ClientStream& stream) {
  if (stream.queued || stream.left == 0 || stream.window <= 0) return;
  if (turns_.size() >= 2 * streams_.size() + kMostGone) forget_gone();
  stream.queued = true;
  turns_.push(stream.id);
}

// Streams that were closed before their turn.
void H2ClientOutput::forget_gone() {
  for (size_t n = turns_.size(); n > 0; --n) {
    const int32_t id = turns_.front();
    turns_.pop();
    if (streams_.find(id)) turns_.push(id);
  }
}

void H2ClientOutput::fill(std::vector<int32_t>& over) {
  while (!turns_.empty() && window_ > 0 && frames_.output.size() < kFilledAhead) {
    ClientStream* stream = streams_.find(turns_.front());
    turns_.pop();
    if (!stream) continue;
    stream->queued = false;
    if (send_data(*stream)) queue(*stream);
    if (stream->left == 0 && stream->whole) over.push_back(stream->id);
  }
}

// One frame. False: its body has gone, or it had none.
bool H2ClientOutput::send_data(ClientStream& stream) {
  if (stream.left == 0) return false;
  const int64_t most = std::min({int64_t(stream.left), int64_t(largest_frame_), window_, stream.window});
  if (most > 0) put_data(stream, size_t(most));
  return stream.left > 0;
}

void H2ClientOutput::put_data(ClientStream& stream, size_t n) {
  window_ -= int64_t(n), stream.window -= int64_t(n), stream.left -= n;
  std::array<char, kH2FrameHead> head;
  write_frame_head(head.data(), n, H2Frame::kData, stream.left == 0 ? NGHTTP2_FLAG_END_STREAM : 0, stream.id);
  frames_.output.copy(head.data(), head.size());
  while (n > 0) {
    const base::Bytes& piece = stream.pieces.back();
    const size_t part = std::min(n, piece.size() - stream.sent);
    if (part < kCopyAtMost)
      frames_.output.copy(piece.data() + stream.sent, part);
    else
      frames_.output.refer(piece.slice(stream.sent, part));
    n -= part, stream.sent += part;
    if (stream.sent < piece.size()) break;
    stream.pieces.pop_back();
    stream.sent = 0;
  }
}

}  // namespace weir::wire
