#include "marshal/check_inputs.h"

#include <gtest/gtest.h>

namespace weir::marshal {
namespace {

using base::Status;
using msg::DType;
using msg::Shape;

msg::Tensor tensor(std::string name, DType dtype, Shape shape, size_t bytes) {
  return {std::move(name), dtype, shape, base::Bytes::adopt(std::string(bytes, '\0'))};
}

msg::ModelSpec batched() {
  msg::ModelSpec spec;
  spec.name = "m";
  spec.max_batch = 8;
  spec.inputs = {{"a", DType::kFp32, {4}, false, {}}, {"b", DType::kInt64, {-1}, true, {}}};
  spec.outputs = {{"y", DType::kFp32, {2}, false, {}}};
  return spec;
}

std::string refusal(const msg::ModelSpec& spec, std::vector<msg::Tensor> inputs,
                    std::vector<std::string> outputs = {}) {
  msg::Call call;
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  return check_call(spec, call).text;
}

TEST(Check, ProgramsReadWhichFieldItIs) {
  auto field = [](std::vector<msg::Tensor> inputs, std::vector<std::string> outputs = {}) {
    msg::Call call;
    call.inputs = std::move(inputs);
    call.outputs = std::move(outputs);
    auto details = check_call(batched(), call).details;
    size_t at = details.find("google.rpc.BadRequest");
    if (at == std::string::npos) return std::string("none");
    auto from = details.find_first_of("io", at + 21);  // inputs, outputs
    size_t length = uint8_t(details[from - 1]);
    return details.substr(from, length);
  };
  auto a = tensor("a", DType::kFp32, {1, 4}, 16);
  EXPECT_EQ(field({a, tensor("c", DType::kFp32, {1, 4}, 16)}), "inputs[1].name");
  EXPECT_EQ(field({a, tensor("b", DType::kInt32, {1, 1}, 4)}), "inputs[1].datatype");
  EXPECT_EQ(field({tensor("a", DType::kFp32, {1, 5}, 20)}), "inputs[0].shape");
  EXPECT_EQ(field({tensor("a", DType::kFp32, {1, 4}, 15)}), "inputs[0]");
  EXPECT_EQ(field({tensor("a", DType::kFp32, {9, 4}, 144)}), "inputs[0].shape");
  EXPECT_EQ(field({}), "inputs");
  EXPECT_EQ(field({a}, {"y", "z"}), "outputs[1].name");
}

TEST(Check, RowsComeFromTheBatchDimension) {
  msg::Call call;
  call.inputs.push_back(tensor("a", DType::kFp32, {3, 4}, 48));
  call.inputs.push_back(tensor("b", DType::kInt64, {3, 1}, 24));
  auto spec = batched();
  EXPECT_TRUE(check_call(spec, call).ok());
  EXPECT_EQ(call.rows, 3u);
}

TEST(Check, RefusalsNameTensorAndWhatWasExpected) {
  auto spec = batched();
  EXPECT_EQ(refusal(spec, {}), "input 'a' of model 'm' is missing: expected FP32 [-1,4]");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 5}, 20)}),
            "input 'a' of model 'm': expected FP32 [-1,4], got FP32 [1,5]");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kInt32, {1, 4}, 16)}),
            "input 'a' of model 'm': expected FP32 [-1,4], got INT32 [1,4]");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {4}, 16)}),
            "input 'a' of model 'm': expected FP32 [-1,4], got FP32 [4]");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {9, 4}, 144)}),
            "input 'a' brings a batch of 9, but model 'm' takes at most 8");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {0, 4}, 0)}), "input 'a' has an empty batch dimension: [0,4]");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 16), tensor("b", DType::kInt64, {2, 1}, 16)}),
            "inputs 'a' and 'b' differ in their batch dimension: 1 and 2");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 15)}),
            "input 'a': 15 bytes of data, but FP32 [1,4] takes 16: 4 elements of 4");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 1)}),
            "input 'a': 1 byte of data, but FP32 [1,4] takes 16: 4 elements of 4");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 0)}),
            "input 'a': 0 bytes of data, but FP32 [1,4] takes 16: 4 elements of 4");
  EXPECT_EQ(refusal(spec, {tensor("A", DType::kFp32, {1, 4}, 16)}), "model 'm' has no input 'A'; did you mean 'a'?");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 16), tensor("a", DType::kFp32, {1, 4}, 16)}),
            "input 'a' is given twice");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 16)}, {"z"}),
            "model 'm' has no output 'z'; did you mean 'y'?");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 16)}, {"y", "y"}), "output 'y' is asked for twice");
}

