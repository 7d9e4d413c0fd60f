#include "marshal/json_tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "msg/half.h"

namespace weir::marshal {
namespace {

using msg::DType;
using msg::Shape;

struct Read {
  base::Status status;
  msg::Tensor tensor;
};

Read read(std::string_view json, DType dtype, Shape shape, BytesText text = BytesText::kUtf8) {
  Read r{{}, {"x", dtype, shape, {}}};
  JsonCursor c(json);
  r.status = read_data(c, r.tensor, base::heap(), text);
  if (r.status.ok() && !c.finish()) r.status = c.error();
  return r;
}

template <class T>
std::vector<T> cells(const msg::Tensor& t) {
  std::vector<T> out(t.data.size() / sizeof(T));
  std::memcpy(out.data(), t.data.data(), t.data.size());
  return out;
}

struct CountingSlabs final : base::SlabSource {
  size_t out = 0;
  base::Slab* take(size_t bytes) override {
    out += bytes;
    return base::heap_slab(bytes);
  }
};

TEST(JsonTensor, StringsLieInSlabsToo) {
  CountingSlabs slabs;
  std::string json = "[\"" + std::string(5000, 'a') + "\",\"\",\"" + std::string(100'000, 'b') + "\"]";
  JsonCursor c(json);
  msg::Tensor tensor{"x", DType::kBytes, {3}, {}};
  ASSERT_TRUE(read_data(c, tensor, slabs, BytesText::kUtf8).ok());
  EXPECT_EQ(tensor.data.size(), 105'012u);
  EXPECT_GE(slabs.out, tensor.data.size());
  EXPECT_LE(slabs.out, 4 * tensor.data.size());
  std::vector<size_t> sizes;
  EXPECT_TRUE(msg::for_each_string(tensor.data.view(), [&](std::string_view s) { sizes.push_back(s.size()); }));
  EXPECT_EQ(sizes, (std::vector<size_t>{5000, 0, 100'000}));
}

TEST(JsonTensor, FlatAndNestedDataAreTheSame) {
  for (auto json : {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]", " [ [1,2 ,3] , [4,5,6.0] ] "}) {
    auto r = read(json, DType::kInt32, {2, 3});
    ASSERT_TRUE(r.status.ok()) << r.status.text;
    EXPECT_EQ(cells<int32_t>(r.tensor), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  }
  for (auto json : {"[[1,2],[3,4],[5,6]]", "[[1,2,3],[4,5]]", "[[1,2,3,4],[5,6]]", "[1,[2,3]]", "[[1,2,3],4,5,6]",
                    "[[[1],[2],[3]],[[4],[5],[6]]]", "[1,2,3]", "[1,2,3,4,5,6,7]", "[]"})
    EXPECT_EQ(read(json, DType::kInt32, {2, 3}).status.code, base::Code::kInvalidArgument) << json;
}

// Most floats are read many at once, those near the end of the text from a copy: what follows them must not matter.
TEST(JsonTensor, FloatsAreTheSameWhereverTheyStand) {
  const std::string numbers = "[1.5, -0.25,3,1e2,0.1,\n12345678.5,0.12345678,7.123456789 ,-0,1234567.87654321, 2]";
  const std::vector<float> wanted{
      1.5f, -0.25f, 3, 100, 0.1f, 12345678.5f, 0.12345678f, 7.123456789f, -0.0f, 1234567.87654321f, 2};
  for (size_t behind = 0; behind < 48; ++behind) {
    auto r = read(numbers + std::string(behind, ' '), DType::kFp32, {11});
    ASSERT_TRUE(r.status.ok()) << r.status.text;
    EXPECT_EQ(cells<float>(r.tensor), wanted) << behind;
    EXPECT_FALSE(read(numbers + std::string(behind, ' '), DType::kFp32, {10}).status.ok());
    EXPECT_FALSE(read(numbers + std::string(behind, ' '), DType::kFp32, {12}).status.ok());
  }
  for (size_t cut = 1; cut < numbers.size(); ++cut) {
    auto r = read(numbers.substr(0, cut), DType::kFp32, {11});
    EXPECT_FALSE(r.status.ok()) << numbers.substr(0, cut);
  }
  auto nested = read("[[1.5,2.5,3.5],[4.5,5.5,6.5]]", DType::kFp32, {2, 3});
  EXPECT_EQ(cells<float>(nested.tensor), (std::vector<float>{1.5, 2.5, 3.5, 4.5, 5.5, 6.5}));
  for (auto json : {"[[1.5,2.5],[3.5,4.5],[5.5,6.5]]", "[[1.5,2.5,3.5,4.5],[5.5,6.5]]", "[[1.5,2.5,3.5],4.5,5.5,6.5]",
                    "[[1.5,2.5,3.5],[4.5,5.5]]", "[1.5,,2.5,3,4,5,6]", "[1.5,2.5,3,4,5,6,]", "[1.5,2.5,3,4,5,06]"})
    EXPECT_FALSE(read(json, DType::kFp32, {2, 3}).status.ok()) << json;
}

TEST(JsonTensor, EmptyAndScalarShapesWork) {
  EXPECT_TRUE(read("[]", DType::kFp32, {0, 4}).status.ok());
  EXPECT_TRUE(read("[[],[]]", DType::kFp32, {2, 0}).status.ok());
  auto r = read("[7]", DType::kInt64, {});
  EXPECT_EQ(cells<int64_t>(r.tensor), std::vector<int64_t>{7});
}

TEST(JsonTensor, ErrorsNameTensorElementAndType) {
  EXPECT_EQ(read("[1,300]", DType::kUint8, {2}).status.text, "input 'x', element 1: 300 is not a value of UINT8");
  EXPECT_EQ(read("[1,-1]", DType::kUint64, {2}).status.text, "input 'x', element 1: -1 is not a value of UINT64");
  EXPECT_EQ(read("[1.5]", DType::kInt8, {1}).status.text, "input 'x', element 0: 1.5 is not a value of INT8");
  EXPECT_EQ(read("[2]", DType::kBool, {1}).status.text, "input 'x', element 0: 2 is not a value of BOOL");
  EXPECT_EQ(read("[\"a\"]", DType::kFp32, {1}).status.text,
            "input 'x', element 0: the string 'a' is not a value of FP32");
  EXPECT_EQ(read("[70000]", DType::kFp16, {1}).status.text, "input 'x', element 0: 70000 is not a value of FP16");
  EXPECT_EQ(read("[null]", DType::kFp16, {1}).status.text, "input 'x', element 0: expected a value of FP16");
  EXPECT_EQ(read("[1]", DType::kBytes, {1}).status.text, "input 'x', element 0: expected a string for BYTES");
  EXPECT_EQ(read("[1]", DType::kFp32, {1 << 30, 1 << 30}).status.code, base::Code::kInvalidArgument);
  EXPECT_EQ(read("[1]", DType::kFp32, {-1}).status.code, base::Code::kInvalidArgument);
  EXPECT_EQ(read("[1,tru]", DType::kFp32, {2}).status.code, base::Code::kInvalidArgument);
}

TEST(JsonTensor, EveryTypeComesBackAsWritten) {
  struct Case {
    DType dtype;
    const char* json;
  } cases[] = {
      {DType::kBool, "[true,false]"},
      {DType::kUint8, "[0,255]"},
      {DType::kUint16, "[0,65535]"},
      {DType::kUint32, "[0,4294967295]"},
      {DType::kUint64, "[0,18446744073709551615]"},
      {DType::kInt8, "[-128,127]"},
      {DType::kInt16, "[-32768,32767]"},
      {DType::kInt32, "[-2147483648,2147483647]"},
      {DType::kInt64, "[-9223372036854775808,9223372036854775807]"},
      {DType::kFp16, "[1.5,-65504.0]"},
      {DType::kBf16, "[1.5,-2.0]"},
      {DType::kFp32, "[0.1,-3.4028235e+38]"},
      {DType::kFp64, "[0.1,1e-300]"},
      {DType::kFp32, "[\"NaN\",\"-Infinity\"]"},
      {DType::kBf16, "[\"Infinity\",\"-Infinity\"]"},
      {DType::kFp32, "[-0.0,16777216.0]"},
      {DType::kBytes, R"(["a\"\\\n\u0001","é"])"},
  };
  for (const auto& c : cases) {
    auto r = read(c.json, c.dtype, {2});
    ASSERT_TRUE(r.status.ok()) << r.status.text;
    std::string out;
    write_data(out, r.tensor, bytes_text(r.tensor));
    EXPECT_EQ(out, c.json);
  }
}

TEST(JsonTensor, BytesThatAreNotTextTravelAsBase64) {
  auto r = read(R"(["//4A","YQ=="])", DType::kBytes, {2}, BytesText::kBase64);
  ASSERT_TRUE(r.status.ok()) << r.status.text;
  EXPECT_EQ(r.tensor.data.size(), 4u + 3 + 4 + 1);
  EXPECT_EQ(bytes_text(r.tensor), BytesText::kBase64);
  std::string out;
  write_data(out, r.tensor, BytesText::kBase64);
  EXPECT_EQ(out, R"(["//4A","YQ=="])");
  EXPECT_EQ(read("[\"!\"]", DType::kBytes, {1}, BytesText::kBase64).status.text, "input 'x', element 0: not base64");
}

TEST(JsonTensor, StringsAreEscapedAndMended) {
  std::string out;
  write_string(out, "a\xff\n\xc3\xa9\"");
  EXPECT_EQ(out, "\"a\xef\xbf\xbd\\n\xc3\xa9\\\"\"");
}

TEST(JsonTensor, ControlCharactersAreEscapedByTheirCodes) {
  for (int c = 0; c < 0x20; ++c) {
    const std::string_view shorts = "\b\f\n\r\t", letters = "bfnrt", digits = "0123456789abcdef";
    const size_t at = shorts.find(char(c));
    std::string expected = at == shorts.npos ? std::string("u00") + digits[size_t(c >> 4)] + digits[size_t(c & 15)]
                                             : std::string(1, letters[at]);
    std::string out;
    write_string(out, std::string(1, char(c)));
    EXPECT_EQ(out, "\"\\" + expected + "\"") << c;
  }
  std::string out;
  write_string(out, " ~/\x7f");
  EXPECT_EQ(out, "\" ~/\x7f\"");
}

TEST(Half, EveryPatternComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float f = msg::fp16_to_float(uint16_t(bits)), b = msg::bf16_to_float(uint16_t(bits));
    EXPECT_TRUE(std::isnan(f) ? std::isnan(msg::fp16_to_float(msg::fp16_from(f))) : msg::fp16_from(f) == bits) << bits;
    EXPECT_TRUE(std::isnan(b) ? std::isnan(msg::bf16_to_float(msg::bf16_from(b))) : msg::bf16_from(b) == bits) << bits;
  }
  EXPECT_EQ(msg::fp16_from(65519.0f), 0x7bff);
  EXPECT_EQ(msg::fp16_from(65520.0f), 0x7c00);
  EXPECT_EQ(msg::fp16_from(2.9802322e-8f), 0);  // half of the least subnormal: to even
  EXPECT_EQ(msg::fp16_from(2.9802326e-8f), 1);
  EXPECT_EQ(msg::fp16_from(1.0f + 1.0f / 2048), 0x3c00);
  EXPECT_EQ(msg::fp16_from(1.0f + 3.0f / 2048), 0x3c02);
}

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < texts.size(); ++i) out += (i > 0 ? std::string(separator) : "") + texts[i];
  return out;
}

TEST(JsonTensor, ElementsHaveAnySeparatorHoweverManyThereAre) {
  std::vector<double> values;
  std::vector<std::string> texts, quoted;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(double(i) + 0.5);
    texts.push_back(std::to_string(i) + ".5");
  }
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * 8);
  for (size_t n : {0, 1, 2, 15, 16, 17, 40, 5000}) {
    const std::string by(n, '|');
    std::string out = "before";
    write_elements(out, DType::kFp64, std::string_view(data).substr(0, n == 5000 ? 80 : data.size()),
                   {.separator = by});
    if (n == 5000) texts.resize(10);
    EXPECT_EQ(out, "before" + joined(texts, by)) << n;
  }
}

TEST(JsonTensor, ManyFloatsAreWrittenAsEachAlone) {
  std::mt19937 random(5);
  for (size_t n : {0, 1, 123, 124, 125, 1000}) {
    std::string data, each;
    for (size_t i = 0; i < n; ++i) {
      float value = float(random() % 1000) / 16 - 20;
      if (random() % 10 == 0) value = std::bit_cast<float>(uint32_t(random()));  // some of them not finite
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
      std::string one;
      write_elements(one, DType::kFp32, {reinterpret_cast<const char*>(&value), sizeof value}, {.separator = ", "});
      each += (i ? "," : "") + one;
    }
    std::string all;
    write_elements(all, DType::kFp32, data, {});
    EXPECT_EQ(all, each) << n;
  }
}

TEST(JsonTensor, TextIsEscapedWhereItHasToBeAndNowhereElse) {
  auto written = [](std::string_view text) {
    std::string out;
    write_string(out, text);
    return out;
  };
  EXPECT_EQ(written("a b\nc ~ d"), "\"a b\\nc ~ d\"") << "a blank stands for itself";
  EXPECT_EQ(written("\n"), "\"\\n\"");
  EXPECT_EQ(written("\\\"\\"), "\"\\\\\\\"\\\\\"");
  const std::string mended = "\xef\xbf\xbd";
  for (std::string_view bad : {"\x80", "\xbf", "\xc3", "\xe0\xa0", "\xf0\x90\x80", "\xf8"})
    EXPECT_EQ(written(bad).substr(0, 4), "\"" + mended) << bad;
  EXPECT_EQ(written("\x80\xbf"), "\"" + mended + mended + "\"");
  // Characters of every length stay, beside bytes that are none.
  for (std::string_view good : {"a", " ", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xef\xbf\xbf",
                                "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    const std::string text(good);
    EXPECT_EQ(written("\xff" + text), "\"" + mended + text + "\"");
    EXPECT_EQ(written(text + "\xff" + text + text), "\"" + text + mended + text + text + "\"");
  }
  EXPECT_EQ(written("\xff\x1f\"\\ a"), "\"" + mended + "\\u001f\\\"\\\\ a\"");
  const std::string name(64, 'n'), longer(65, 'n');
  EXPECT_EQ(written(name), "\"" + name + "\"");
  EXPECT_EQ(written(longer + "\t"), "\"" + longer + "\\t\"");
}

TEST(JsonTensor, ErrorsRepeatNoMoreThanTheBeginning) {
  EXPECT_EQ(read("[" + std::string(70, '7') + "]", DType::kUint8, {1}).status.text,
            "input 'x', element 0: " + std::string(64, '7') + " is not a value of UINT8");
  EXPECT_EQ(read("[\"" + std::string(40, 'a') + "\"]", DType::kFp32, {1}).status.text,
            "input 'x', element 0: the string '" + std::string(32, 'a') + "' is not a value of FP32");
  msg::Tensor wide{"x", DType::kInt64, {1}, {}};
  const std::string json = "[\"" + std::string(40, 'a') + "\"]";
  JsonCursor c(json);
  EXPECT_EQ(read_data(c, wide, base::heap(), BytesText::kUtf8, WideText::kString).text,
            "input 'x', element 0: the string '" + std::string(32, 'a') + "' is not a value of INT64");
}

// As protobuf's JSON has it, and for all types of numbers.
TEST(JsonTensor, NumbersMayBeStringsWhereAskedFor) {
  auto read_wide = [](const std::string& json, DType dtype, int64_t n) {
    Read r{{}, {"x", dtype, {n}, {}}};
    JsonCursor c(json);
    r.status = read_data(c, r.tensor, base::heap(), BytesText::kUtf8, WideText::kString);
    return r;
  };
  EXPECT_EQ(cells<float>(read_wide(R"(["1.5",2,"-3e-1","Infinity"])", DType::kFp32, 4).tensor),
            (std::vector<float>{1.5f, 2, -0.3f, HUGE_VALF}));
  EXPECT_EQ(cells<int8_t>(read_wide(R"([1,"-128","1e2"])", DType::kInt8, 3).tensor),
            (std::vector<int8_t>{1, -128, 100}));
  EXPECT_EQ(cells<uint64_t>(read_wide(R"(["18446744073709551615"])", DType::kUint64, 1).tensor).at(0), UINT64_MAX);
  EXPECT_EQ(cells<uint16_t>(read_wide(R"(["1.5"])", DType::kFp16, 1).tensor).at(0), 0x3e00);
  for (const char* bad : {"", " 1", "1 ", "\uFEFF1", "0x1", "1,2", "true", "+1", "1.5", "NaN"})
    EXPECT_EQ(read_wide("[\"" + std::string(bad) + "\"]", DType::kInt32, 1).status.code, base::Code::kInvalidArgument)
        << bad;
  EXPECT_EQ(read_wide(R"(["128"])", DType::kInt8, 1).status.text, "input 'x', element 0: 128 is not a value of INT8");
  EXPECT_EQ(read_wide(R"(["1x"])", DType::kInt32, 1).status.text,
            "input 'x', element 0: the string '1x' is not a value of INT32");
  EXPECT_FALSE(read_wide(R"(["1"])", DType::kBool, 1).status.ok());
}

TEST(JsonTensor, WhatIsNoElementOfTheTypeIsRefused) {
  EXPECT_EQ(read("[\"7\"]", DType::kInt64, {1}).status.text, "input 'x', element 0: expected a value of INT64");
  EXPECT_EQ(read("[3.4028235e38]", DType::kBf16, {1}).status.text,
            "input 'x', element 0: 3.4028235e38 is not a value of BF16");
  EXPECT_EQ(read("[0.5]", DType::kBool, {1}).status.text, "input 'x', element 0: 0.5 is not a value of BOOL");
  EXPECT_TRUE(read("[1,0]", DType::kBool, {2}).status.ok());
  EXPECT_EQ(read("[1e39]", DType::kFp32, {1}).status.text, "input 'x', element 0: 1e39 is not a value of FP32");
  EXPECT_EQ(read("[\"a\",\"\\x\"]", DType::kBytes, {2}).status.text, "JSON: an unknown escape at byte 7");
  EXPECT_FALSE(read("[[7]]", DType::kInt64, {}).status.ok()) << "a scalar has no brackets inside";
  for (auto json : {"[[1,2],[3,4]]", "[[[1,2],[3,4]]]"})
    EXPECT_EQ(read(json, DType::kInt8, {1, 2, 2}).status.ok(), json[2] == '[') << json;
  auto halves = read("[\"NaN\",\"-Infinity\"]", DType::kFp16, {2});
  EXPECT_EQ(cells<uint16_t>(halves.tensor).at(1), 0xfc00);
}

TEST(JsonTensor, MiscountsSayHowManyThereAre) {
  EXPECT_EQ(read("[1]", DType::kInt8, {3}).status.text, "input 'x': 1 elements of data, but 3 by its shape [3]");
  EXPECT_EQ(read("[1]", DType::kInt8, {4}).status.text,
            "input 'x': shape [4] asks for 4 elements, more than the request holds");
  EXPECT_EQ(read("[1,2]", DType::kInt8, {1}).status.text, "input 'x': more data than the 1 elements of its shape [1]");
  EXPECT_NE(read("[[1,2,3]]", DType::kInt8, {1, 2}).status.text.find("not nested as its shape [1,2] says"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::marshal
