#include "marshal/message_output.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir::marshal {
namespace {

using Type = google::protobuf::FieldDescriptor::Type;
using google::protobuf::FieldDescriptor;

TEST(MessageOutput, EachTypeHasItsWireType) {
  for (auto type : {FieldDescriptor::TYPE_DOUBLE, FieldDescriptor::TYPE_FIXED64, FieldDescriptor::TYPE_SFIXED64})
    EXPECT_EQ(wire_type(type), PbType::kFixed64);
  for (auto type : {FieldDescriptor::TYPE_FLOAT, FieldDescriptor::TYPE_FIXED32, FieldDescriptor::TYPE_SFIXED32})
    EXPECT_EQ(wire_type(type), PbType::kFixed32);
  for (auto type : {FieldDescriptor::TYPE_STRING, FieldDescriptor::TYPE_BYTES, FieldDescriptor::TYPE_MESSAGE})
    EXPECT_EQ(wire_type(type), PbType::kBytes);
  for (auto type : {FieldDescriptor::TYPE_BOOL, FieldDescriptor::TYPE_ENUM, FieldDescriptor::TYPE_SINT64})
    EXPECT_EQ(wire_type(type), PbType::kVarint);
  EXPECT_EQ(wire_type(FieldDescriptor::TYPE_GROUP), PbType::kGroup);
}

TEST(MessageOutput, ALengthTakesAsManyBytesAsItNeeds) {
  for (auto [size, head] : {std::pair<size_t, std::string>(0, {"\x0a\x00", 2}),
                            {127, "\x0a\x7f"},
                            {128, "\x0a\x80\x01"},
                            {16384, "\x0a\x80\x80\x01"}}) {
    MessageOutput out;
    const size_t at = out.open(1);
    out.text += std::string(size, 'x');
    out.close(at);
    EXPECT_EQ(out.text, head + std::string(size, 'x'));
  }
}

// The bytes of an integer that stands as either type, or "no".
std::string put(Type type, int64_t signed_value) {
  MessageOutput out;
  const auto value = uint64_t(signed_value);
  return out.put_integer(type, &signed_value, signed_value < 0 ? nullptr : &value) ? out.text : "no";
}
std::string put_unsigned(Type type, uint64_t value) {  // beyond int64
  MessageOutput out;
  return out.put_integer(type, nullptr, &value) ? out.text : "no";
}

TEST(MessageOutput, AnIntegerIsRefusedWhereItsTypeHasNoRoomForIt) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kLeast = std::numeric_limits<int32_t>::min();
  for (auto type : {FieldDescriptor::TYPE_INT32, FieldDescriptor::TYPE_SINT32, FieldDescriptor::TYPE_SFIXED32}) {
    for (int64_t fits : {kMost, kLeast, int64_t(0)}) EXPECT_NE(put(type, fits), "no");
    EXPECT_EQ(put(type, kMost + 1), "no");
    EXPECT_EQ(put(type, kLeast - 1), "no");
    EXPECT_EQ(put_unsigned(type, UINT64_MAX), "no");
  }
  for (auto type : {FieldDescriptor::TYPE_UINT32, FieldDescriptor::TYPE_FIXED32}) {
    EXPECT_NE(put(type, UINT32_MAX), "no");
    EXPECT_EQ(put(type, int64_t(UINT32_MAX) + 1), "no");
    EXPECT_EQ(put(type, -1), "no");
  }
  for (auto type : {FieldDescriptor::TYPE_INT64, FieldDescriptor::TYPE_SINT64, FieldDescriptor::TYPE_SFIXED64}) {
    EXPECT_NE(put(type, INT64_MIN), "no");
    EXPECT_EQ(put_unsigned(type, UINT64_MAX), "no");
  }
  for (auto type : {FieldDescriptor::TYPE_UINT64, FieldDescriptor::TYPE_FIXED64}) {
    EXPECT_NE(put_unsigned(type, UINT64_MAX), "no");
    EXPECT_EQ(put(type, -1), "no");
  }
  EXPECT_EQ(put(FieldDescriptor::TYPE_BOOL, 1), "no") << "is no integer";
}

TEST(MessageOutput, AnIntegerIsAVarintAZigzagOrFixed) {
  EXPECT_EQ(put(FieldDescriptor::TYPE_INT32, 300), "\xac\x02");
  EXPECT_EQ(put(FieldDescriptor::TYPE_INT64, -1), std::string(9, '\xff') + "\x01");
  EXPECT_EQ(put(FieldDescriptor::TYPE_UINT32, 5), "\x05");
  EXPECT_EQ(put_unsigned(FieldDescriptor::TYPE_UINT64, UINT64_MAX), std::string(9, '\xff') + "\x01");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT32, -1), "\x01");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT32, 1), "\x02");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT64, -64), "\x7f");
  EXPECT_EQ(put(FieldDescriptor::TYPE_FIXED32, 1), std::string("\x01\0\0\0", 4));
  EXPECT_EQ(put(FieldDescriptor::TYPE_SFIXED32, -2), "\xfe\xff\xff\xff");
  EXPECT_EQ(put(FieldDescriptor::TYPE_FIXED64, 1), std::string("\x01\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(put(FieldDescriptor::TYPE_SFIXED64, -2), "\xfe" + std::string(7, '\xff'));
}

TEST(MessageOutput, AZigzagHasRoomForTheGreatestAndTheLeast) {
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT64, INT64_MIN), std::string(9, '\xff') + "\x01");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT64, INT64_MAX), "\xfe" + std::string(8, '\xff') + "\x01");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT32, INT32_MIN), "\xff\xff\xff\xff\x0f");
  EXPECT_EQ(put(FieldDescriptor::TYPE_SINT32, INT32_MAX), "\xfe\xff\xff\xff\x0f");
}

}  // namespace
}  // namespace weir::marshal
