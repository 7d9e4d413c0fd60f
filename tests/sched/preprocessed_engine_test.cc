#include "sched/preprocessed_engine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "calls.h"

namespace weir::sched {
namespace {

using images::Preprocessing;

std::string picture(const std::string& name) {
  std::ifstream in(WEIR_ROOT "/tests/fuzz/corpus/image/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// y = the first number of each row; keeps the shape that it was given.
class FirstPixels final : public Engine {
 public:
  FirstPixels(msg::Shape row, msg::DType dtype, msg::Shape& seen, uint32_t max_batch = 8)
      : seen_(seen), spec_(spec_of(max_batch, 1)) {
    spec_.inputs[0].shape = row, spec_.inputs[0].dtype = dtype;
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    seen_ = batch.inputs[0].shape;
    const auto values = floats_of(batch.inputs[0]);
    const size_t rows = size_t(seen_[0]);
    std::vector<float> first;
    for (size_t i = 0; i < rows; ++i) first.push_back(values[i * values.size() / rows]);
    batch.outputs = {floats("y", {int64_t(rows), 1}, first)};
    return {};
  }

 private:
  msg::Shape& seen_;
  msg::ModelSpec spec_;
};

struct PreprocessedTest : testing::Test {
  base::Status open(msg::Shape row, Preprocessing how = {}, msg::DType dtype = msg::DType::kFp32,
                    uint32_t max_batch = 8) {
    auto made = make_preprocessed(std::make_unique<FirstPixels>(row, dtype, seen, max_batch), "", how, base::heap());
    if (!made) return made.error();
    engine = std::move(*made);
    return {};
  }
  base::Status step(std::vector<std::string> pictures) {
    batch = {};
    calls.clear();
    const auto rows = int64_t(pictures.size());
    for (size_t i = 0; i < pictures.size(); ++i) batch.calls.push_back(&calls.emplace_back());
    batch.rows = uint32_t(rows);
    batch.inputs = {strings("x", {rows, 1}, std::move(pictures))};
    return engine->step(batch);
  }
  msg::Shape seen;
  std::unique_ptr<Engine> engine;
  std::deque<msg::Call> calls;
  Batch batch;
};

TEST_F(PreprocessedTest, ClientsSendPicturesAndTheModelGetsNumbers) {
  ASSERT_TRUE(open({3, 4, 6}).ok());
  EXPECT_EQ(engine->spec().inputs[0].dtype, msg::DType::kBytes);
  EXPECT_EQ(engine->spec().inputs[0].shape, (msg::Shape{1}));
  ASSERT_TRUE(step({picture("rgb.png"), picture("clear.png")}).ok());
  EXPECT_EQ(seen, (msg::Shape{2, 3, 4, 6})) << "pictures get the model's own sizes";
  EXPECT_NEAR(floats_of(batch.outputs[0])[1], 1, 0.01) << "what is transparent is white";
}

TEST_F(PreprocessedTest, OnePictureThatCannotBeReadFailsItsOwnCall) {
  ASSERT_TRUE(open({3, 2, 2}).ok());
  ASSERT_TRUE(step({picture("rgb.png"), "no picture", picture("truncated.png"), picture("rgb.webp")}).ok());
  ASSERT_EQ(batch.failures.size(), 4u);
  EXPECT_TRUE(batch.failures[0].ok() && batch.failures[3].ok());
  EXPECT_EQ(batch.failures[1].text, "the image is neither PNG nor JPEG nor WebP");
  EXPECT_FALSE(batch.failures[2].ok());
  EXPECT_EQ(step({"no picture"}).text, "the image is neither PNG nor JPEG nor WebP");
}

TEST_F(PreprocessedTest, AModelWithoutABatchTakesOnePicture) {
  ASSERT_TRUE(open({1, 3, -1, -1}, {}, msg::DType::kFp32, 0).ok());
  ASSERT_TRUE(step({picture("rgb.png")}).ok());
  EXPECT_EQ(seen, (msg::Shape{1, 3, 7, 5})) << "the picture keeps its sizes";
}

TEST_F(PreprocessedTest, WhatDoesNotFitTheModelIsToldAtLoading) {
  Preprocessing crop;
  crop.crop_width = crop.crop_height = 3;
  EXPECT_EQ(open({3, 4, 4}, crop).text, "preprocess: input 'x' takes 4 x 4 pixels, and the preprocessing makes 3 x 3");
  EXPECT_EQ(open({4, 4, 3}).text, "preprocess: input 'x' has 4 channels in layout NCHW, and the preprocessing makes 3");
  EXPECT_EQ(open({64}).text, "preprocess: input 'x' has shape [64]; three dimensions of one picture are expected");
  EXPECT_EQ(open({3, 4, 4}, {}, msg::DType::kInt64).text, "preprocess: input 'x' is INT64; FP32 or UINT8 is expected");
  EXPECT_NE(open({3, -1, -1}).text.find("those of a batch have one size"), std::string::npos);
}

}  // namespace
}  // namespace weir::sched
