// Files that a stranger made: what the format says is read, all else is refused.
#include "engines/llm/load/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engines/llm/load/files.h"
#include "engines/llm/load/store.h"
#include "msg/half.h"
#include "support/cpu_time.h"

namespace weir::llm {
namespace {

std::string file(std::string_view header, std::string_view data) {
  uint64_t n = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out + std::string(header) + std::string(data);
}

base::Status parse(const std::string& text, Arrays& arrays) {
  return parse_safetensors(std::as_bytes(std::span(text)), arrays);
}
bool refused(std::string_view header, std::string_view data = "") {
  Arrays arrays;
  auto status = parse(file(header, data), arrays);
  EXPECT_TRUE(status.ok() || arrays.empty());
  return !status.ok();
}

TEST(Safetensors, ArraysAreReadInAnyOrderAndOfEveryFloatType) {
  std::string data = std::string("\0\0\x80\x3f", 4) + std::string("\x00\x3c\x00\xc0", 4) + std::string("\x40\x40", 2);
  std::string text = file(
      R"({"c":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"__metadata__":{"format":"pt"},
         "a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}   )",
      data);
  Arrays arrays;
  auto status = parse(text, arrays);
  ASSERT_TRUE(status.ok()) << status.text;
  float f[2];
  read_floats(arrays.at("a"), 0, 1, f);
  EXPECT_EQ(f[0], 1.0f);
  read_floats(arrays.at("b"), 0, 2, f);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_EQ(f[1], -2.0f);
  read_floats(arrays.at("c"), 0, 1, f);
  EXPECT_EQ(f[0], 3.0f);
  EXPECT_EQ(arrays.at("c").elements(), 1u);
}

TEST(Safetensors, OffsetsCoverTheDataExactly) {
  EXPECT_FALSE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xyz"));  // bytes left over
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xyz"));  // a hole
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x"));    // beyond the end
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[2,0]}})", "xy"));   // backwards
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                          "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                      "xyz"));                                                             // an overlap
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}})", "xy"));  // not the shape
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615]}})", "xy"));
}

TEST(Safetensors, ShapesThatWrapAroundAreRefused) {
  EXPECT_TRUE(
      refused(R"({"a":{"dtype":"F32","shape":[4194305,4194305,211106198978564],"data_offsets":[0,4]}})", "abcd"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", "abcd"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})", "abcd"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"));
}

TEST(Safetensors, HeadersAreStrictJson) {
  EXPECT_FALSE(refused("{}"));
  for (auto* header :
       {"", " {}", "[]", "{", "{}x", R"({"a":{}})", R"({"a":{"dtype":"F32"}})", R"({"a":1})",
        R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})",
        R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[00],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
        R"({"__metadata__":{"a":1}})", "{\"a\n\":{}}", R"({"a\x":{}})", R"({"a\u12":{}})"})
    EXPECT_TRUE(refused(header)) << header;
}

TEST(Safetensors, HeaderLengthsAreChecked) {
  Arrays arrays;
  EXPECT_FALSE(parse("", arrays).ok());
  EXPECT_FALSE(parse(std::string(7, '\0'), arrays).ok());
  EXPECT_FALSE(parse(std::string(8, '\xff') + "{}", arrays).ok());
  EXPECT_FALSE(parse(std::string("\x03\0\0\0\0\0\0\0{}", 10), arrays).ok());
}

