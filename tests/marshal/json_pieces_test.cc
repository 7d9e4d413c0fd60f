// Text made bit by bit is the text that is made at once.
#include "marshal/json_pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "marshal/json_tensor.h"

namespace weir::marshal {
namespace {

using msg::DType;
using msg::Tensor;

template <class T>
Tensor cells(DType dtype, const std::vector<T>& values) {
  std::string_view raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return {"x", dtype, {int64_t(values.size())}, base::Bytes::copy_of(raw)};
}

Tensor strings(const std::vector<std::string>& elements) {
  std::string data;
  for (const auto& e : elements) msg::append_string(data, e);
  return {"x", DType::kBytes, {int64_t(elements.size())}, base::Bytes::adopt(std::move(data))};
}

std::string at_once(const Tensor& tensor) {
  std::string out;
  write_data(out, tensor, bytes_text(tensor));
  return out;
}

// All pieces, each asked to have `target` bytes; none is longer than that by more than `slack`.
std::string in_pieces(const Tensor& tensor, size_t target, size_t slack) {
  DataPieces pieces(tensor, bytes_text(tensor));
  std::string all;
  for (bool more = true; more;) {
    std::string piece;
    more = pieces.write(piece, target);
    EXPECT_LE(piece.size(), target + slack);
    EXPECT_TRUE(!more || !piece.empty());
    all += piece;
  }
  std::string nothing;
  EXPECT_FALSE(pieces.write(nothing, target));
  EXPECT_EQ(nothing, "");
  return all;
}

TEST(JsonPieces, NumbersAreWhatTheyAreAtOnce) {
  std::vector<float> floats;
  std::vector<int64_t> whole;
  for (int i = 0; i < 20'000; ++i) floats.push_back(float(i) / 7), whole.push_back(int64_t(i) * -1'000'000'007);
  for (size_t target : {size_t(1), size_t(1000), size_t(100'000), size_t(100'000'000)}) {
    EXPECT_EQ(in_pieces(cells(DType::kFp32, floats), target, 64 << 10), at_once(cells(DType::kFp32, floats)));
    EXPECT_EQ(in_pieces(cells(DType::kInt64, whole), target, 64 << 10), at_once(cells(DType::kInt64, whole)));
  }
  EXPECT_EQ(in_pieces(cells<float>(DType::kFp32, {}), 10, 10), "[]");
}

TEST(JsonPieces, AHugeStringIsCutBetweenCharacters) {
  std::string wide;
  for (int i = 0; i < 100'000; ++i) wide += i % 3 ? "\xe2\x82\xac" : i % 2 ? "\x01" : "\"";
  const Tensor tensor = strings({"a", "", wide, "\xf0\x9f\x8e\x88", std::string(200'000, '\\'), "end"});
  for (size_t target : {size_t(1), size_t(50'000), size_t(10'000'000)})
    EXPECT_EQ(in_pieces(tensor, target, 300 << 10), at_once(tensor));
}

TEST(JsonPieces, Base64IsCutWhereItNeedsNoPadding) {
  std::string binary;
  for (int i = 0; i < 200'001; ++i) binary += char(i * 7);
  const Tensor tensor = strings({binary, "\xff", "", "abc"});
  ASSERT_EQ(bytes_text(tensor), BytesText::kBase64);
  for (size_t target : {size_t(1), size_t(70'000), size_t(10'000'000)})
    EXPECT_EQ(in_pieces(tensor, target, 70 << 10), at_once(tensor));
}

TEST(JsonPieces, NoTextIsLongerThanWhatIsForetold) {
  const float ugly = -std::numeric_limits<float>::min() * 1.2345678f;
  const double uglier = -std::numeric_limits<double>::min() * 1.2345678901234567;
  auto fits = [](const Tensor& t) { return at_once(t).size() <= most_text(t); };
  EXPECT_TRUE(fits(cells<float>(DType::kFp32, {ugly, ugly, -std::numeric_limits<float>::infinity(), 16777216.f})));
  EXPECT_TRUE(fits(cells<double>(DType::kFp64, {uglier, uglier, -std::numeric_limits<double>::max()})));
  EXPECT_TRUE(fits(cells<int64_t>(DType::kInt64, {INT64_MIN, INT64_MIN, INT64_MAX})));
  EXPECT_TRUE(fits(cells<uint64_t>(DType::kUint64, {UINT64_MAX, UINT64_MAX})));
  EXPECT_TRUE(fits(cells<int8_t>(DType::kInt8, {-128, -128, -128})));
  EXPECT_TRUE(fits(cells<uint8_t>(DType::kBool, {0, 0, 0})));
  EXPECT_TRUE(fits(cells<uint16_t>(DType::kBf16, {0x8080, 0x8080, 0xff80, 0x0001})));
  EXPECT_TRUE(fits(cells<uint16_t>(DType::kFp16, {0x8001, 0xfc00, 0x8001})));
  EXPECT_TRUE(fits(strings({"", "", std::string(100, '\x01')})));
  EXPECT_TRUE(fits(strings({"\xff"})));
  EXPECT_TRUE(fits(strings({})));
}

TEST(JsonPieces, WhatIsForetoldOfNumbersIsWhatTheLongestTake) {
  auto excess = [](const Tensor& t) { return most_text(t) - at_once(t).size(); };
  EXPECT_EQ(excess(cells<uint8_t>(DType::kBool, {0, 0, 0})), 1u);
  EXPECT_EQ(excess(cells<int8_t>(DType::kInt8, {-128, -127})), 1u);
  EXPECT_EQ(excess(cells<int16_t>(DType::kInt16, {INT16_MIN, INT16_MIN})), 1u);
  EXPECT_EQ(excess(cells<int32_t>(DType::kInt32, {INT32_MIN, INT32_MIN})), 1u);
  EXPECT_EQ(excess(cells<int64_t>(DType::kInt64, {INT64_MIN, INT64_MIN})), 1u);
  EXPECT_EQ(excess(cells<uint64_t>(DType::kUint64, {UINT64_MAX, UINT64_MAX})), 1u);
  const double longest = -std::numeric_limits<double>::max();
  EXPECT_EQ(excess(cells<double>(DType::kFp64, {longest, longest})), 1u);
  EXPECT_LE(excess(cells<uint16_t>(DType::kUint16, {65535, 65535})), 5u);
  EXPECT_LE(excess(cells<uint32_t>(DType::kUint32, {UINT32_MAX, UINT32_MAX})), 5u);
}

TEST(JsonPieces, StringsAboutAsLongAsAPartAreWhole) {
  for (size_t size : {49'151, 49'152, 49'153, 98'304, 98'305})
    for (const char* last : {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\x88"})
      for (size_t before = 0; before < 5; ++before) {
        std::string text(size - before, 'x');
        text += last;
        text += "y";
        const Tensor tensor = strings({text, "\xc3\xa9"});
        ASSERT_EQ(in_pieces(tensor, 1000, 64 << 10), at_once(tensor)) << size << last << before;
      }
  for (size_t size : {49'151, 49'152, 49'153}) {
    const Tensor exact = strings({std::string(size, 'x'), "\x80\x80"}), text = strings({std::string(size, 'x'), "y"});
    EXPECT_EQ(in_pieces(exact, 1000, 70 << 10), at_once(exact));
    EXPECT_EQ(in_pieces(text, 1000, 64 << 10), at_once(text));
  }
}

}  // namespace
}  // namespace weir::marshal
