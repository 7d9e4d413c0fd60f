// The demo models of conf/models, as their configurations describe them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support.h"

namespace weir::onnx {
namespace {

using msg::DType;
using testing::Each;

class OnnxDemo : public WithRuntime {
 protected:
  std::unique_ptr<sched::Engine> demo(const std::string& name, uint32_t max_batch) {
    msg::ModelSpec wanted;
    wanted.name = name, wanted.version = "1", wanted.max_batch = max_batch;
    auto engine = load_file(demo_model(name + "/1/model.onnx"), wanted);
    EXPECT_TRUE(engine.has_value()) << engine.error().text;
    return engine ? std::move(*engine) : nullptr;
  }
};

TEST_F(OnnxDemo, DigitsAreRightInNinetySevenOfAHundred) {
  auto held = nlohmann::json::parse(slurp(demo_model("digits/heldout.json")));
  auto engine = demo("digits", 64);
  ASSERT_EQ(engine->spec().inputs[0].shape, (msg::Shape{64}));
  size_t rows = held["labels"].size(), right = 0;
  ASSERT_GE(rows, 359u);
  for (size_t from = 0; from < rows; from += 64) {
    auto n = uint32_t(std::min<size_t>(64, rows - from));
    std::vector<float> pixels;
    for (size_t i = from; i < from + n; ++i)
      for (float p : held["images"][i]) pixels.push_back(p);
    auto step = batch(n, {floats("image", {n, 64}, pixels)});
    ASSERT_EQ(engine->step(step), base::Status());
    ASSERT_EQ(step.outputs[0].shape, (msg::Shape{n, 10}));
    auto p = values(step.outputs[0]);
    for (size_t i = 0; i < n; ++i) {
      auto row = p.begin() + long(i) * 10;
      right += size_t(std::max_element(row, row + 10) - row) == held["labels"][from + i].get<size_t>();
    }
  }
  EXPECT_GE(double(right), 0.97 * double(rows)) << right << " of " << rows;
}

TEST_F(OnnxDemo, ARowsAnswerDoesNotDependOnItsBatch) {
  auto held = nlohmann::json::parse(slurp(demo_model("digits/heldout.json")));
  auto engine = demo("digits", 64);
  std::vector<float> pixels, together;
  for (size_t i = 0; i < 16; ++i)
    for (float p : held["images"][i]) pixels.push_back(p);
  auto all = batch(16, {floats("image", {16, 64}, pixels)});
  ASSERT_EQ(engine->step(all), base::Status());
  together = values(all.outputs[0]);
  for (size_t i = 0; i < 16; ++i) {
    std::vector<float> row(pixels.begin() + long(i) * 64, pixels.begin() + long(i + 1) * 64);
    auto alone = batch(1, {floats("image", {1, 64}, row)});
    ASSERT_EQ(engine->step(alone), base::Status());
    auto p = values(alone.outputs[0]);
    for (size_t k = 0; k < 10; ++k) EXPECT_NEAR(p[k], together[i * 10 + k], 1e-5);
  }
}

template <class T>
void expect_sum_and_difference(sched::Engine& engine, DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  sched::Batch step;
  step.rows = 1;
  step.inputs = {tensor("INPUT0", dtype, {1, 16}, a), tensor("INPUT1", dtype, {1, 16}, b)};
  ASSERT_EQ(engine.step(step), base::Status());
  auto sum = values<T>(step.outputs[0]), difference = values<T>(step.outputs[1]);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(sum[i], T(a[i] + b[i]));
    EXPECT_EQ(difference[i], T(a[i] - b[i]));
  }
}

TEST_F(OnnxDemo, SimpleModelsAddAndSubtract) {
  std::vector<int32_t> a(16), b(16, 1);
  for (size_t i = 0; i < 16; ++i) a[i] = int32_t(i);
  expect_sum_and_difference<int32_t>(*demo("simple", 8), DType::kInt32, a, b);
  std::vector<int8_t> c(a.begin(), a.end()), d(16, 120);
  expect_sum_and_difference<int8_t>(*demo("simple_int8", 8), DType::kInt8, c, d);
}

TEST_F(OnnxDemo, SimpleStringAddsDecimalTexts) {
  auto engine = demo("simple_string", 8);
  std::vector<std::string> a, b(16, "1");
  for (int i = 0; i < 16; ++i) a.push_back(std::to_string(i));
  auto step = batch(1, {strings("INPUT0", {1, 16}, a), strings("INPUT1", {1, 16}, b)});
  ASSERT_EQ(engine->step(step), base::Status());
  auto sum = texts(step.outputs[0]), difference = texts(step.outputs[1]);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(sum[size_t(i)], std::to_string(i + 1));
    EXPECT_EQ(difference[size_t(i)], std::to_string(i - 1));
  }
  auto words =
      batch(1, {strings("INPUT0", {1, 16}, std::vector<std::string>(16, "seven")), strings("INPUT1", {1, 16}, b)});
  EXPECT_FALSE(engine->step(words).ok()) << "a word is no number";
}

TEST_F(OnnxDemo, SimpleIdentityReturnsItsTexts) {
  auto engine = demo("simple_identity", 8);
  std::vector<std::string> words(32, "weir");
  auto step = batch(2, {strings("INPUT0", {2, 16}, words)});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_THAT(texts(step.outputs[0]), Each("weir"));
}

}  // namespace
}  // namespace weir::onnx
