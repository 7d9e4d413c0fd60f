#include "sched/staging.h"

#include <gtest/gtest.h>

#include "calls.h"
#include "sched/fit.h"

namespace weir::sched {
namespace {

using base::Code;

struct NoSlabs final : base::SlabSource {
  base::Slab* take(size_t) override { return nullptr; }
};

// Calls of 1, 2 and 3 rows, with values 1, 2 and 3.
struct Three {
  Three() {
    for (uint32_t i = 0; i < 3; ++i) fill(calls[i], i + 1, float(i + 1)), batch.calls.push_back(&calls[i]);
  }
  // Outputs of the next call, or the code of its failure.
  std::string next(Split& split) {
    outputs.clear();
    auto status = split.next(outputs);
    if (!status.ok()) return std::string(base::name(status.code));
    std::string text;
    for (const auto& t : outputs) {
      text += t.name + t.shape.text();
      for (float v : floats_of(t)) text += " " + std::to_string(int(v));
    }
    return text;
  }
  msg::Call calls[3];
  Batch batch;
  msg::ModelSpec spec = spec_of(8);
  std::vector<msg::Tensor> outputs;
  std::vector<Split::Part> scratch;
};

TEST(Stage, ASingleCallIsNotCopied) {
  msg::Call call;
  fill(call, 2, 7);
  Batch batch;
  batch.calls = {&call};
  NoSlabs none;
  ASSERT_TRUE(stage(batch, spec_of(8), none));
  EXPECT_EQ(batch.rows, 2u);
  EXPECT_EQ(batch.inputs[0].data.data(), call.inputs[0].data.data());
}

TEST(Stage, RowsOfSeveralCallsLieSideBySide) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  EXPECT_EQ(t.batch.rows, 6u);
  EXPECT_EQ(t.batch.inputs[0].shape, (msg::Shape{6, 2}));
  EXPECT_EQ(floats_of(t.batch.inputs[0]), (std::vector<float>{1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3}));
}

// Takes rows of at least so many bytes where they lie.
class Taker final : public Engine {
 public:
  explicit Taker(size_t least) : least_(least) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch&) override { return {}; }
  bool takes_rows(const msg::Tensor& rows) const override { return rows.data.size() >= least_; }

 private:
  const size_t least_;
  const msg::ModelSpec spec_;
};

TEST(Stage, RowsThatTheEngineTakesWhereTheyLieAreNotCopied) {
  Three t;
  NoSlabs none;
  const Taker any(1);
  ASSERT_TRUE(stage(t.batch, t.spec, none, Gather::kInputs, &any));
  EXPECT_EQ(t.batch.inputs[0].shape, (msg::Shape{6, 2}));
  EXPECT_TRUE(t.batch.inputs[0].data.empty());
  EXPECT_EQ(t.batch.input_bytes(0), 6 * 2 * sizeof(float));
  ASSERT_EQ(t.batch.apart[0].rows.size(), 3u);
  EXPECT_EQ(t.batch.apart[0].rows[2], t.calls[2].inputs.data());
}

