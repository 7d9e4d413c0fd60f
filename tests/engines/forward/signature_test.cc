#include "engines/forward/signature.h"

#include <gtest/gtest.h>

namespace weir::forward {
namespace {

msg::ModelSpec model(uint32_t max_batch = 8) {
  msg::ModelSpec spec;
  spec.max_batch = max_batch;
  spec.inputs = {{"x", msg::DType::kFp32, {2, -1}, false, {}}};
  spec.outputs = {{"y", msg::DType::kInt64, {3}, false, {}}};
  return spec;
}
std::string why(const msg::ModelSpec& here, const msg::ModelSpec& there) { return same_signature(here, there).text; }

TEST(ForwardSignature, TheSameModelIsTheSame) {
  EXPECT_EQ(why(model(), model()), "");
  EXPECT_EQ(why(model(), model(16)), "");
  auto fixed = model();
  fixed.inputs[0].shape = {2, 5};
  EXPECT_EQ(why(model(), fixed), "") << "any dimension may stand for one";
  // Whoever tells no batch has it in its shapes.
  auto whole = model(0);
  whole.inputs[0].shape = {-1, 2, -1}, whole.outputs[0].shape = {-1, 3};
  EXPECT_EQ(why(model(), whole), "");
}

TEST(ForwardSignature, WhatDiffersIsSaid) {
  auto there = model();
  there.inputs[0].name = "z";
  EXPECT_EQ(why(model(), there), "it has no input 'x'");
  there = model();
  there.outputs[0].dtype = msg::DType::kInt32;
  EXPECT_EQ(why(model(), there), "its output 'y' is of another type");
  there = model();
  there.outputs[0].shape = {4};
  EXPECT_EQ(why(model(), there), "its output 'y' has shape [-1,4], the one here [-1,3]");
  there = model();
  there.outputs.push_back(there.outputs[0]);
  EXPECT_NE(why(model(), there), "");
  EXPECT_NE(why(model(), model(4)), "") << "batches of eight are refused there";
  there = model();
  there.decoupled = true;
  EXPECT_NE(why(model(), there), "");
}

TEST(ForwardSignature, TextsNeedTheSameVocabularyAndRoom) {
  auto spec = [](uint32_t vocabulary, uint32_t length) {
    auto text = std::make_shared<msg::TextSpec>();
    text->vocabulary = vocabulary, text->max_length = length;
    msg::ModelSpec out;
    out.text = std::move(text);
    return out;
  };
  EXPECT_EQ(why(spec(100, 50), spec(100, 60)), "");
  EXPECT_NE(why(spec(100, 50), spec(101, 60)), "");
  EXPECT_NE(why(spec(100, 50), spec(100, 40)), "");
  EXPECT_NE(why(spec(100, 50), model()), "");
}

}  // namespace
}  // namespace weir::forward
