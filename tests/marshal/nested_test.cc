// Tensors as nested arrays of JSON.
#include "marshal/json_nested.h"

#include <gtest/gtest.h>

namespace weir::marshal {
namespace {

using msg::DType;
using msg::Shape;

msg::Tensor bytes_tensor(Shape shape, const std::vector<std::string>& elements) {
  std::string data;
  for (const auto& each : elements) msg::append_string(data, each);
  return {"x", DType::kBytes, shape, base::Bytes::copy_of(data)};
}
msg::Tensor small_tensor(Shape shape, size_t elements) {
  std::string data;
  for (size_t i = 0; i < elements; ++i) data += char(i);
  return {"x", DType::kUint8, shape, base::Bytes::copy_of(data)};
}
std::string written(const msg::Tensor& tensor, NestedStyle style = {}) {
  std::string out;
  write_nested(out, tensor, style);
  EXPECT_LE(out.size(), most_nested(tensor));
  return out;
}

TEST(NestedJson, NestsAsTheShapeSays) {
  EXPECT_EQ(written(small_tensor({}, 1)), "0");
  EXPECT_EQ(written(small_tensor({3}, 3)), "[0,1,2]");
  EXPECT_EQ(written(small_tensor({2, 3}, 6)), "[[0,1,2],[3,4,5]]");
  EXPECT_EQ(written(small_tensor({2, 1, 2}, 4)), "[[[0,1]],[[2,3]]]");
  EXPECT_EQ(written(small_tensor({2, 0}, 0)), "[[],[]]");
  EXPECT_EQ(written(small_tensor({0, 2}, 0)), "[]");
}

TEST(NestedJson, NoTextIsLongerThanWhatIsForetoldThoughItsArraysAreEmpty) {
  for (Shape shape : {Shape{65'536, 0}, Shape{256, 256, 0, 7}, Shape{1, 1, 1, 1}, Shape{4, 1, 1}}) {
    const size_t elements = *shape.elements();
    const auto tensor = small_tensor(shape, elements);
    EXPECT_LE(written(tensor).size(), most_nested(tensor));
    EXPECT_LE(most_nested(tensor), 4 * written(tensor).size() + 64) << "nor much shorter";
  }
}

TEST(NestedJson, ElementsOfTextAreStringsOrObjectsOfBase64) {
  auto tensor = bytes_tensor({2, 2}, {"a", "", "bcd", "e"});
  EXPECT_EQ(written(tensor), R"([["a",""],["bcd","e"]])");
  EXPECT_EQ(written(tensor, {BytesText::kBase64, Base64Form::kString}), R"([["YQ==",""],["YmNk","ZQ=="]])");
  EXPECT_EQ(written(tensor, {BytesText::kBase64, Base64Form::kObject}),
            R"([[{"b64":"YQ=="},{"b64":""}],[{"b64":"YmNk"},{"b64":"ZQ=="}]])");
  EXPECT_EQ(written(tensor, {BytesText::kUtf8, Base64Form::kObject}), R"([["a",""],["bcd","e"]])");
  EXPECT_EQ(written(bytes_tensor({0}, {}), {BytesText::kBase64, Base64Form::kObject}), "[]");
}

TEST(NestedJson, RowsAreWrittenOneByOne) {
  auto tensor = bytes_tensor({2, 2}, {"a", "bc", "d", ""});
  NestedRows rows(tensor, {});
  std::string first, second;
  rows.write(first), rows.write(second);
  EXPECT_EQ(first, R"(["a","bc"])");
  EXPECT_EQ(second, R"(["d",""])");
  auto flat = small_tensor({2}, 2);
  NestedRows cells(flat, {});
  std::string cell;
  cells.write(cell), cells.write(cell);
  EXPECT_EQ(cell, "01");
}

TEST(NestedJson, AShapeIsThatOfTheFirstElements) {
  auto measured = [](std::string_view text) -> std::string {
    JsonCursor json(text);
    Shape shape;
    return measure_nested(json, shape) ? shape.text() : "none";
  };
  EXPECT_EQ(measured("[]"), "[0]");
  EXPECT_EQ(measured("[1,2,3]"), "[3]");
  EXPECT_EQ(measured("[[1,2],[3,4],[5,6]]"), "[3,2]");
  EXPECT_EQ(measured("[[[]]]"), "[1,1,0]");
  EXPECT_EQ(measured("[1,[2]]"), "[2]") << "whether the others are like the first is for who reads them";
  EXPECT_EQ(measured("[1,"), "none");
  EXPECT_EQ(measured("[[1],"), "none");
  std::string deep;
  for (size_t i = 0; i < Shape::kMaxRank; ++i) deep = "[" + deep + "]";
  EXPECT_NE(measured(deep), "none");
  EXPECT_EQ(measured("[" + deep + "]"), "none") << "no shape has so many dimensions";
}

TEST(NestedJson, WhatIsForetoldOfEmptyArraysIsWhatTheyTake) {
  for (Shape shape : {Shape{65'536, 0}, Shape{1, 300, 0}, Shape{0}, Shape{1, 0}}) {
    const auto tensor = small_tensor(shape, 0);
    EXPECT_LE(most_nested(tensor) - written(tensor).size(), 8u) << shape.text();
  }
}

}  // namespace
}  // namespace weir::marshal