TEST(Stage, OneCallWhoseRowsAreNotTakenMakesAllOfThemBeCopied) {
  Three t;
  const Taker large(2 * 2 * sizeof(float));  // the first call has one row
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap(), Gather::kInputs, &large));
  EXPECT_EQ(floats_of(t.batch.inputs[0]), (std::vector<float>{1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(t.batch.apart[0].bytes, 0u);
  EXPECT_EQ(t.batch.input_bytes(0), 6 * 2 * sizeof(float));
}

TEST(Stage, WithoutMemoryItSaysSoAndSpoilsNothing) {
  Three t;
  NoSlabs none;
  EXPECT_FALSE(stage(t.batch, t.spec, none));
  t.batch.calls = {&t.calls[1]};
  EXPECT_TRUE(stage(t.batch, t.spec, none));
  EXPECT_EQ(floats_of(t.batch.inputs[0]), (std::vector<float>{2, 2, 2, 2}));
}

TEST(Stage, AbsentOptionalInputsAreInvalidTensors) {
  Three t;
  t.spec.inputs.push_back({"mask", msg::DType::kFp32, {1}, true, {}});
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  ASSERT_EQ(t.batch.inputs.size(), 2u);
  EXPECT_EQ(t.batch.inputs[1].dtype, msg::DType::kInvalid);
}

TEST(Stage, InputsComeInTheOrderOfTheSpec) {
  Three t;
  t.spec.inputs.insert(t.spec.inputs.begin(), {"a", msg::DType::kFp32, {1}, false, {}});
  for (auto& call : t.calls)
    call.inputs.push_back(floats("a", {int64_t(call.rows), 1}, std::vector<float>(call.rows, float(call.rows * 10))));
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  EXPECT_EQ(floats_of(t.batch.inputs[0]), (std::vector<float>{10, 20, 20, 30, 30, 30}));
}

TEST(Stage, StringsAreJoinedAsTheyAre) {
  msg::Call a, b;
  a.inputs.push_back(strings("x", {1, 2}, {"one", ""})), b.inputs.push_back(strings("x", {1, 2}, {"", "four"}));
  msg::ModelSpec spec = spec_of(4);
  spec.inputs[0].dtype = msg::DType::kBytes;
  Batch batch;
  batch.calls = {&a, &b};
  ASSERT_TRUE(stage(batch, spec, base::heap()));
  EXPECT_EQ(batch.inputs[0].data.view(), strings("x", {}, {"one", "", "", "four"}).data.view());
}

TEST(Stage, WantedIsWhatAnyCallWants) {
  Three t;
  t.spec.outputs.push_back({"z", msg::DType::kFp32, {1}, false, {}});
  t.spec.outputs.push_back({"q", msg::DType::kFp32, {1}, false, {}});
  for (auto& call : t.calls) call.outputs = {"y"};
  t.calls[1].outputs = {"q", "y"};
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  EXPECT_EQ(t.batch.wanted, (std::vector<bool>{true, false, true}));
  t.calls[2].outputs = {};
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  EXPECT_TRUE(t.batch.wanted.empty()) << "all of them";
}

TEST(Split, EachCallGetsItsOwnRowsWithoutACopy) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {t.batch.inputs[0]};
  t.batch.outputs[0].name = "y";
  Split split(t.batch, t.spec, t.scratch);
  EXPECT_EQ(t.next(split), "y[1,2] 1 1");
  EXPECT_EQ(t.outputs[0].data.data(), t.batch.outputs[0].data.data());
  EXPECT_EQ(t.next(split), "y[2,2] 2 2 2 2");
  EXPECT_EQ(t.next(split), "y[3,2] 3 3 3 3 3 3");
}

TEST(Split, OutputsComeInTheOrderInWhichACallAsksForThem) {
  Three t;
  t.spec.outputs.push_back({"z", msg::DType::kFp32, {1}, false, {}});
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {t.batch.inputs[0], floats("", {6, 1}, {9, 8, 8, 7, 7, 7})};
  t.batch.outputs[0].name = "y";
  t.calls[1].outputs = {"z", "y"};
  t.calls[2].outputs = {"z"};
  Split split(t.batch, t.spec, t.scratch);
  EXPECT_EQ(t.next(split), "y[1,2] 1 1z[1,1] 9");
  EXPECT_EQ(t.next(split), "z[2,1] 8 8y[2,2] 2 2 2 2");
  EXPECT_EQ(t.next(split), "z[3,1] 7 7 7");
}

TEST(Split, StringsAreWalkedToTheirRows) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {strings("y", {6, 1}, {"a", "", "bb", "c", "d", "eee"})};
  Split split(t.batch, t.spec, t.scratch);
  for (auto expected : {std::vector<std::string>{"a"}, {"", "bb"}, {"c", "d", "eee"}}) {
    t.outputs.clear();
    ASSERT_TRUE(split.next(t.outputs).ok());
    std::vector<std::string> got;
    ASSERT_TRUE(msg::for_each_string(t.outputs[0].data.view(), [&](std::string_view s) { got.emplace_back(s); }));
    EXPECT_EQ(got, expected);
  }
}