TEST(Safetensors, RanksHaveALimit) {
  auto ranked = [](int rank) {
    std::string shape;
    for (int i = 0; i < rank; ++i) shape += i ? ",1" : "1";
    Arrays arrays;
    return parse(file(R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", "x"), arrays).ok();
  };
  EXPECT_TRUE(ranked(8));
  EXPECT_FALSE(ranked(9));
  Arrays arrays;
  EXPECT_FALSE(parse(file(std::string(1'000'000, '{'), ""), arrays).ok());
}

TEST(Safetensors, TimeIsInProportionToTheArrays) {
  auto work = [](size_t n) {
    std::string header = "{", data(n, 'x');
    for (size_t i = 0; i < n; ++i)
      header += (i ? ",\"a" : "\"a") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                std::to_string(i) + "," + std::to_string(i + 1) + "]}";
    Arrays arrays;
    EXPECT_TRUE(parse(file(header + "}", data), arrays).ok());
  };
  EXPECT_LE(support::growth(5000, work), 2.5);
}

TEST(Safetensors, NamesAreUniqueAcrossFiles) {
  Arrays arrays;
  std::string text = file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  EXPECT_TRUE(parse(text, arrays).ok());
  EXPECT_FALSE(parse(text, arrays).ok());
  EXPECT_EQ(arrays.size(), 1u);
}

TEST(HalfFloats, AreWhatTheirBitsSay) {
  EXPECT_EQ(msg::fp16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(msg::fp16_to_float(0x83ff), -0x1.ff8p-15f);
  EXPECT_EQ(msg::fp16_to_float(0x7bff), 65504.0f);
  EXPECT_TRUE(msg::fp16_to_float(0x7c01) != msg::fp16_to_float(0x7c01));
  EXPECT_EQ(msg::bf16_from(1.00390625f), 0x3f80);  // a tie goes to the even one
  EXPECT_EQ(msg::bf16_from(1.01171875f), 0x3f82);
  EXPECT_TRUE(msg::bf16_to_float(msg::bf16_from(NAN)) != msg::bf16_to_float(msg::bf16_from(NAN)));
}

TEST(ModelFiles, LinksAndPathsAndFoldersAreRefused) {
  auto place = std::filesystem::temp_directory_path() / ("weir_llm_files_" + std::to_string(getpid()));
  std::filesystem::create_directories(place / "folder");
  std::ofstream(place / "plain") << "text";
  std::filesystem::create_symlink(place / "plain", place / "link");
  auto folder = Folder::open(place);
  ASSERT_TRUE(bool(folder));
  EXPECT_EQ(folder->read("plain", 100).value(), "text");
  EXPECT_FALSE(bool(folder->read("plain", 3)));
  for (auto* name : {"link", "folder", "../plain", "/etc/passwd", "", ".", ".hidden", "folder/../plain"}) {
    EXPECT_FALSE(bool(folder->read(name, 100))) << name;
    EXPECT_FALSE(bool(folder->map(name))) << name;
  }
  EXPECT_EQ(folder->read("none", 100).error().code, base::Code::kNotFound);
  EXPECT_EQ(folder->read_if_there("none", 100).value(), "");
  std::filesystem::remove_all(place);
}

TEST(ModelFiles, AFileThatIsCutShortWhileItIsReadFailsTheLoad) {
  auto place = std::filesystem::temp_directory_path() / ("weir_llm_cut_" + std::to_string(getpid()));
  std::filesystem::create_directories(place);
  std::ofstream(place / "model.safetensors", std::ios::binary)
      << file(R"({"a":{"dtype":"F32","shape":[65536],"data_offsets":[0,262144]}})", std::string(262144, '\1'));
  auto store = Store::open(*Folder::open(place));
  ASSERT_TRUE(bool(store)) << store.error().text;
  EXPECT_TRUE(bool(store->floats("a", {65536})));
  EXPECT_TRUE(store->intact().ok());
  std::filesystem::resize_file(place / "model.safetensors", 4096);
  auto cut = store->floats("a", {65536});
  ASSERT_FALSE(bool(cut));
  EXPECT_EQ(cut.error().code, base::Code::kUnavailable);
  EXPECT_EQ(cut.error().text, "'model.safetensors' changed while it was read, or cannot be read");
  std::filesystem::remove_all(place);
}

TEST(ModelFiles, NothingMoreIsReadOfAModelThatNobodyWants) {
  auto place = std::filesystem::temp_directory_path() / ("weir_llm_end_" + std::to_string(getpid()));
  std::filesystem::create_directories(place);
  std::ofstream(place / "model.safetensors", std::ios::binary)
      << file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string(4, '\1'));
  bool wanted = true;
  auto store = Store::open(*Folder::open(place), [&] { return wanted; });
  ASSERT_TRUE(bool(store)) << store.error().text;
  EXPECT_TRUE(bool(store->floats("a", {1})));
  wanted = false;
  auto late = store->floats("a", {1});
  ASSERT_FALSE(bool(late));
  EXPECT_EQ(late.error().code, base::Code::kUnavailable);
  std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace weir::llm
