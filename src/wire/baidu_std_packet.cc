#include "wire/baidu_std_packet.h"

#include <algorithm>
#include <limits>

namespace weir::wire {
namespace {

// Numbers of fields in baidu_rpc_meta.proto.
enum : uint32_t { kRequest = 1, kResponse = 2, kCompressType = 3, kCorrelationId = 4, kAttachmentSize = 5 };
enum : uint32_t { kAuthenticationData = 7, kUserFields = 9, kContentType = 10 };
enum : uint32_t { kServiceName = 1, kMethodName = 2, kRequestId = 7, kTimeoutMs = 8 };  // of RpcRequestMeta
enum : uint32_t { kErrorCode = 1, kErrorText = 2 };                                     // of RpcResponseMeta
enum : uint32_t { kKey = 1, kValue = 2 };                                               // of an entry of a map

enum : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };  // wire types

uint32_t big_endian(std::string_view four) {
  uint32_t n = 0;
  for (char c : four) n = n << 8 | uint8_t(c);
  return n;
}

void append_big_endian(std::string& to, uint32_t n) {
  for (int shift = 24; shift >= 0; shift -= 8) to += char(n >> shift & 0xff);
}

// One field after the other of a protobuf message.
class FieldWalk {
 public:
  explicit FieldWalk(std::string_view message) : left_(message) {}

  // False at the end, and where the message is malformed: broken() then.
  bool next() {
    if (left_.empty() || broken_) return false;
    const uint64_t tag = varint();
    number_ = uint32_t(tag >> 3), type_ = uint32_t(tag & 7);
    if (tag >> 3 == 0 || tag > std::numeric_limits<uint32_t>::max()) broken_ = true;
    number_value_ = 0, text_ = {};
    switch (type_) {
      case kVarint: number_value_ = varint(); break;
      case kFixed64: take(8); break;
      case kLength: text_ = take(varint()); break;
      case kFixed32: take(4); break;
      default: broken_ = true;
    }
    return !broken_;
  }
  bool broken() const { return broken_; }
  bool is_text(uint32_t number) const { return number_ == number && type_ == kLength; }
  bool is_number(uint32_t number) const { return number_ == number && type_ == kVarint; }
  std::string_view text() const { return text_; }
  int64_t number() const { return int64_t(number_value_); }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && !left_.empty(); shift += 7) {
      const uint8_t byte = uint8_t(left_.front());
      left_.remove_prefix(1);
      if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken_ = true;
    return 0;
  }
  std::string_view take(uint64_t n) {
    if (n > left_.size()) {
      broken_ = true;
      return {};
    }
    const std::string_view taken = left_.substr(0, size_t(n));
    left_.remove_prefix(size_t(n));
    return taken;
  }

  std::string_view left_, text_;
  uint64_t number_value_ = 0;
  uint32_t number_ = 0, type_ = 0;
  bool broken_ = false;
};

bool read_call(std::string_view message, BaiduRequest& out) {
  FieldWalk walk(message);
  while (walk.next()) {
    if (walk.is_text(kServiceName)) out.service = walk.text();
    if (walk.is_text(kMethodName)) out.method = walk.text();
    if (walk.is_text(kRequestId)) out.request_id = walk.text();
    if (walk.is_number(kTimeoutMs)) out.timeout_ms = int32_t(walk.number());
  }
  return !walk.broken();
}

bool read_entry(std::string_view message, BaiduRequest& out) {
  auto& [key, value] = out.fields.emplace_back();
  FieldWalk walk(message);
  while (walk.next()) {
    if (walk.is_text(kKey)) key = walk.text();
    if (walk.is_text(kValue)) value = walk.text();
  }
  return !walk.broken();
}

void append_varint(std::string& to, uint64_t n) {
  for (; n >= 0x80; n >>= 7) to += char((n & 0x7f) | 0x80);
  to += char(n);
}
void append_number(std::string& to, uint32_t field, int64_t n) {
  append_varint(to, field << 3 | kVarint);
  append_varint(to, uint64_t(n));
}
void append_text(std::string& to, uint32_t field, std::string_view text) {
  append_varint(to, field << 3 | kLength);
  append_varint(to, text.size());
  to += text;
}

}  // namespace

std::optional<BaiduHeader> BaiduHeader::read(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  const BaiduHeader header{big_endian(bytes.substr(4, 4)), big_endian(bytes.substr(8, 4))};
  if (header.meta > header.body) return std::nullopt;
  return header;
}

std::optional<BaiduRequest> BaiduRequest::read(std::string_view meta, size_t most_fields) {
  BaiduRequest out;
  bool asked = false;
  FieldWalk walk(meta);
  while (walk.next()) {
    if (walk.is_text(kRequest)) {
      asked = true;
      if (!read_call(walk.text(), out)) return std::nullopt;
    }
    if (walk.is_text(kUserFields))
      if (out.fields.size() >= most_fields || !read_entry(walk.text(), out)) return std::nullopt;
    if (walk.is_text(kAuthenticationData)) out.credential = walk.text();
    if (walk.is_number(kCompressType)) out.coding = int32_t(walk.number());
    if (walk.is_number(kCorrelationId)) out.correlation_id = walk.number();
    if (walk.is_number(kAttachmentSize)) out.attachment_size = int32_t(walk.number());
    if (walk.is_number(kContentType)) out.content_type = int32_t(walk.number());
  }
  if (walk.broken() || !asked) return std::nullopt;
  return out;
}

BrpcError brpc_error(base::Code code) {
  switch (code) {
    case base::Code::kOk: return BrpcError::kNone;
    case base::Code::kCancelled: return BrpcError::kCanceled;
    case base::Code::kInvalidArgument: return BrpcError::kInvalid;
    case base::Code::kDeadlineExceeded: return BrpcError::kTimedOut;
    case base::Code::kAlreadyExists: return BrpcError::kExists;
    case base::Code::kPermissionDenied: return BrpcError::kForbidden;
    case base::Code::kResourceExhausted:
    case base::Code::kUnavailable: return BrpcError::kLimit;
    case base::Code::kUnimplemented: return BrpcError::kNoMethod;
    case base::Code::kUnauthenticated: return BrpcError::kAuth;
    default: return BrpcError::kInternal;
  }
}

void BaiduAnswer::fail(BrpcError error, std::string_view text) {
  append_number(response_, kErrorCode, int64_t(error));
  append_text(response_, kErrorText, text);
}

void BaiduAnswer::field(std::string_view name, std::string_view value) {
  std::string entry;
  append_text(entry, kKey, name);
  append_text(entry, kValue, value);
  append_text(fields_, kUserFields, entry);
}

std::string BaiduAnswer::write(size_t message) const {
  std::string meta;
  append_text(meta, kResponse, response_);
  if (coding_ != BaiduCoding::kNone) append_number(meta, kCompressType, int64_t(coding_));
  append_number(meta, kCorrelationId, correlation_id_);
  meta += fields_;
  std::string out(BaiduHeader::kMagic);
  append_big_endian(out, uint32_t(meta.size() + message));
  append_big_endian(out, uint32_t(meta.size()));
  return out += meta;
}

}  // namespace weir::wire
