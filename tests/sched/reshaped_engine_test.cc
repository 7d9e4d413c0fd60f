#include "sched/reshaped_engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "calls.h"

namespace weir::sched {
namespace {

using msg::Shape;

// y = x, of shape [batch]; keeps the shape that it was given.
class Scalars final : public Engine {
 public:
  explicit Scalars(Shape& seen) : seen_(seen), spec_(spec_of(8)) {
    spec_.inputs[0].shape = spec_.outputs[0].shape = {};
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    seen_ = batch.inputs[0].shape;
    batch.outputs = batch.inputs;
    return {};
  }

 private:
  Shape& seen_;
  msg::ModelSpec spec_;
};

// Reads the inputs of the calls, and answers each with its x as y.
class PerCall final : public Engine {
 public:
  PerCall() : spec_(spec_of(8, 4)) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  bool reads_calls() const override { return true; }
  base::Status step(Batch& batch) override {
    batch.answers.clear();
    for (const auto* call : batch.calls) {
      seen.push_back(call->inputs.at(0).shape);
      msg::Outputs outputs;
      outputs.tensors.push_back(call->inputs[0]);
      outputs.tensors[0].name = "y";
      outputs.parameters = {{"of", call->id}};
      if (shape) outputs.tensors[0].shape = *shape;
      batch.answers.emplace_back(std::move(outputs));
    }
    if (fails) return base::failure(base::Code::kInternal, "broke");
    batch.answers.back() = base::invalid("the last one fails alone");
    return {};
  }
  std::vector<Shape> seen;
  std::optional<Shape> shape;  // of each answer
  bool fails = false;

 private:
  msg::ModelSpec spec_;
};

TEST(Reshape, FreeDimensionsCorrespondInOrder) {
  EXPECT_EQ(reshape({5, 7, 2, 3}, 1, {-1, 2, 3}, {6, -1}), (Shape{5, 6, 7}));
  EXPECT_EQ(reshape({7, 9}, 0, {-1, -1}, {-1, 1, -1}), (Shape{7, 1, 9}));
  EXPECT_EQ(reshape({4, 1}, 1, {1}, {}), (Shape{4}));
  EXPECT_EQ(reshape({4}, 1, {}, {1, 1}), (Shape{4, 1, 1}));
  EXPECT_EQ(reshape({4, 2}, 1, {}, {1}), (Shape{4, 2})) << "not of the rank that it is to have";
}

TEST(Reshape, BothShapesHaveAsManyElementsBetweenFreeDimensions) {
  EXPECT_TRUE(can_reshape({1}, {}));
  EXPECT_TRUE(can_reshape({2, -1, 6}, {2, -1, 3, 2}));
  EXPECT_FALSE(can_reshape({2, -1}, {-1, 2}));
  EXPECT_FALSE(can_reshape({-1}, {4}));
  EXPECT_FALSE(can_reshape({4}, {5}));
  EXPECT_FALSE(can_reshape({-1, -1}, {-1}));
  EXPECT_TRUE(can_reshape({}, {}));
  EXPECT_FALSE(can_reshape({1LL << 40, 1LL << 40}, {1}));
}

TEST(ReshapedEngine, ClientsAndTheModelSeeShapesOfTheirOwn) {
  Shape seen;
  auto engine = make_reshaped(std::make_unique<Scalars>(seen), {{"x", {1}, {}}}, {{"y", {1}, {}}});
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_EQ((*engine)->spec().inputs[0].shape, (Shape{1}));
  EXPECT_EQ((*engine)->spec().outputs[0].shape, (Shape{1}));
  Batch batch;
  batch.inputs = {floats("x", {3, 1}, {1, 2, 3})};
  ASSERT_TRUE((*engine)->step(batch).ok());
  EXPECT_EQ(seen, (Shape{3}));
  EXPECT_EQ(batch.outputs[0].shape, (Shape{3, 1}));
  EXPECT_EQ(floats_of(batch.outputs[0]), (std::vector<float>{1, 2, 3}));
}

TEST(ReshapedEngine, AnEngineThatReadsTheCallsFindsItsOwnShapesThere) {
  auto made = std::make_unique<PerCall>();
  PerCall& inner = *made;
  auto engine = make_reshaped(std::move(made), {{"x", {2, 2}, {4}}}, {{"y", {2, 2}, {4}}});
  ASSERT_TRUE(engine) << engine.error().text;
  ASSERT_TRUE((*engine)->reads_calls());
  std::deque<msg::Call> calls(3);
  Batch batch;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto rows = int64_t(i) + 1;
    calls[i].id = std::to_string(i), calls[i].rows = uint32_t(rows);
    calls[i].inputs = {floats("x", {rows, 2, 2}, std::vector<float>(size_t(rows) * 4, float(i)))};
    batch.calls.push_back(&calls[i]);
  }
  ASSERT_TRUE((*engine)->step(batch).ok());
  EXPECT_EQ(inner.seen, (std::vector<Shape>{{1, 4}, {2, 4}, {3, 4}}));
  ASSERT_EQ(batch.answers.size(), 3u);
  EXPECT_EQ(batch.answers[1]->tensors.at(0).shape, (Shape{2, 2, 2}));
  EXPECT_EQ(std::get<std::string>(*msg::find(batch.answers[1]->parameters, "of")), "1");
  EXPECT_FALSE(batch.answers[2]);
  EXPECT_EQ(calls[1].inputs[0].shape, (Shape{2, 2, 2})) << "the Call is as it came";
  inner.fails = true;
  EXPECT_FALSE((*engine)->step(batch).ok());
  EXPECT_EQ(calls[1].inputs[0].shape, (Shape{2, 2, 2})) << "so that it may run again by itself";
}

// A Python model may give an output any shape: one of two elements must not be said to have four.
TEST(ReshapedEngine, AnAnswerOfAnotherShapeKeepsIt) {
  auto made = std::make_unique<PerCall>();
  PerCall& inner = *made;
  auto engine = make_reshaped(std::move(made), {}, {{"y", {2, 2}, {4}}});
  ASSERT_TRUE(engine) << engine.error().text;
  for (Shape shape : {Shape{1, 2}, Shape{2}, Shape{}, Shape{1, 4, 1}}) {
    inner.shape = shape;
    std::deque<msg::Call> calls(2);
    Batch batch;
    for (auto& call : calls) {
      call.inputs = {floats("x", shape, std::vector<float>(*shape.elements()))};
      batch.calls.push_back(&call);
    }
    ASSERT_TRUE((*engine)->step(batch).ok());
    EXPECT_EQ(batch.answers[0]->tensors.at(0).shape, shape);
  }
}

TEST(ReshapedEngine, ATensorThatIsNotThereIsRefused) {
  Shape seen;
  auto engine = make_reshaped(std::make_unique<Scalars>(seen), {{"z", {1}, {}}}, {});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::sched
