#include "sched/reshaped_engine.h"

#include <gtest/gtest.h>

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

TEST(ReshapedEngine, ATensorThatIsNotThereIsRefused) {
  Shape seen;
  auto engine = make_reshaped(std::make_unique<Scalars>(seen), {{"z", {1}, {}}}, {});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::sched
