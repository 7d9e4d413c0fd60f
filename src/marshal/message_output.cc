#include "marshal/message_output.h"

#include <limits>

namespace weir::marshal {

using google::protobuf::FieldDescriptor;

namespace {

uint64_t zigzag(int64_t value) { return uint64_t(value) << 1 ^ uint64_t(value >> 63); }

}  // namespace

PbType wire_type(FieldDescriptor::Type type) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64: return PbType::kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32: return PbType::kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE: return PbType::kBytes;
    case FieldDescriptor::TYPE_GROUP: return PbType::kGroup;
    default: return PbType::kVarint;
  }
}

size_t MessageOutput::open(int number) {
  put_tag(text, uint32_t(number), PbType::kBytes);
  text += '\0';
  return text.size();
}
// Most lengths fit the byte that is there.
void MessageOutput::close(size_t at) {
  const size_t size = text.size() - at;
  if (size < 0x80) {
    text[at - 1] = char(size);
    return;
  }
  std::string length;
  put_varint(length, size);
  text.replace(at - 1, 1, length);
}

bool MessageOutput::put_integer(FieldDescriptor::Type type, const int64_t* i, const uint64_t* u) {
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  const bool narrow = i && *i >= kLeast && *i <= kMost;
  const bool narrow_unsigned = u && *u <= std::numeric_limits<uint32_t>::max();
  switch (type) {
    case FieldDescriptor::TYPE_INT32: return narrow && put(uint64_t(*i));
    case FieldDescriptor::TYPE_INT64: return i && put(uint64_t(*i));
    case FieldDescriptor::TYPE_UINT32: return narrow_unsigned && put(*u);
    case FieldDescriptor::TYPE_UINT64: return u && put(*u);
    case FieldDescriptor::TYPE_SINT32: return narrow && put(zigzag(*i));
    case FieldDescriptor::TYPE_SINT64: return i && put(zigzag(*i));
    case FieldDescriptor::TYPE_FIXED32: return narrow_unsigned && put_fixed(uint32_t(*u));
    case FieldDescriptor::TYPE_SFIXED32: return narrow && put_fixed(int32_t(*i));
    case FieldDescriptor::TYPE_FIXED64: return u && put_fixed(*u);
    case FieldDescriptor::TYPE_SFIXED64: return i && put_fixed(*i);
    default: return false;
  }
}

}  // namespace weir::marshal
