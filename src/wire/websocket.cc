#include "wire/websocket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "base/release.h"

namespace weir::wire {
namespace {

enum : uint8_t { kContinuation = 0, kTextFrame = 1, kBinaryFrame = 2, kClose = 8, kPing = 9, kPong = 10 };
constexpr uint8_t kFinal = 0x80;  // FIN
constexpr size_t kMostControl = 125;
constexpr uint64_t kSmall = 16 << 10;  // longer messages lie in slabs

bool is_control(uint8_t opcode) { return opcode >= kClose; }

// Codes that may stand in a close frame (RFC 6455 §7.4).
bool sendable(uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

// `to` += payload, unmasked. `at`: where in the mask the payload goes on.
void append_unmasked(std::string& to, std::span<const std::byte> payload, const std::array<uint8_t, 4>& mask,
                     uint32_t at) {
  size_t from = to.size();
  to.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  char* p = to.data() + from;
  size_t n = payload.size();
  std::array<uint8_t, 8> turned;
  for (size_t i = 0; i < 8; ++i) turned[i] = mask[(at + i) % 4];
  uint64_t wide;
  std::memcpy(&wide, turned.data(), 8);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v;
    std::memcpy(&v, p + i, 8);
    v ^= wide;
    std::memcpy(p + i, &v, 8);
  }
  for (; i < n; ++i) p[i] = char(uint8_t(p[i]) ^ turned[i % 8]);
}

}  // namespace

bool Utf8Check::push(std::string_view piece) {
  size_t i = 0;
  while (i < piece.size()) {
    if (left_ == 0) {  // eight ASCII characters a step
      uint64_t v;
      while (piece.size() - i >= 8 && (std::memcpy(&v, piece.data() + i, 8), (v & 0x8080808080808080u) == 0)) i += 8;
      if (i == piece.size()) return true;
    }
    uint8_t c = uint8_t(piece[i++]);
    if (left_ > 0) {
      if (c < low_ || c > high_) return false;
      low_ = 0x80, high_ = 0xbf;
      --left_;
    } else if (c < 0x80) {
      continue;
    } else if (c >= 0xc2 && c <= 0xdf) {
      left_ = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
      left_ = 2;
      if (c == 0xe0) low_ = 0xa0;
      if (c == 0xed) high_ = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
      left_ = 3;
      if (c == 0xf0) low_ = 0x90;
      if (c == 0xf4) high_ = 0x8f;
    } else {
      return false;
    }
  }
  return true;
}

size_t WebSocket::feed(std::span<const std::byte> bytes) {
  const size_t used = take(bytes);
  charge();
  return used;
}

void WebSocket::keep_aside(uint64_t bytes) {
  aside_ = bytes;
  charge();
}

// Messages that are whole within one read cost nothing here.
void WebSocket::charge() {
  const uint64_t held = aside_ + (message_.empty() ? 0 : message_.capacity());
  if (held == charge_.bytes() || charge_.resize(held)) return;
  refuse_memory("there is no memory for the message; try again later");
}

size_t WebSocket::take(std::span<const std::byte> bytes) {
  size_t used = 0;
  wanted_ = 0;
  while (used < bytes.size()) {
    auto rest = bytes.subspan(used);
    if (reading_ == Reading::kNothing) return bytes.size();
    if (reading_ == Reading::kHead) {
      if (head_size_ == 0 && side_.full()) break;
      used += read_head(rest);
    } else {
      size_t n = size_t(std::min<uint64_t>(left_, rest.size()));
      if (starved(n)) return reading_ == Reading::kNothing ? bytes.size() : used;
      read_payload(rest.first(n));
      used += n;
      if (reading_ == Reading::kPayload && left_ == 0) end_frame();
    }
  }
  return used;
}

// Gathers a head byte by byte as far as its own length says.
size_t WebSocket::read_head(std::span<const std::byte> bytes) {
  size_t used = 0;
  auto need = [&] {
    if (head_size_ < 2) return size_t(2);
    uint8_t length = head_[1] & 0x7f;
    return size_t(2) + (length == 126 ? 2 : length == 127 ? 8 : 0) + (head_[1] & 0x80 ? 4 : 0);
  };
  while (head_size_ < need()) {
    if (used == bytes.size()) return used;
    head_[head_size_++] = uint8_t(bytes[used++]);
  }
  if (start_frame() && left_ == 0) end_frame();
  return used;
}

bool WebSocket::start_frame() {
  head_size_ = 0;
  final_ = head_[0] & 0x80;
  opcode_ = head_[0] & 0x0f;
  uint8_t length = head_[1] & 0x7f;
  size_t wide = length == 126 ? 2 : length == 127 ? 8 : 0;
  left_ = wide ? 0 : length;
  for (size_t i = 0; i < wide; ++i) left_ = left_ << 8 | head_[2 + i];
  bool minimal = wide == 0 || (wide == 2 ? left_ > 125 : left_ > 0xffff && left_ >> 63 == 0);
  if (!minimal) return fail(close_code::kProtocol, "malformed frame length"), false;
  if (!(head_[1] & 0x80)) return fail(close_code::kProtocol, "frames of clients are masked"), false;
  std::copy_n(head_.begin() + 2 + long(wide), 4, mask_.begin());
  at_ = 0;
  reading_ = Reading::kPayload;
  return check_frame();
}

bool WebSocket::check_frame() {
  auto refuse = [&](std::string_view why) { return fail(close_code::kProtocol, why), false; };
  if (head_[0] & 0x70) return refuse("reserved bits are set");
  if (is_control(opcode_)) {
    if (opcode_ > kPong) return refuse("unknown opcode");
    if (!final_ || left_ > kMostControl) return refuse("malformed control frame");
    return true;
  }
  if (opcode_ > kBinaryFrame) return refuse("unknown opcode");
  if ((opcode_ == kContinuation) != in_message_)
    return refuse(in_message_ ? "a new message inside another" : "a continuation of nothing");
  if (!in_message_) {
    kind_ = opcode_ == kTextFrame ? Kind::kText : Kind::kBinary;
    in_message_ = true;
    utf8_ = {};
  }
  if (left_ > max_message_ || gathered_ > max_message_ - left_)
    return fail(close_code::kTooLarge, "the message is larger than " + std::to_string(max_message_) + " bytes"), false;
  if (large_ || gathered_ + left_ <= kSmall) return true;
  large_ = true;
  int64_t length = final_ ? int64_t(gathered_ + left_) : -1;
  body_.begin(slabs_, {length, Coding::kIdentity, {max_message_, 0}, owner_});
  return true;
}

// The rest of the message goes into message_ with the next piece. Where waiting for a slab would be in vain
// the WebSocket ends.
bool WebSocket::starved(size_t n) {
  if (!large_ || is_control(opcode_)) return false;
  auto room = body_.make_room(message_.size() + n);
  wanted_ = room == BodyCollector::State::kStalled ? body_.wanted() : 0;
  if (room == BodyCollector::State::kNoMemory)
    fail(close_code::kTryAgain, "there is no memory for the message; try again later");
  return room != BodyCollector::State::kOpen;
}

void WebSocket::read_payload(std::span<const std::byte> bytes) {
  bool control = is_control(opcode_);
  std::string& to = control ? control_ : message_;
  size_t from = to.size();
  append_unmasked(to, bytes, mask_, at_);
  at_ = (at_ + uint32_t(bytes.size() % 4)) % 4;
  left_ -= bytes.size();
  if (!control) keep(std::string_view(message_).substr(from));
}

void WebSocket::keep(std::string_view piece) {
  gathered_ += piece.size();
  bool sound = kind_ != Kind::kText || utf8_.push(piece);
  if (large_) {
    body_.put(std::as_bytes(std::span(message_)));
    message_.clear();
  }
  if (!sound) fail(close_code::kNotUtf8, "a text message is not UTF-8");
}

void WebSocket::end_frame() {
  reading_ = Reading::kHead;
  if (!is_control(opcode_)) {
    if (final_) end_message();
    return;
  }
  std::string payload = std::move(control_);
  control_.clear();
  side_.on_control();
  if (opcode_ == kPing && !closed_) {
    std::vector<base::Bytes> pieces;
    pieces.push_back(base::Bytes::adopt(std::move(payload)));
    write_frame(uint8_t(kFinal | kPong), std::move(pieces));
  } else if (opcode_ == kClose) {
    control_ = std::move(payload);
    on_close_frame();
  }
}

void WebSocket::end_message() {
  in_message_ = false;
  if (kind_ == Kind::kText && !utf8_.whole()) return fail(close_code::kNotUtf8, "a text message is not UTF-8");
  base::Bytes message = large_ ? body_.take() : base::Bytes::adopt(std::move(message_));
  message_.clear();
  gathered_ = 0, large_ = false;
  if (!closed_) side_.on_message(kind_, std::move(message));
}

// RFC 6455 §5.5.1, §7.1.5: the code comes back, and nothing follows.
void WebSocket::on_close_frame() {
  uint16_t code = close_code::kNone;
  if (control_.size() == 1) return fail(close_code::kProtocol, "malformed close frame");
  if (control_.size() >= 2) {
    code = uint16_t(uint8_t(control_[0]) << 8 | uint8_t(control_[1]));
    if (!sendable(code)) return fail(close_code::kProtocol, "malformed close code");
    Utf8Check reason;
    if (!reason.push(std::string_view(control_).substr(2)) || !reason.whole())
      return fail(close_code::kNotUtf8, "the reason is not UTF-8");
  }
  reading_ = Reading::kNothing;
  close(code == close_code::kNone ? close_code::kNormal : code, "");
  side_.on_closing(code);
}

void WebSocket::refuse_memory(std::string_view why) {
  if (reading_ != Reading::kNothing) fail(close_code::kTryAgain, why);
}

void WebSocket::fail(uint16_t code, std::string_view why) {
  reading_ = Reading::kNothing;
  base::release(message_);
  body_.clear();
  aside_ = 0;
  charge_.clear();
  close(code, why);
  side_.on_closing(code);
}

// `first`: the first byte of the frame.
void WebSocket::write_frame(uint8_t first, std::vector<base::Bytes> pieces) {
  size_t size = 0;
  for (const auto& p : pieces) size += p.size();
  std::string head{char(first)};
  int wide = size < 126 ? 0 : size <= 0xffff ? 2 : 8;
  head += char(wide == 0 ? size : wide == 2 ? 126 : 127);
  for (int i = wide; i-- > 0;) head += char(uint64_t(size) >> (8 * i));
  constexpr size_t kJoin = 1024;  // small messages go out in one piece
  if (size < kJoin) {
    for (const auto& p : pieces) head += p.view();
    return side_.write(base::Bytes::adopt(std::move(head)));
  }
  side_.write(base::Bytes::adopt(std::move(head)));
  for (auto& p : pieces) side_.write(std::move(p));
}

void WebSocket::send(Kind kind, std::vector<base::Bytes> pieces, More more) {
  if (closed_) return;
  const bool goes_on = std::exchange(sending_, more == More::kYes);
  const uint8_t opcode = goes_on ? kContinuation : kind == Kind::kText ? kTextFrame : kBinaryFrame;
  write_frame(uint8_t(more == More::kYes ? opcode : kFinal | opcode), std::move(pieces));
}

void WebSocket::ping() {
  if (!closed_) write_frame(uint8_t(kFinal | kPing), {});
}

void WebSocket::close(uint16_t code, std::string_view reason) {
  if (std::exchange(closed_, true)) return;
  std::string payload{char(code >> 8), char(code & 0xff)};
  payload += base::cut_text(reason, kMostControl - 2);
  std::vector<base::Bytes> pieces;
  pieces.push_back(base::Bytes::adopt(std::move(payload)));
  write_frame(uint8_t(kFinal | kClose), std::move(pieces));
}

}  // namespace weir::wire
