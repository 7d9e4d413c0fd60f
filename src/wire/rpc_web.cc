// gRPC-Web (grpc/doc/PROTOCOL-WEB.md): gRPC's frames in an ordinary HTTP body, for browsers.
//
//   response = *message trailers
//   trailers = %x80 length block      ; block: "name: value" CRLF, as in HTTP/1
//
// The -text types carry all of it in base64: the request as a stream that may be padded in the middle, the response one
// padded piece per frame.
#include <array>

#include "base/encoding.h"
#include "wire/grpc_status.h"
#include "wire/rpc_call.h"

namespace weir::wire {
namespace {

constexpr std::array<int8_t, 256> kSextet = [] {
  std::array<int8_t, 256> table{};
  table.fill(-1);
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i) table[uint8_t(kAlphabet[i])] = int8_t(i);
  return table;
}();

// base64 in pieces, cut anywhere; padding ends a group, after which another may begin.
class Base64Stream {
 public:
  // False on a byte that cannot stand where it does.
  bool feed(std::span<const std::byte> in, std::string& out) {
    for (std::byte b : in) {
      if (char(b) == '=' ? !pad() : !sextet(kSextet[size_t(b)], out)) return false;
    }
    return true;
  }
  // No group is cut short (RFC 4648 requires the padding, but some leave it out at the very end).
  bool whole() const { return count_ != 1 && pads_ == 0; }

 private:
  bool sextet(int8_t value, std::string& out) {
    if (value < 0 || pads_ > 0) return false;
    bits_ = bits_ << 6 | uint32_t(value);
    count_ = (count_ + 1) % 4;
    if (count_ == 2) out += char(bits_ >> 4 & 255);
    if (count_ == 3) out += char(bits_ >> 2 & 255);
    if (count_ == 0) out += char(bits_ & 255);
    return true;
  }
  bool pad() {
    if (count_ < 2) return false;
    if (++pads_ == 4 - count_) pads_ = 0, count_ = 0;
    return true;
  }

  uint32_t bits_ = 0, count_ = 0, pads_ = 0;
};

class WebCall final : public FramedCall {
 public:
  WebCall(const RpcRoute& route, const RpcState& state, Exchange& exchange, WebCoding coding)
      : FramedCall(route, state, exchange), coding_(coding) {}

 private:
  std::string_view content_type() const override {
    return coding_ == WebCoding::kText ? "application/grpc-web-text+proto" : "application/grpc-web+proto";
  }

  std::span<const std::byte> decode(std::span<const std::byte> bytes, std::string& scratch) override {
    if (coding_ == WebCoding::kBinary) return bytes;
    scratch.reserve(bytes.size() / 4 * 3 + 3);
    if (!broken_) broken_ = !base64_.feed(bytes, scratch);
    return {reinterpret_cast<const std::byte*>(scratch.data()), scratch.size()};
  }
  TransferState transfer() const override {
    if (broken_) return TransferState::kBroken;
    return base64_.whole() ? TransferState::kWhole : TransferState::kCut;
  }

  void write_frame(GrpcFlag flag, std::span<base::Bytes> pieces) override {
    if (coding_ == WebCoding::kBinary) return write_pieces(exchange_, flag, pieces);
    size_t total = 0;
    for (const auto& p : pieces) total += p.size();
    auto prefix = grpc_prefix(flag, uint32_t(total));
    std::string frame(reinterpret_cast<const char*>(prefix.data()), prefix.size());
    frame.reserve(frame.size() + total);
    for (const auto& p : pieces) frame += p.view();
    exchange_.body(base::Bytes::adopt(base::base64_encode(frame)));
  }

  void write_end(const base::Status& status) override {
    send_head();
    Fields trailers;
    add_grpc_status(trailers, status);
    for (size_t i = 0; i < trailing_.size(); ++i) trailers.add(trailing_[i].name, trailing_[i].value);
    add_request_id(exchange_, trailers, status);
    std::string block;
    for (size_t i = 0; i < trailers.size(); ++i)
      block.append(trailers[i].name).append(": ").append(trailers[i].value).append("\r\n");
    base::Bytes piece = base::Bytes::adopt(std::move(block));
    write_frame(GrpcFlag::kWebTrailers, {&piece, 1});
    exchange_.end();
  }

  WebCoding coding_;
  Base64Stream base64_;
  bool broken_ = false;
};

}  // namespace

std::unique_ptr<RpcCall> make_web_call(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                       WebCoding coding) {
  return std::make_unique<WebCall>(route, state, exchange, coding);
}

}  // namespace weir::wire