TEST(Split, OutputsWhoseBytesDoNotAddUpFailTheWholeBatch) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  for (auto output :
       {floats("y", {6, 2}, std::vector<float>(11)), floats("y", {6, 2}, std::vector<float>(13)),
        strings("y", {6, 1}, {"a", "b", "c", "d", "e"}), strings("y", {6}, {"a", "", "", "", "", "", ""})}) {
    t.batch.outputs = {output};
    Split split(t.batch, t.spec, t.scratch);
    EXPECT_EQ(split.status().code, Code::kInternal);
  }
}

TEST(Split, OutputsThatCannotBeToldApartFailTheWholeBatch) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  for (msg::Shape shape : {msg::Shape{}, msg::Shape{5, 2}, msg::Shape{7, 2}, msg::Shape{-6, 2}, msg::Shape{6, -2},
                           msg::Shape{6, INT64_MAX}}) {
    t.batch.outputs = {floats("y", {6, 2}, std::vector<float>(12))};
    t.batch.outputs[0].shape = shape;
    Split split(t.batch, t.spec, t.scratch);
    EXPECT_EQ(split.status().code, Code::kInternal) << shape.text();
  }
}

TEST(Split, AnElementCountThatOverflowsIsNotReadPastTheEnd) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {floats("y", {6, INT64_MAX / 6}, std::vector<float>(12))};
  Split split(t.batch, t.spec, t.scratch);
  EXPECT_EQ(t.next(split), "INTERNAL");
}

TEST(Split, AMissingOutputIsInternal) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {};
  Split split(t.batch, t.spec, t.scratch);
  EXPECT_EQ(t.next(split), "INTERNAL");
}

TEST(Split, AFailureOfOneCallLeavesTheOthersTheirRows) {
  Three t;
  ASSERT_TRUE(stage(t.batch, t.spec, base::heap()));
  t.batch.outputs = {t.batch.inputs[0]};
  t.batch.failures = {{}, base::invalid("not this one"), {}};
  Split split(t.batch, t.spec, t.scratch);
  EXPECT_EQ(t.next(split), "x[1,2] 1 1");
  EXPECT_EQ(t.next(split), "INVALID_ARGUMENT");
  EXPECT_EQ(t.next(split), "x[3,2] 3 3 3 3 3 3");
}

TEST(MoveOutputs, AreThoseOfACallAloneThatWantsAllAndGetsThemRight) {
  msg::Call call, other;
  fill(call, 2), fill(other, 2);
  auto spec = spec_of(8);
  Batch batch;
  batch.calls = {&call};
  ASSERT_TRUE(stage(batch, spec, base::heap()));
  const auto good = floats("", {2, 2}, {1, 2, 3, 4});
  auto moves = [&](const std::vector<msg::Tensor>& made) {
    batch.outputs = made;
    std::vector<msg::Tensor> outputs;
    const bool moved = move_outputs(batch, spec, outputs);
    EXPECT_EQ(batch.outputs.size(), moved ? 0 : made.size()) << "or nothing has happened";
    EXPECT_EQ(outputs.size(), moved ? made.size() : 0);
    EXPECT_TRUE(!moved || outputs[0].name == spec.outputs[0].name) << "it has none of its own";
    return moved;
  };
  EXPECT_TRUE(moves({good}));
  EXPECT_FALSE(moves({})) << "one is missing";
  EXPECT_FALSE(moves({msg::Tensor{}})) << "the same, with a place for it";
  EXPECT_FALSE(moves({floats("", {2, 2}, {1, 2, 3})})) << "too few bytes";
  EXPECT_FALSE(moves({floats("", {2, 2}, {1, 2, 3, 4, 5})})) << "too many";
  EXPECT_FALSE(moves({floats("", {4, 1}, {1, 2, 3, 4})})) << "other rows";
  EXPECT_FALSE(moves({floats("", {}, {1})})) << "no rows";
  EXPECT_FALSE(moves({floats("", {2, -2}, {1, 2, 3, 4})}));
  call.outputs = {"y"};
  EXPECT_FALSE(moves({good})) << "those that are asked for are picked";
  call.outputs.clear();
  batch.failures = {base::invalid("not this one")};
  EXPECT_FALSE(moves({good}));
  batch.failures.clear();
  batch.calls = {&call, &other};
  EXPECT_FALSE(moves({good})) << "of two calls nobody gets all";
}