TEST(Check, ShapesAtEveryPowerOfTwoNeverOverflow) {
  msg::ModelSpec any;
  any.name = "m";
  any.any_tensors = true;
  for (int bit = 0; bit < 63; ++bit)
    for (int64_t near : {-1, 0, 1}) {
      int64_t dim = (int64_t(1) << bit) + near;
      for (int64_t second : {int64_t(1), dim, INT64_MAX}) {
        bool fits = dim * double(second) * 8 == 16 || (dim == 0 && second != INT64_MAX);
        EXPECT_EQ(refusal(any, {tensor("a", DType::kFp64, {dim, second}, dim == 0 ? 0 : 16)}).empty(), fits)
            << dim << " " << second;
      }
    }
  EXPECT_FALSE(refusal(any, {tensor("a", DType::kFp64, {-1}, 8)}).empty());
  EXPECT_FALSE(refusal(any, {tensor("a", DType::kInvalid, {1}, 8)}).empty());
}

TEST(Check, BytesElementsAreCounted) {
  msg::ModelSpec any;
  any.any_tensors = true;
  std::string data;
  msg::append_string(data, "ab");
  msg::append_string(data, "");
  auto make = [&](std::string d, Shape shape) {
    return std::vector<msg::Tensor>{{"s", DType::kBytes, shape, base::Bytes::copy_of(d)}};
  };
  EXPECT_EQ(refusal(any, make(data, {2})), "");
  EXPECT_EQ(refusal(any, make(data, {3})), "input 's': 2 BYTES elements, but 3 by its shape [3]");
  EXPECT_EQ(refusal(any, make(data, {1})), "input 's': 2 BYTES elements, but 1 by its shape [1]");
  EXPECT_EQ(refusal(any, make(data, {0})), "input 's': 2 BYTES elements, but 0 by its shape [0]");
  EXPECT_EQ(refusal(any, make(data + "x", {2})), "input 's': the lengths inside its BYTES data do not add up");
}

// The lengths inside BYTES are a worker's to read, and all else is refused before.
TEST(Check, StringsMayBeLeftToAWorker) {
  msg::ModelSpec any;
  any.any_tensors = true;
  std::string data;
  for (const char* element : {"ab", "", "c"}) msg::append_string(data, element);
  auto check = [&](Shape shape, std::string extra = {}) {
    msg::Call call;
    call.inputs = {tensor("a", DType::kInt8, {2}, 2), {"s", DType::kBytes, shape, base::Bytes::copy_of(data + extra)}};
    Status status = check_call(any, call, StringLengths::kSkip);
    if (!status.ok()) return "at once: " + status.text;
    CheckInputs task(call);
    EXPECT_TRUE(call.inputs.empty());
    task.run();
    status = task.hand_over(call);
    EXPECT_EQ(call.inputs.size(), 2u);
    return status.text;
  };
  EXPECT_EQ(check({3}), "");
  EXPECT_EQ(check({2}), "input 's': 3 BYTES elements, but 2 by its shape [2]");
  EXPECT_EQ(check({3}, "x"), "input 's': the lengths inside its BYTES data do not add up");
  EXPECT_EQ(check({4}), "at once: input 's': 15 bytes are too few for the 4 BYTES elements of its shape [4]");
  EXPECT_EQ(check({-1}).substr(0, 20), "at once: input 's': ");
  msg::Tensor many{"s", DType::kBytes, {3}, base::Bytes::adopt(std::string(kLongStrings + 4, '\0'))};
  EXPECT_EQ(strings_to_count({many}), 3u) << "it ends behind those";
  EXPECT_EQ(check_data(many).text, "input 's': more than 3 BYTES elements, but 3 by its shape [3]");
  msg::Tensor output{"s", DType::kBytes, {2}, base::Bytes::copy_of(data)};
  EXPECT_TRUE(check_outputs({output}, StringLengths::kSkip).ok());
  EXPECT_EQ(check_outputs({output}).code, base::Code::kInternal);
  EXPECT_EQ(string_bytes({output, tensor("a", DType::kInt8, {2}, 2)}), data.size());
}

TEST(Check, TheDimensionsOfATensorWithoutElementsAreBounded) {
  EXPECT_TRUE(check_data(tensor("a", DType::kFp32, {0, 3, 4096, 4096}, 0)).ok());
  EXPECT_TRUE(check_data(tensor("a", DType::kFp32, {1 << 26, 0}, 0)).ok());
  EXPECT_EQ(check_data(tensor("a", DType::kFp32, {(1 << 26) + 1, 0}, 0)).text,
            "input 'a': shape [67108865,0] has no elements, and dimensions that multiply to more than 67108864");
  EXPECT_FALSE(check_data(tensor("a", DType::kBytes, {1 << 20, 0, 1 << 20}, 0)).ok());
  EXPECT_TRUE(check_nesting(tensor("a", DType::kFp32, {1 << 16, 0, 9}, 0), "output").ok());
  EXPECT_FALSE(check_nesting(tensor("a", DType::kFp32, {1 << 8, 257, 0}, 0), "output").ok());
  EXPECT_TRUE(check_nesting(tensor("a", DType::kInt8, {1 << 17}, 1 << 17), "output").ok()) << "these are elements";
}

