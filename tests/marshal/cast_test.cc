#include "marshal/cast.h"

#include <gtest/gtest.h>

#include "marshal/json_tensor.h"
#include "marshal/pb_tensor.h"
#include "marshal/raw.h"

namespace weir::marshal {
namespace {

using msg::DType;

constexpr DType kNumbers[] = {DType::kBool, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                              DType::kInt8, DType::kInt16, DType::kInt32,  DType::kInt64,  DType::kFp16,
                              DType::kBf16, DType::kFp32,  DType::kFp64};

msg::Tensor tensor(DType dtype, std::string_view json, int64_t count, WideText wide = WideText::kNumber) {
  msg::Tensor t{"x", dtype, {count}, {}};
  JsonCursor cursor(json);
  auto status = read_data(cursor, t, base::heap(), BytesText::kUtf8, wide);
  EXPECT_TRUE(status.ok()) << status.text;
  return t;
}

std::string text(const msg::Tensor& t) {
  std::string out;
  write_data(out, t, BytesText::kUtf8);
  return out;
}

TEST(Cast, OneAndZeroGoFromEveryTypeToEveryType) {
  for (DType from : kNumbers)
    for (DType to : kNumbers) {
      auto t = tensor(from, "[1,0]", 2);
      auto direct = tensor(to, "[1,0]", 2);
      ASSERT_TRUE(cast(t, to, base::heap()).ok()) << msg::name(from) << msg::name(to);
      EXPECT_EQ(t.dtype, to);
      EXPECT_EQ(t.data.view(), direct.data.view()) << msg::name(from) << msg::name(to);
    }
}

TEST(Cast, WhatDoesNotFitIsNamed) {
  auto refusal = [](DType from, std::string_view json, DType to) {
    auto t = tensor(from, json, 1);
    return cast(t, to, base::heap()).text;
  };
  EXPECT_EQ(refusal(DType::kInt32, "[256]", DType::kUint8), "input 'x', element 0: 256 is not a value of UINT8");
  EXPECT_EQ(refusal(DType::kInt64, "[-1]", DType::kUint64), "input 'x', element 0: -1 is not a value of UINT64");
  EXPECT_EQ(refusal(DType::kFp32, "[1.5]", DType::kInt32), "input 'x', element 0: 1.500000 is not a value of INT32");
  EXPECT_NE(refusal(DType::kFp64, "[1e300]", DType::kFp32), "");
  EXPECT_NE(refusal(DType::kFp32, "[1e5]", DType::kFp16), "");
  EXPECT_NE(refusal(DType::kFp64, "[9223372036854775808]", DType::kInt64), "");
  EXPECT_NE(refusal(DType::kFp32, "[\"NaN\"]", DType::kInt32), "");
  EXPECT_NE(refusal(DType::kInt32, "[2]", DType::kBool), "");
  EXPECT_EQ(refusal(DType::kFp64, "[\"Infinity\"]", DType::kFp16), "");
  EXPECT_NE(refusal(DType::kInt32, "[1]", DType::kBytes), "");
}

TEST(Cast, TheGreatestOfEachTypeFitsAndTheNextDoesNot) {
  auto fits = [](DType from, std::string_view json, DType to) {
    auto t = tensor(from, json, 1);
    return cast(t, to, base::heap()).ok();
  };
  EXPECT_TRUE(fits(DType::kFp64, "[3.4028234663852886e38]", DType::kFp32));
  EXPECT_TRUE(fits(DType::kFp64, "[-3.4028234663852886e38]", DType::kFp32));
  EXPECT_FALSE(fits(DType::kFp64, "[3.402823466385289e38]", DType::kFp32));
  EXPECT_TRUE(fits(DType::kFp32, "[65504]", DType::kFp16));
  EXPECT_FALSE(fits(DType::kFp32, "[65536]", DType::kFp16));
  EXPECT_TRUE(fits(DType::kFp64, "[255]", DType::kUint8));
  EXPECT_FALSE(fits(DType::kFp64, "[256]", DType::kUint8));
  EXPECT_TRUE(fits(DType::kFp64, "[-128]", DType::kInt8));
  EXPECT_FALSE(fits(DType::kFp64, "[-129]", DType::kInt8));
  EXPECT_TRUE(fits(DType::kFp64, "[-9223372036854775808]", DType::kInt64));
  EXPECT_TRUE(fits(DType::kUint64, "[9223372036854775807]", DType::kInt64));
  EXPECT_FALSE(fits(DType::kUint64, "[9223372036854775808]", DType::kInt64));
  EXPECT_FALSE(fits(DType::kFp64, "[18446744073709551616]", DType::kUint64));
  EXPECT_FALSE(fits(DType::kInt8, "[-1]", DType::kBool));
}

// open_inference_grpc.proto, InferTensorContents
TEST(PbTensor, EachTypeHasItsFieldOfTheProtocol) {
  const std::vector<std::pair<DType, uint32_t>> fields{
      {DType::kBool, 1},  {DType::kInt8, 2},   {DType::kInt16, 2},  {DType::kInt32, 2},  {DType::kInt64, 3},
      {DType::kUint8, 4}, {DType::kUint16, 4}, {DType::kUint32, 4}, {DType::kUint64, 5}, {DType::kFp16, 6},
      {DType::kBf16, 6},  {DType::kFp32, 6},   {DType::kFp64, 7},   {DType::kBytes, 8}};
  for (auto [dtype, field] : fields) EXPECT_EQ(contents_field(dtype), field) << msg::name(dtype);
}

TEST(Cast, WideIntegersKeepAllTheirDigits) {
  auto t = tensor(DType::kUint64, "[9223372036854775807]", 1);
  ASSERT_TRUE(cast(t, DType::kInt64, base::heap()).ok());
  EXPECT_EQ(text(t), "[9223372036854775807]");
}

TEST(PbTensor, EveryTypeReadsBackAsItWasWritten) {
  for (DType dtype : kNumbers) {
    auto t = tensor(dtype, dtype == DType::kBool ? "[1,0,1]" : "[1,0,100]", 3);
    std::string out;
    put_text(out, 1, "passed over");
    put_cells(out, 7, t);
    auto message = base::Bytes::copy_of(out);
    msg::Tensor again{"x", dtype, {3}, {}};
    ASSERT_TRUE(read_cells(message, message.view(), 7, base::heap(), again).ok()) << msg::name(dtype);
    EXPECT_EQ(again.data.view(), t.data.view()) << msg::name(dtype);
  }
}

TEST(PbTensor, OnePackedFieldOfFloatsAliasesAndTwoAreJoined) {
  auto t = tensor(DType::kFp32, "[1,2]", 2);
  std::string out;
  put_cells(out, 7, t);
  auto message = base::Bytes::copy_of(out);
  msg::Tensor again{"x", DType::kFp32, {2}, {}};
  ASSERT_TRUE(read_cells(message, message.view(), 7, base::heap(), again).ok());
  EXPECT_EQ(again.data.data(), message.data() + 2);
  auto twice = base::Bytes::copy_of(out + out);
  again.shape = {4};
  ASSERT_TRUE(read_cells(twice, twice.view(), 7, base::heap(), again).ok());
  EXPECT_EQ(text(again), "[1.0,2.0,1.0,2.0]");
}

TEST(PbTensor, NegativeNumbersAndMiscounts) {
  auto t = tensor(DType::kInt32, "[-1,5]", 2);
  std::string out;
  put_cells(out, 7, t);
  auto message = base::Bytes::copy_of(out);
  auto read = [&](int64_t count) {
    msg::Tensor again{"x", DType::kInt32, {count}, {}};
    auto status = read_cells(message, message.view(), 7, base::heap(), again);
    return status.ok() ? text(again) : status.text;
  };
  EXPECT_EQ(read(2), "[-1,5]");
  EXPECT_EQ(read(1), "input 'x': the contents have more elements than its shape [1]");
  EXPECT_EQ(read(3), "input 'x': the contents have fewer elements than its shape [3]");
}

TEST(JsonTensor, WideIntegersMayBeStringsWhereTheProtocolSaysSo) {
  auto t = tensor(DType::kInt64, R"(["-9223372036854775808",7])", 2, WideText::kString);
  EXPECT_EQ(text(t), "[-9223372036854775808,7]");
  std::string out;
  write_elements(out, t.dtype, t.data.view(), {BytesText::kUtf8, WideText::kString, ", "});
  EXPECT_EQ(out, R"("-9223372036854775808", "7")");
  for (std::string_view bad : {R"(["9223372036854775808"])", R"([""])", R"(["1x"])", R"([" 1"])"}) {
    msg::Tensor refused{"x", DType::kInt64, {1}, {}};
    JsonCursor cursor(bad);
    EXPECT_FALSE(read_data(cursor, refused, base::heap(), BytesText::kUtf8, WideText::kString).ok()) << bad;
  }
}

TEST(Raw, ABodyIsTheOneInputThatIsNotOptional) {
  msg::ModelSpec spec;
  spec.name = "m";
  spec.inputs = {{"o", DType::kInt8, {-1}, true, {}}, {"x", DType::kInt8, {-1}, false, {}}};
  msg::Call call;
  EXPECT_TRUE(place_raw(base::Bytes::copy_of("12"), spec, call).ok());
  EXPECT_EQ(call.inputs.at(0).name, "x");
  EXPECT_EQ(call.inputs.at(0).shape.text(), "[2]");
  spec.inputs.push_back({"y", DType::kInt8, {-1}, false, {}});
  EXPECT_EQ(place_raw(base::Bytes::copy_of("12"), spec, call).text,
            "a raw request needs a model with one input; 'm' has 3");
  for (auto& input : spec.inputs) input.optional = true;
  EXPECT_FALSE(place_raw(base::Bytes::copy_of("12"), spec, call).ok()) << "which of them?";
  spec.inputs.resize(1);
  EXPECT_TRUE(place_raw(base::Bytes::copy_of("12"), spec, call).ok());
}

TEST(Raw, ARemainderIsToldInBytes) {
  msg::ModelSpec spec;
  spec.name = "m", spec.max_batch = 8;
  spec.inputs = {{"image", DType::kFp32, {64}, false, {}}};
  msg::Call call;
  EXPECT_EQ(place_raw(base::Bytes::copy_of("x"), spec, call).text,
            "input 'image' is FP32 [-1,64]: the body must have a multiple of 256 bytes, but has 1 byte");
  msg::Call whole;
  EXPECT_TRUE(place_raw(base::Bytes::copy_of(std::string(512, 'x')), spec, whole).ok());
  EXPECT_EQ(whole.inputs.at(0).shape.text(), "[2,64]");
}

}  // namespace
}  // namespace weir::marshal
