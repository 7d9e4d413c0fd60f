#include "app/infer_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "msg/tensor.h"

namespace weir::app {
namespace {

using Shape = std::vector<int64_t>;

const WantedInput kNumbers{"x", "INT32", {-1, 3}}, kImage{"image", "FP32", {-1, 3, 2, 2}}, kText{"t", "BYTES", {-1, 1}};

// "[2,3] 24 bytes", or the error.
std::string made(const std::string& text, const WantedInput& wanted) {
  auto given = read_input(text, {wanted});
  if (!given) return given.error().text;
  auto input = make_input(*given, wanted);
  if (!input) return input.error().text;
  return input->head["shape"].dump() + ' ' + std::to_string(input->blob.size()) + " bytes";
}

InferInput input_of(const std::string& text, const WantedInput& wanted) {
  auto given = read_input(text, {wanted});
  auto input = make_input(*given, wanted);
  EXPECT_TRUE(input) << input.error().text;
  return *input;
}

template <class T>
std::vector<T> values(const InferInput& input) {
  std::vector<T> out(input.blob.size() / sizeof(T));
  std::memcpy(out.data(), input.blob.data(), out.size() * sizeof(T));
  return out;
}

TEST(InferInput, AShapeStandsBehindAColonAndIsElseTheModels) {
  EXPECT_EQ(made("x=zeros", kNumbers), "[1,3] 12 bytes");
  EXPECT_EQ(made("x:4,3=ones", kNumbers), "[4,3] 48 bytes");
  EXPECT_EQ(made("x:2x3=random", kNumbers), "[2,3] 24 bytes");
  EXPECT_EQ(values<int32_t>(input_of("x:1,3=ones", kNumbers)), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(input_of("x=random", kNumbers).blob, input_of("x=random", kNumbers).blob) << "the same each time";
  for (int32_t value : values<int32_t>(input_of("x:100,3=random", kNumbers))) EXPECT_TRUE(value >= 0 && value < 100);
  for (float value : values<float>(input_of("image=random", kImage))) EXPECT_TRUE(value >= 0 && value < 1);
}

TEST(InferInput, NamesMayHaveColons) {
  EXPECT_EQ(made("images:0=zeros", {"images:0", "FP32", {2}}), "[2] 8 bytes");
  EXPECT_EQ(made("images:0:3=zeros", {"images:0", "FP32", {-1}}), "[3] 12 bytes");
}

TEST(InferInput, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(made("x", kNumbers), "input 'x': expected NAME=VALUE or NAME:SHAPE=VALUE");
  for (const char* shape : {"", "a", "1,", "1,,2", "-1", "9999999999,9999999999", "1,3x"})
    EXPECT_NE(made("x:" + std::string(shape) + "=zeros", kNumbers).find("expected a shape behind the colon"),
              std::string::npos)
        << shape;
  EXPECT_EQ(made("x=word", kNumbers),
            "input 'x': 'word' is none of: numbers as JSON ([1,2,3]), zeros, ones, random, @file.npy, @picture.jpg");
  EXPECT_EQ(made("x=@/no/such/file", kNumbers), "input 'x': cannot read '/no/such/file'");
}

TEST(InferInput, WordsAndFilesAreBytes) {
  const std::string path = testing::TempDir() + "weir-infer-input-" + std::to_string(::getpid());
  std::ofstream(path) << "hello";
  EXPECT_EQ(input_of("t=@" + path, kText).blob, std::string("\5\0\0\0hello", 9));
  EXPECT_EQ(made("t=@" + path, kText), "[1,1] 9 bytes");
  EXPECT_EQ(input_of("t=word", kText).head["data"].dump(), "[\"word\"]");
  EXPECT_NE(made("x=@" + path, kNumbers).find("is neither a .npy file nor a picture (PNG, JPEG, WebP)"),
            std::string::npos);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace weir::app
