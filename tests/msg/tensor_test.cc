#include "msg/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "msg/call.h"
#include "msg/spec.h"

namespace weir::msg {
namespace {

TEST(DType, NamesGoBothWays) {
  for (int i = 1; i <= int(DType::kBf16); ++i) EXPECT_EQ(dtype_from_name(name(DType(i))), DType(i));
  EXPECT_EQ(dtype_from_name("FLOAT"), DType::kInvalid);
  EXPECT_EQ(dtype_from_name("INVALID"), DType::kInvalid);
  EXPECT_EQ(dtype_from_name(""), DType::kInvalid);
  EXPECT_EQ(size_of(DType::kBf16), 2u);
  EXPECT_EQ(size_of(DType::kFp64), 8u);
  EXPECT_EQ(size_of(DType::kBytes), 0u);
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24u);
  EXPECT_EQ((Shape{}).elements(), 1u) << "a scalar";
  EXPECT_EQ((Shape{5, 0}).elements(), 0u);
  EXPECT_EQ((Shape{-1, 2}).elements(), std::nullopt);
  EXPECT_EQ((Shape{0, -1}).elements(), std::nullopt);
}

TEST(Shape, AProductThatDoesNotFitIsNoNumber) {
  EXPECT_EQ((Shape{INT64_MAX}).elements(), uint64_t(INT64_MAX));
  EXPECT_EQ((Shape{INT64_MAX, 2}).elements(), std::nullopt);
  EXPECT_EQ((Shape{1 << 30, 1 << 30, 16}).elements(), std::nullopt);
  EXPECT_EQ((Shape{INT64_MIN}).elements(), std::nullopt);
}

TEST(Shape, HoldsSixteenDimensionsAndRefusesMore) {
  Shape shape;
  for (int64_t i = 0; i < 16; ++i) EXPECT_TRUE(shape.push(i));
  EXPECT_FALSE(shape.push(1));
  EXPECT_EQ(shape.rank(), 16u);
  EXPECT_EQ((Shape{1, 3, 224}).text(), "[1,3,224]");
  EXPECT_EQ(Shape{}.text(), "[]");
}

TEST(Shape, EqualShapesHaveEqualDimensions) {
  EXPECT_EQ((Shape{1, 2}), (Shape{1, 2}));
  EXPECT_NE((Shape{1, 2}), (Shape{1, 2, 1}));
  EXPECT_NE((Shape{1, 2}), (Shape{2, 1}));
}

TEST(Strings, AreWrittenAndWalked) {
  std::string data;
  append_string(data, "one"), append_string(data, ""), append_string(data, std::string_view("\0x", 2));
  EXPECT_EQ(data.size(), 4u * 3 + 5);
  std::vector<std::string> read;
  EXPECT_TRUE(for_each_string(data, [&](std::string_view s) { read.emplace_back(s); }));
  EXPECT_EQ(read, (std::vector<std::string>{"one", "", std::string("\0x", 2)}));
}

TEST(Strings, LengthsThatLieAreNoticed) {
  std::string data;
  append_string(data, "one");
  auto each = [](std::string_view) {};
  for (size_t n = 1; n < data.size(); ++n)
    EXPECT_FALSE(for_each_string(std::string_view(data).substr(0, n), each)) << n;
  EXPECT_TRUE(for_each_string("", each));
  EXPECT_FALSE(for_each_string(std::string(4, '\xff') + "abc", each));
}

TEST(Call, ClearedIsAsNew) {
  Call call;
  call.model = "m", call.priority = 3, call.rows = 9, call.cancelled = true, call.credit = 0;
  call.inputs.resize(2), call.outputs = {"y"}, call.parameters = {{"k", int64_t(1)}};
  call.deadline = {}, call.session = {1, 2};
  call.times.batch_rows = 4;
  call.clear();
  EXPECT_TRUE(call.model.empty() && call.inputs.empty() && call.outputs.empty() && call.parameters.empty());
  EXPECT_EQ(call.priority, 0u);
  EXPECT_EQ(call.rows, 1u);
  EXPECT_FALSE(call.cancelled);
  EXPECT_GT(call.credit, 0);
  EXPECT_EQ(call.deadline, base::kNever);
  EXPECT_FALSE(call.session);
  EXPECT_EQ(call.times.batch_rows, 0u);
}

TEST(Event, TheLastOneIsFinalOutputsDoneOrFailed) {
  EXPECT_TRUE((Event{Outputs{}}).last());
  EXPECT_FALSE((Event{Outputs{{}, {}, false}}).last());
  EXPECT_FALSE((Event{Token{}}).last());
  EXPECT_TRUE((Event{Done{}}).last());
  EXPECT_TRUE((Event{Failed{}}).last());
}

TEST(Parameters, AreFoundByName) {
  Parameters parameters{{"a", true}, {"b", std::string("x")}};
  ASSERT_NE(find(parameters, "b"), nullptr);
  EXPECT_EQ(std::get<std::string>(*find(parameters, "b")), "x");
  EXPECT_EQ(find(parameters, "c"), nullptr);
}

TEST(ModelSpec, ClientsSeeTheBatchDimension) {
  ModelSpec spec;
  spec.inputs = {{"x", DType::kFp32, {3}, false, {}}};
  EXPECT_EQ(spec.public_shape(spec.inputs[0]), (Shape{3}));
  spec.max_batch = 8;
  EXPECT_EQ(spec.public_shape(spec.inputs[0]), (Shape{-1, 3}));
  EXPECT_EQ(spec.input("x"), &spec.inputs[0]);
  EXPECT_EQ(spec.output("x"), nullptr);
}

}  // namespace
}  // namespace weir::msg
