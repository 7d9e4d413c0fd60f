// The protobuf wire format, read and written without message objects: a reader whose values point into the message, and
// functions that append to a string.
//
//   message := (tag value)*      tag := varint(field << 3 | type)
//   type 0: varint   1: 8 bytes   2: varint length, bytes   3, 4: group (deprecated)   5: 4 bytes
// Reference: protobuf.dev/programming-guides/encoding. The reader allocates nothing. A length that is larger than the
// rest of the message is an error, and so is a group of more than 64 KiB.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace weir::marshal {

enum class PbType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

class PbReader {
 public:
  PbReader() = default;
  explicit PbReader(std::string_view message) : p_(message.data()), end_(p_ + message.size()) {}

  // Moves to the next field. False at the end of the message, where ok() is true, and at malformed bytes, where it is
  // false.
  bool next() { return next_short() || next_any(); }
  bool ok() const { return ok_; }

  uint32_t field() const { return field_; }
  PbType type() const { return type_; }
  bool is(uint32_t field, PbType type) const { return field_ == field && type_ == type; }
  // The value, by type(). Fixed values are little-endian bits; a group has none.
  uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  // The size of the whole field as encoded, tag included.
  size_t encoded_size() const { return size_t(p_ - start_); }

 private:
  // A short text or message of a field below 16, as most are: the tag and the length have one byte each. False: it is
  // not, and nothing has happened.
  bool next_short() {
    if (!ok_ || end_ - p_ < 2) return false;
    const auto tag = uint8_t(p_[0]), n = uint8_t(p_[1]);
    if ((tag & 0x87) != uint8_t(PbType::kBytes) || tag < 8 || n >= 0x80 || n > end_ - p_ - 2) return false;
    start_ = p_;
    type_ = PbType::kBytes;
    field_ = tag >> 3;
    bytes_ = {p_ + 2, n};
    p_ += 2 + n;
    return true;
  }
  bool next_any();
  bool varint(uint64_t& out);
  bool value();
  bool skip_group();
  bool fail() {
    ok_ = false;
    return false;
  }

  const char* p_ = nullptr;
  const char* end_ = nullptr;
  const char* start_ = nullptr;
  bool ok_ = true;
  PbType type_ = PbType::kVarint;
  uint32_t field_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

// Limits the fields that are read of one message, at all of its depths. A field takes two bytes to send, and up to a
// tenth of a microsecond to read, so a limit of bytes alone would not bound the time on a shard. Repeated elements of a
// tensor are not counted: where there are many, a worker reads them.
class PbFields {
 public:
  static constexpr uint64_t kMost = 64 << 10;
  explicit PbFields(uint64_t most = kMost) : most_(most) {}
  // Counts `fields` more. False: there are too many, and they are not to be read.
  bool take(uint64_t fields = 1) { return (count_ += fields) <= most_; }
  bool exceeded() const { return count_ > most_; }
  uint64_t count() const { return count_; }
  void begin_again() { count_ = 0; }

 private:
  const uint64_t most_;
  uint64_t count_ = 0;
};

// A PbReader that counts fields. After too many it is not ok(), as if the message were malformed.
class PbCountedReader : public PbReader {
 public:
  PbCountedReader(std::string_view message, PbFields& fields) : PbReader(message), fields_(fields) {}
  // A group counts as the fields that its bytes can hold.
  bool next() { return PbReader::next() && fields_.take(type() == PbType::kGroup ? encoded_size() / 2 : 1); }
  bool ok() const { return PbReader::ok() && !fields_.exceeded(); }

 private:
  PbFields& fields_;
};

// Takes one varint off the front of a packed field. False when it is malformed.
bool take_varint(std::string_view& packed, uint64_t& out);

inline size_t varint_size(uint64_t v) {
  size_t n = 1;
  while (v >= 0x80) v >>= 7, ++n;
  return n;
}
void put_long_varint(std::string& out, uint64_t v);
inline void put_varint(std::string& out, uint64_t v) {
  if (v < 0x80)
    out += char(v);
  else
    put_long_varint(out, v);
}
inline void put_tag(std::string& out, uint32_t field, PbType type) { put_varint(out, field << 3 | uint32_t(type)); }
inline void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_tag(out, field, PbType::kBytes);
  put_varint(out, value.size());
  out += value;
}
// proto3 leaves empty strings out.
inline void put_text(std::string& out, uint32_t field, std::string_view value) {
  if (!value.empty()) put_bytes(out, field, value);
}

}  // namespace weir::marshal