TEST(Check, NamesAreShortBeforeTheyAreCompared) {
  std::string longest(1024, 'n');
  msg::ModelSpec any;
  any.any_tensors = true;
  EXPECT_EQ(refusal(any, {tensor(longest, DType::kInt8, {1}, 1)}, {longest}), "");
  EXPECT_EQ(refusal(any, {tensor(longest + "n", DType::kInt8, {1}, 1)}),
            "a tensor's name has at most 1024 bytes, not 1025");
  EXPECT_EQ(refusal(any, {tensor("a", DType::kInt8, {1}, 1)}, {longest + "n"}),
            "a tensor's name has at most 1024 bytes, not 1025");
}

TEST(Check, BytesElementsOfAnyLengthsAreCounted) {
  // Runs of one length, and changes of it at every place of a run.
  for (size_t run = 1; run < 12; ++run)
    for (size_t length : {0, 1, 3, 255, 256, 257}) {
      std::string data;
      int64_t elements = 0;
      for (size_t round = 0; round < 5; ++round) {
        for (size_t i = 0; i < run; ++i, ++elements) msg::append_string(data, std::string(length, '\x01'));
        msg::append_string(data, std::string(length / 2 + round, '\0')), ++elements;
      }
      msg::Tensor tensor{"s", DType::kBytes, {elements}, base::Bytes::copy_of(data)};
      EXPECT_TRUE(check_data(tensor).ok()) << run << " of " << length;
      for (std::string_view bad :
           {std::string_view(data).substr(0, data.size() - 1), std::string_view(data).substr(1)}) {
        tensor.data = base::Bytes::copy_of(bad);
        EXPECT_FALSE(check_data(tensor).ok()) << run << " of " << length;
      }
    }
}

TEST(Check, AFullBatchIsTakenAndAScalarHasNoRows) {
  auto spec = batched();
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {8, 4}, 128)}), "");
  EXPECT_EQ(refusal(spec, {tensor("a", DType::kFp32, {1, 4}, 16), tensor("b", DType::kInt64, {1, 9}, 72)}), "");
  msg::ModelSpec any;
  any.name = "m", any.any_tensors = true, any.max_batch = 8;
  EXPECT_EQ(refusal(any, {tensor("a", DType::kInt8, {}, 1)}),
            "input 'a' has no batch dimension, but model 'm' is batched");
  EXPECT_EQ(refusal(any, {tensor("a", DType::kInt8, {1}, 1)}), "");
  EXPECT_EQ(refusal(any, {tensor("a", DType::kFp64, {int64_t(1) << 61}, 8)}),
            "input 'a': 8 bytes of data, but FP64 [2305843009213693952] takes more than there can be");
}

TEST(Check, OutputsThatDoNotFitAreTheServersFault) {
  std::vector<msg::Tensor> outputs{tensor("y", DType::kFp32, {2}, 8), tensor("z", DType::kFp32, {2}, 7)};
  auto status = check_outputs(outputs);
  EXPECT_EQ(status.code, base::Code::kInternal);
  EXPECT_EQ(status.text, "output 'z': 7 bytes of data, but FP32 [2] takes 8: 2 elements of 4");
  outputs.pop_back();
  EXPECT_TRUE(check_outputs(outputs).ok());
  outputs.push_back(tensor("z", DType::kInt8, {1}, 1));
  auto spec = batched();
  EXPECT_EQ(find_output(spec, outputs, "y").value(), 0u);
  EXPECT_EQ(find_output(spec, outputs, "z").value(), 1u);
  EXPECT_FALSE(find_output(spec, outputs, "x"));
}

// check_call() and check_outputs() word nothing for tensors that are plainly right: they must say no where check_data()
// does, and nowhere else.
TEST(Check, ATensorIsRightOrWrongWhoeverAsks) {
  constexpr int64_t kHuge = int64_t(1) << 62;
  const Shape shapes[] = {
      {},      {1},      {4},        {2, 2},         {0},           {0, 3},       {3, 0},      {-1},
      {-4, 1}, {-2, -2}, {kHuge, 4}, {kHuge, kHuge}, {kHuge, 0, 4}, {1 << 27, 0}, {INT64_MAX}, {1, 1, 1, 4}};
  msg::ModelSpec any, declared;
  any.any_tensors = true;
  declared.name = "m";
  size_t right = 0;
  for (const Shape& shape : shapes)
    for (auto dtype : {DType::kInvalid, DType::kBool, DType::kFp16, DType::kFp32, DType::kInt64, DType::kBytes})
      for (size_t bytes : {0, 1, 2, 4, 8, 16, 32}) {
        const auto asked = tensor("a", dtype, shape, bytes);
        const auto status = check_data(asked);
        declared.inputs = {{"a", dtype, shape, false, {}}};
        EXPECT_EQ(refusal(any, {asked}), status.text);
        EXPECT_EQ(refusal(declared, {asked}), status.text);
        EXPECT_EQ(check_outputs({asked}).ok(), status.ok());
        right += status.ok();
      }
  EXPECT_GT(right, 20u);
}

}  // namespace
}  // namespace weir::marshal