TEST(Split, ASingleAnswerOfTheWrongLengthIsInternal) {
  msg::Call call;
  fill(call, 2);
  auto spec = spec_of(8);
  std::vector<Split::Part> scratch;
  Batch batch;
  batch.calls = {&call};
  ASSERT_TRUE(stage(batch, spec, base::heap()));
  for (size_t n : {size_t(3), size_t(5)}) {
    batch.outputs = {floats("y", {2, 2}, std::vector<float>(n))};
    Split split(batch, spec, scratch);
    std::vector<msg::Tensor> outputs;
    EXPECT_EQ(split.next(outputs).code, Code::kInternal);
  }
}

struct FitCase {
  const char* what;
  std::function<void(msg::Call&)> spoil;
  const char* text;
};

TEST(Fit, WhatDoesNotFitIsRefusedByName) {
  auto spec = spec_of(4);
  spec.inputs.push_back({"s", msg::DType::kBytes, {-1}, true, {}});
  const FitCase cases[] = {
      {"rows", [](auto& c) { fill(c, 5); }, "the request has a batch of 5; model 'm' takes 1 to 4"},
      {"no rows", [](auto& c) { c.rows = 0; }, "the request has a batch of 0; model 'm' takes 1 to 4"},
      {"datatype", [](auto& c) { c.inputs[0].dtype = msg::DType::kInt32; },
       "input 'x' of model 'm' has datatype INT32, expected FP32"},
      {"shape",
       [](auto& c) {
         c.inputs[0].shape = {1, 3};
       },
       "input 'x' of model 'm' has shape [1,3], expected [-1,2]"},
      {"rank", [](auto& c) { c.inputs[0].shape = {2}; }, "input 'x' of model 'm' has shape [2], expected [-1,2]"},
      {"scalar", [](auto& c) { c.inputs[0].shape = {}; }, "input 'x' of model 'm' has shape [], expected [-1,2]"},
      {"bytes", [](auto& c) { c.inputs[0].data = c.inputs[0].data.slice(0, 7); },
       "input 'x' of model 'm' has 7 bytes, expected 8 for shape [1,2]"},
      {"other rows",
       [](auto& c) {
         c.inputs.push_back(strings("s", {2, 1}, {"a", "b"}));
       },
       "input 's' of model 'm' has 2 rows, the request's others have 1"},
      {"strings",
       [](auto& c) {
         c.inputs.push_back(strings("s", {1, 1}, {"a", "b"}));
       },
       "input 's' of model 'm' does not hold the 1 strings that its shape [1,1] asks for"},
  };
  for (const auto& c : cases) {
    msg::Call call;
    fill(call, 1);
    ASSERT_TRUE(tensors_fit(call, spec).ok());
    c.spoil(call);
    auto status = tensors_fit(call, spec);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << c.what;
    EXPECT_EQ(status.text, c.text);
  }
}

TEST(Fit, ModelsThatTakeAnyTensorsAreNotChecked) {
  auto spec = spec_of(0);
  spec.any_tensors = true;
  msg::Call call;
  call.inputs.push_back(floats("whatever", {3}, {1, 2, 3}));
  EXPECT_TRUE(tensors_fit(call, spec).ok());
}

}  // namespace
}  // namespace weir::sched
