#include "marshal/cast.h"

#include <gtest/gtest.h>

#include "marshal/json_tensor.h"
#include "marshal/pb_tensor.h"
#include "marshal/raw_input.h"
#include "support/counted_slabs.h"

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
  EXPECT_TRUE(set_raw_input(base::Bytes::copy_of("12"), spec, base::heap(), call).ok());
  EXPECT_EQ(call.inputs.at(0).name, "x");
  EXPECT_EQ(call.inputs.at(0).shape.text(), "[2]");
  spec.inputs.push_back({"y", DType::kInt8, {-1}, false, {}});
  EXPECT_EQ(set_raw_input(base::Bytes::copy_of("12"), spec, base::heap(), call).text,
            "a raw request needs a model with one input; 'm' has 3");
  for (auto& input : spec.inputs) input.optional = true;
  EXPECT_FALSE(set_raw_input(base::Bytes::copy_of("12"), spec, base::heap(), call).ok()) << "which of them?";
  spec.inputs.resize(1);
  EXPECT_TRUE(set_raw_input(base::Bytes::copy_of("12"), spec, base::heap(), call).ok());
}

TEST(Raw, AnElementOfBytesIsACopyInASlab) {
  support::CountedSlabs slabs(1 << 20);
  msg::ModelSpec spec;
  spec.name = "m";
  spec.inputs = {{"s", DType::kBytes, {1}, false, {}}};
  const std::string text(100'000, 'x');
  {
    msg::Call call;
    ASSERT_TRUE(set_raw_input(base::Bytes::copy_of(text), spec, slabs, call).ok());
    ASSERT_EQ(call.inputs.at(0).data.size(), text.size() + 4);
    EXPECT_TRUE(call.inputs[0].data.view().substr(4) == text);
    slabs.empty = true;
    msg::Call charged;
    ASSERT_TRUE(set_raw_input(base::Bytes::copy_of(text), spec, slabs, charged).ok());
    EXPECT_GE(slabs.memory.held(), text.size()) << "of what is kept for answers";
  }
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST(Raw, ARemainderIsToldInBytes) {
  msg::ModelSpec spec;
  spec.name = "m", spec.max_batch = 8;
  spec.inputs = {{"image", DType::kFp32, {64}, false, {}}};
  msg::Call call;
  EXPECT_EQ(set_raw_input(base::Bytes::copy_of("x"), spec, base::heap(), call).text,
            "input 'image' is FP32 [-1,64]: the body must have a multiple of 256 bytes, but has 1 byte");
  msg::Call whole;
  EXPECT_TRUE(set_raw_input(base::Bytes::copy_of(std::string(512, 'x')), spec, base::heap(), whole).ok());
  EXPECT_EQ(whole.inputs.at(0).shape.text(), "[2,64]");
}

msg::Tensor strings(const std::vector<std::string>& elements) {
  std::string data;
  for (const auto& each : elements) msg::append_string(data, each);
  return {"x", DType::kBytes, {int64_t(elements.size())}, base::Bytes::copy_of(data)};
}

// The contents as a tensor of `dtype` with so many elements; or the error.
std::string contents(const std::string& fields, DType dtype, int64_t count) {
  auto message = base::Bytes::copy_of(fields);
  msg::Tensor t{"x", dtype, {count}, {}};
  auto status = read_cells(message, message.view(), 7, base::heap(), t);
  return status.ok() ? text(t) : status.text;
}
std::string packed_field(std::string_view octets) {
  std::string out;
  put_bytes(out, 7, octets);
  return out;
}
const std::string kMalformed = "input 'x': malformed protobuf in its contents";

TEST(PbTensor, StringsAreFieldsOfTheirOwn) {
  std::string out;
  put_text(out, 1, "passed over");
  put_cells(out, 7, strings({"a", "", "bcd"}));
  EXPECT_EQ(contents(out, DType::kBytes, 3), R"(["a","","bcd"])");
  EXPECT_EQ(contents(out, DType::kBytes, 2), "input 'x': the contents have more elements than its shape [2]");
  EXPECT_EQ(contents(out, DType::kBytes, 4), "input 'x': the contents have fewer elements than its shape [4]");
  EXPECT_EQ(contents(out, DType::kBytes, 1000), "input 'x': the contents have fewer elements than its shape [1000]");
  EXPECT_EQ(contents("", DType::kBytes, 0), "[]");
  std::string number;
  put_tag(number, 7, PbType::kVarint), put_varint(number, 1);
  EXPECT_EQ(contents(number, DType::kBytes, 1), kMalformed);
  EXPECT_EQ(contents(out + "\x3a\x05x", DType::kBytes, 3), kMalformed) << "cut short behind the last one";
}

TEST(PbTensor, NumbersMayStandOneByOneOrPackedOrBoth) {
  auto fixed = [](PbType type, std::string_view octets) {
    std::string out;
    put_tag(out, 7, type);
    return out + std::string(octets);
  };
  const std::string one("\0\0\x80\x3f", 4), two("\0\0\0\x40", 4), wide("\0\0\0\0\0\0\xf0\x3f", 8);
  EXPECT_EQ(contents(fixed(PbType::kFixed32, one) + packed_field(two), DType::kFp32, 2), "[1.0,2.0]");
  EXPECT_EQ(contents(fixed(PbType::kFixed32, one), DType::kFp16, 1), "[1.0]");
  EXPECT_EQ(contents(fixed(PbType::kFixed64, wide) + packed_field(wide + wide), DType::kFp64, 3), "[1.0,1.0,1.0]");
  EXPECT_EQ(contents(packed_field(wide) + packed_field(wide.substr(0, 7)), DType::kFp64, 2), kMalformed);
  EXPECT_EQ(contents(packed_field(one + one.substr(0, 3)), DType::kFp16, 2), kMalformed);
  EXPECT_EQ(contents(fixed(PbType::kFixed64, wide), DType::kFp32, 1), kMalformed) << "another type";
  EXPECT_EQ(contents(packed_field("\x01\x80"), DType::kInt32, 2), kMalformed) << "a varint that is cut";
  EXPECT_EQ(contents(packed_field("\x01") + "\x3a\x05x", DType::kInt32, 1), kMalformed);
  std::string varints;
  for (int i : {1, 0, 2}) put_tag(varints, 7, PbType::kVarint), put_varint(varints, uint64_t(i));
  EXPECT_EQ(contents(varints, DType::kBool, 3), "[true,false,true]") << "any number but 0";
  EXPECT_EQ(contents(varints, DType::kUint64, 3), "[1,0,2]");
  EXPECT_EQ(contents(varints, DType::kUint64, 2), "input 'x': the contents have more elements than its shape [2]");
  msg::Tensor bad{"x", DType::kInt32, {-1}, {}};
  auto message = base::Bytes::copy_of(varints);
  EXPECT_EQ(read_cells(message, message.view(), 7, base::heap(), bad).text, "input 'x': bad shape [-1]");
}

TEST(PbTensor, NarrowNumbersAreRefusedBeyondTheirType) {
  auto one = [](DType dtype, int64_t value) {
    std::string out;
    put_tag(out, 7, PbType::kVarint), put_varint(out, uint64_t(value));
    return contents(out, dtype, 1);
  };
  struct Range {
    DType dtype;
    int64_t least, most;
  };
  for (auto [dtype, least, most] : {Range{DType::kInt8, -128, 127},
                                    {DType::kInt16, -32768, 32767},
                                    {DType::kUint8, 0, 255},
                                    {DType::kUint16, 0, 65535}}) {
    EXPECT_EQ(one(dtype, least), "[" + std::to_string(least) + "]");
    EXPECT_EQ(one(dtype, most), "[" + std::to_string(most) + "]");
    EXPECT_EQ(one(dtype, most + 1), "input 'x', element 0: " + std::to_string(most + 1) + " is not a value of " +
                                        std::string(msg::name(dtype)));
    if (least < 0) {
      EXPECT_EQ(one(dtype, least - 1), "input 'x', element 0: " + std::to_string(least - 1) + " is not a value of " +
                                           std::string(msg::name(dtype)));
    }
  }
  EXPECT_EQ(contents(packed_field("\x01\x80\x02"), DType::kUint8, 2),
            "input 'x', element 1: 256 is not a value of UINT8");
}

TEST(Cast, TheElementThatDoesNotFitIsNamedByItsPlace) {
  auto t = tensor(DType::kInt32, "[1,2,300]", 3);
  EXPECT_EQ(cast(t, DType::kUint8, base::heap()).text, "input 'x', element 2: 300 is not a value of UINT8");
  EXPECT_EQ(t.dtype, DType::kInt32);
  auto words = strings({"a"});
  EXPECT_EQ(cast(words, DType::kInt8, base::heap()).text, "input 'x': BYTES cannot become INT8");
  EXPECT_TRUE(cast(words, DType::kBytes, base::heap()).ok());
  auto wide = tensor(DType::kUint64, "[18446744073709551615]", 1);
  EXPECT_EQ(cast(wide, DType::kInt8, base::heap()).text,
            "input 'x', element 0: 18446744073709551615 is not a value of INT8");
  auto real = tensor(DType::kFp64, "[-9223372036854775808, 4294967295, 1.5]", 3);
  EXPECT_EQ(cast(real, DType::kInt64, base::heap()).text, "input 'x', element 2: 1.500000 is not a value of INT64");
  auto infinite = tensor(DType::kFp32, "[\"Infinity\",\"NaN\"]", 2);
  ASSERT_TRUE(cast(infinite, DType::kBf16, base::heap()).ok());
  EXPECT_EQ(text(infinite), "[\"Infinity\",\"NaN\"]");
}

TEST(Raw, TheOneOpenDimensionIsWhatTheBytesMakeIt) {
  auto shape = [](msg::Shape declared, size_t bytes, uint32_t batch = 0, DType dtype = DType::kFp32) {
    msg::ModelSpec spec;
    spec.name = "m", spec.max_batch = batch;
    spec.inputs = {{"x", dtype, declared, false, {}}};
    msg::Call call;
    auto status = set_raw_input(base::Bytes::copy_of(std::string(bytes, 'x')), spec, base::heap(), call);
    return status.ok() ? call.inputs.at(0).shape.text() : status.text;
  };
  EXPECT_EQ(shape({2, 3}, 24), "[2,3]");
  EXPECT_EQ(shape({2, -1}, 24), "[2,3]");
  EXPECT_EQ(shape({-1, 3}, 36), "[3,3]");
  EXPECT_EQ(shape({-1}, 12, 8), "[1,3]") << "one row";
  EXPECT_EQ(shape({3}, 24, 8), "[2,3]");
  EXPECT_EQ(shape({-1, -1}, 12), "a raw request cannot tell the shape of input 'x', declared [-1,-1]");
  EXPECT_EQ(shape({-1, -1}, 12, 8), "a raw request cannot tell the shape of input 'x', declared [-1,-1,-1]");
  EXPECT_EQ(shape({-1, 0}, 12), "[0,0]");
  EXPECT_EQ(shape({-1, INT64_MAX, 2}, 12), "[0," + std::to_string(INT64_MAX) + ",2]") << "checked with all others";
  EXPECT_EQ(shape({-1, 2}, 12), "input 'x' is FP32 [-1,2]: the body must have a multiple of 8 bytes, but has 12 bytes");
  EXPECT_EQ(shape({-1}, 12, 0, DType::kBytes), "[1]") << "the body is the element";
  EXPECT_EQ(shape({-1}, 12, 8, DType::kBytes), "[1,1]");
  EXPECT_EQ(shape({2}, 12, 0, DType::kBytes), "[2]");
}

}  // namespace
}  // namespace weir::marshal
