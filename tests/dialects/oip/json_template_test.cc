// Templates read and write what the readers and writers of json_infer.h make of the same.
#include "dialects/oip/json_template.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dialects/oip/json_infer.h"

namespace weir::oip {
namespace {

struct Reading {
  base::Status status;
  msg::Call call;
  InferOptions options;
};

Reading& read(Reading& reading, std::string_view json, RequestTemplate* known = nullptr) {
  reading.status =
      read_infer(base::Bytes::copy_of(json), json.size(), base::heap(), reading.call, reading.options, known);
  return reading;
}

std::string told(const Reading& reading) {
  if (!reading.status.ok()) return reading.status.text;
  std::string text = "id " + reading.call.id + " priority " + std::to_string(reading.call.priority) + " parameters " +
                     std::to_string(reading.call.parameters.size());
  for (const auto& tensor : reading.call.inputs)
    text += " | " + tensor.name + " " + std::string(msg::name(tensor.dtype)) + " " + tensor.shape.text() + " " +
            std::string(tensor.data.view());
  for (const auto& name : reading.call.outputs) text += " > " + name;
  text += " outputs " + std::to_string(reading.options.outputs.size()) + " form " +
          std::to_string(int(reading.options.form)) + " shared " + std::to_string(reading.options.shared.size());
  for (const auto& asked : reading.options.outputs)
    text += " " + std::to_string(asked.classes) + std::to_string(int(asked.form));
  return text;
}

// Reads `json` both ways.
void expect_same(std::string_view json, RequestTemplate& known) {
  Reading with, without;
  EXPECT_EQ(told(read(with, json, &known)), told(read(without, json))) << json;
}

bool takes(RequestTemplate& known, std::string_view json) {
  Reading reading;
  const bool taken = known.read(json, base::heap(), reading.call, reading.options);
  EXPECT_EQ(taken, !reading.call.inputs.empty());
  return taken;
}

const std::string kFloats = R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1.5,2.25,-3]}]})";

TEST(JsonTemplate, IsLearnedFromOneRequestAndTakesTheNextWithOtherNumbers) {
  RequestTemplate known;
  expect_same(kFloats, known);
  const std::string next = R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[0.1, 123456.7,-0]}]})";
  EXPECT_TRUE(takes(known, next));
  expect_same(next, known);
  for (std::string_view other : {R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2]}]})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3,4]}]})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3e31]}]})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[[1,2,3]]}]})",
                                 R"({"inputs":[{"name":"y","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}],"id":"a"})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,03]}]})",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}x)",
                                 R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,"NaN"]}]})",
                                 R"({"inputs":[{"name":"x)", ""}) {
    RequestTemplate fresh;
    expect_same(kFloats, fresh);
    EXPECT_FALSE(takes(fresh, other)) << other;
    expect_same(other, fresh);
  }
}

TEST(JsonTemplate, IsNotLearnedFromWhatSaysMoreThanTensors) {
  for (
      std::string_view json :
      {R"({"id":"a","inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]})",
       R"({"parameters":{"priority":1},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]})",
       R"({"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]})",
       R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}],"outputs":[{"name":"y","parameters":{"classification":2}}]})",
       R"({"inputs":[{"name":"x","data":[1.5],"shape":[1],"datatype":"FP32"}]})",
       R"({"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["a"]}]})",
       R"({"inputs":[{"name":"x","shape":[0],"datatype":"FP32","data":[]}]})", R"({"inputs":[]})"}) {
    RequestTemplate known;
    expect_same(json, known);
    EXPECT_FALSE(takes(known, json)) << json;
  }
  RequestTemplate known;
  const std::string longest(RequestTemplate::kMostText, ' ');
  expect_same(kFloats + longest, known);
  EXPECT_FALSE(takes(known, kFloats + longest)) << "its memory is bounded";
}

TEST(JsonTemplate, OfAllThatIsPassedOverIsTheTextItself) {
  RequestTemplate known;
  const std::string json =
      R"({"x":{"y":[1,"\u00e9"]},"id":null,"inputs":[{"name":"a\"b","shape":[2],"datatype":"INT32","z":1,"data":[1,-2]},)"
      R"({"name":"c","shape":[1,1],"datatype":"INT64","data":[9]}],"outputs":[{"name":"p"},{"name":"q"}]} )";
  expect_same(json, known);
  EXPECT_TRUE(takes(known, json));
  expect_same(json, known);
}

