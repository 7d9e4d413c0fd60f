#include "marshal/pb_wire.h"

namespace weir::marshal {
namespace {

constexpr int kMaxGroups = 100;             // as libprotobuf
constexpr size_t kLongestGroup = 64 << 10;  // bytes: proto3 has no groups, so that none is of use here

bool read_varint(const char*& p, const char* end, uint64_t& out) {
  if (p < end && !(uint8_t(*p) & 0x80)) {  // one byte: nearly always
    out = uint8_t(*p++);
    return true;
  }
  uint64_t value = 0;
  for (int shift = 0; shift < 70 && p < end; shift += 7) {
    auto byte = uint8_t(*p++);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      out = value;
      return true;
    }
  }
  return false;
}

}  // namespace

bool take_varint(std::string_view& packed, uint64_t& out) {
  const char* p = packed.data();
  if (!read_varint(p, p + packed.size(), out)) return false;
  packed.remove_prefix(size_t(p - packed.data()));
  return true;
}

void put_long_varint(std::string& out, uint64_t v) {
  while (v >= 0x80) {
    out += char(uint8_t(v) | 0x80);
    v >>= 7;
  }
  out += char(v);
}

bool PbReader::varint(uint64_t& out) { return read_varint(p_, end_, out) || fail(); }

bool PbReader::next_any() {
  if (!ok_ || p_ == end_) return false;
  start_ = p_;
  uint64_t tag;
  if (!varint(tag)) return false;
  if (tag > UINT32_MAX || (tag >> 3) == 0 || (tag & 7) > 5) return fail();
  field_ = uint32_t(tag >> 3);
  type_ = PbType(tag & 7);
  if (type_ == PbType::kEndGroup) return fail();
  return type_ == PbType::kGroup ? skip_group() : value();
}

bool PbReader::value() {
  size_t fixed = type_ == PbType::kFixed64 ? 8 : 4;
  switch (type_) {
    case PbType::kVarint: return varint(number_);
    case PbType::kFixed64:
    case PbType::kFixed32:
      if (size_t(end_ - p_) < fixed) return fail();
      number_ = 0;
      std::memcpy(&number_, p_, fixed);
      p_ += fixed;
      return true;
    case PbType::kBytes: {
      uint64_t n;
      if (!varint(n)) return false;
      if (n > uint64_t(end_ - p_)) return fail();
      bytes_ = {p_, size_t(n)};
      p_ += n;
      return true;
    }
    default: return fail();
  }
}

// None of our messages has groups; one that comes is skipped, with the groups inside it.
bool PbReader::skip_group() {
  uint32_t open[kMaxGroups];
  int depth = 0;
  open[depth++] = field_;
  uint32_t outer = field_;
  while (depth > 0) {
    uint64_t tag;
    if (size_t(p_ - start_) > kLongestGroup) return fail();
    if (!varint(tag)) return false;
    if (tag > UINT32_MAX || (tag >> 3) == 0 || (tag & 7) > 5) return fail();
    type_ = PbType(tag & 7);
    if (type_ == PbType::kGroup) {
      if (depth == kMaxGroups) return fail();
      open[depth++] = uint32_t(tag >> 3);
    } else if (type_ == PbType::kEndGroup) {
      if (open[--depth] != tag >> 3) return fail();
    } else if (!value()) {
      return false;
    }
  }
  type_ = PbType::kGroup;
  field_ = outer;
  return true;
}

}  // namespace weir::marshal