TEST(JsonTemplate, IsLearnedMoreSeldomWhereItIsNeverOfUse) {
  LearningPace pace;
  int learned = 0;
  for (int i = 0; i < 1000; ++i) learned += pace.due();
  EXPECT_LT(learned, 30);
  pace.hit();
  EXPECT_TRUE(pace.due());
}

// Requests and their mutations, one after the other through one template: the result is always that without it.
TEST(JsonTemplate, GivesTheSameForRandomRequests) {
  std::mt19937_64 random(20);
  RequestTemplate known;
  const std::string_view numbers[] = {"0", "-0.5", "1.25", "100", "16777217", "1e3", "1234567.12345678", "0.1", "9.0"};
  const std::string_view types[] = {"FP32", "FP64", "INT32", "INT64", "FP16", "UINT8"};
  for (int round = 0; round < 20000; ++round) {
    std::string json = R"({"inputs":[)";
    const uint64_t inputs = 1 + random() % 2;
    for (uint64_t i = 0; i < inputs; ++i) {
      const uint64_t n = 1 + random() % 2;
      json += std::string(i ? "," : "") + R"({"name":"x)" + std::to_string(i) + R"(","datatype":")" +
              std::string(types[round % 50 < 40 ? round / 50 % 6 : random() % 6]) + R"(","shape":[)" +
              std::to_string(n) + R"(],"data":[)";
      for (uint64_t j = 0; j < n; ++j) json += (j ? "," : "") + std::string(numbers[random() % std::size(numbers)]);
      json += "]}";
    }
    json += "]}";
    if (random() % 4 == 0) json[random() % json.size()] = char("{}[],:\"0 x\xc3"[random() % 11]);
    expect_same(json, known);
  }
}

TEST(JsonTemplate, WritesAnAnswerAsWithoutIt) {
  const std::string data(16, '\0');
  const msg::Parameters none, some{{"a", true}};
  std::vector<msg::Tensor> tensors{{"p\"q", msg::DType::kFp32, {1, 4}, base::Bytes::copy_of(data)},
                                   {"r", msg::DType::kInt64, {2}, base::Bytes::copy_of(data)}};
  AnswerTemplate known;
  auto expect = [&](const InferReply& reply, const OutputForms& forms) {
    const JsonReply with = write_infer(reply, forms, LargeTensors::kPieces, &known);
    const JsonReply without = write_infer(reply, forms, LargeTensors::kPieces);
    EXPECT_EQ(with.json, without.json);
    EXPECT_EQ(with.blobs.size(), without.blobs.size());
    EXPECT_EQ(with.large.size(), without.large.size());
  };
  const OutputForms json(2, OutputForm::kJson);
  std::string taken;
  EXPECT_FALSE(known.write({"m", "1", "", none, tensors}, json, taken));
  expect({"m", "1", "", none, tensors}, json);
  EXPECT_TRUE(known.write({"m", "1", "", none, tensors}, json, taken));
  expect({"m", "1", "", none, tensors}, json);
  expect({"m", "1", "an \"id\"", none, tensors}, json);
  expect({"m", "2", "", none, tensors}, json);
  expect({"n", "1", "", none, tensors}, json);
  expect({"m", "1", "", some, tensors}, json);
  expect({"m", "1", "", none, tensors}, {OutputForm::kJson, OutputForm::kBinary});
  tensors[0].shape = {4};
  expect({"m", "1", "", none, tensors}, json);
  tensors[1].name = "s";
  expect({"m", "1", "", none, tensors}, json);
  tensors[1].dtype = msg::DType::kFp64;
  expect({"m", "1", "", none, tensors}, json);
  tensors[0] = {"b", msg::DType::kBytes, {1}, base::Bytes::copy_of(std::string("\1\0\0\0x", 5))};
  expect({"m", "1", "", none, tensors}, json);
  tensors.pop_back();
  expect({"m", "1", "", none, tensors}, {OutputForm::kJson});
  tensors.clear();
  expect({"m", "1", "", none, tensors}, {});
  tensors = {{"l", msg::DType::kFp32, {1 << 15}, base::Bytes::copy_of(std::string(4 << 15, '\0'))}};
  expect({"m", "1", "", none, tensors}, {OutputForm::kJson});
  expect({"m", "1", "", none, tensors}, {OutputForm::kJson});
}

}  // namespace
}  // namespace weir::oip
