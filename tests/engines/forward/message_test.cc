// The messages of a client of the Open Inference Protocol, against protobuf's own classes and against nonsense.
#include <gtest/gtest.h>

#include <random>

#include "engines/forward/oip/message.h"
#include "engines/forward/oip/rest_message.h"
#include "engines/forward/refusal.h"
#include "inference.pb.h"
#include "marshal/json_pieces.h"
#include "marshal/pb_wire.h"

namespace weir::forward {
namespace {

namespace pb = inference;
using base::Bytes;

msg::Tensor tensor(std::string name, msg::DType dtype, msg::Shape shape, std::string data) {
  return {std::move(name), dtype, shape, Bytes::adopt(std::move(data))};
}

std::string joined(const std::vector<Bytes>& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += piece.view();
  return out;
}

template <class Message>
Message parsed(std::string_view framed) {
  Message out;
  EXPECT_GE(framed.size(), 5u);
  EXPECT_EQ(framed[0], 0);
  const auto* n = reinterpret_cast<const uint8_t*>(framed.data()) + 1;
  EXPECT_EQ(uint32_t(n[0]) << 24 | uint32_t(n[1]) << 16 | uint32_t(n[2]) << 8 | n[3], framed.size() - 5);
  EXPECT_TRUE(out.ParseFromArray(framed.data() + 5, int(framed.size() - 5)));
  return out;
}

void fill(msg::Call& call, size_t large) {
  call.id = "7";
  call.parameters = {{"b", true}, {"i", int64_t(-5)}, {"u", uint64_t(9)}, {"d", 0.5}, {"s", std::string("t")}};
  call.inputs.push_back(tensor("small", msg::DType::kInt32, {1, 2}, std::string(8, 'a')));
  call.inputs.push_back(tensor("large", msg::DType::kUint8, {int64_t(large)}, std::string(large, 'b')));
  call.inputs.push_back(tensor("none", msg::DType::kFp32, {0}, ""));
  call.inputs.push_back(tensor("again", msg::DType::kUint8, {int64_t(large)}, std::string(large, 'c')));
  call.outputs = {"y"};
}

TEST(ForwardMessage, ARequestIsWhatProtobufReads) {
  for (size_t large : {10u, 4096u, 4097u, 100'000u}) {
    msg::Call call;
    fill(call, large);
    const auto pieces = write_request(call, "m", "3", Ending::kTold);
    const auto request = parsed<pb::ModelInferRequest>(joined(pieces));
    EXPECT_EQ(request.model_name(), "m");
    EXPECT_EQ(request.model_version(), "3");
    EXPECT_EQ(request.id(), "7");
    EXPECT_TRUE(request.parameters().at("b").bool_param());
    EXPECT_EQ(request.parameters().at("i").int64_param(), -5);
    EXPECT_EQ(request.parameters().at("u").uint64_param(), 9u);
    EXPECT_EQ(request.parameters().at("d").double_param(), 0.5);
    EXPECT_EQ(request.parameters().at("s").string_param(), "t");
    EXPECT_TRUE(request.parameters().at("triton_enable_empty_final_response").bool_param());
    ASSERT_EQ(request.inputs_size(), 4);
    ASSERT_EQ(request.raw_input_contents_size(), 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(request.inputs(i).name(), call.inputs[size_t(i)].name);
      EXPECT_EQ(request.inputs(i).datatype(), msg::name(call.inputs[size_t(i)].dtype));
      EXPECT_EQ(request.raw_input_contents(i), call.inputs[size_t(i)].data.view());
    }
    EXPECT_EQ(request.inputs(0).shape_size(), 2);
    EXPECT_EQ(request.outputs(0).name(), "y");
  }
}

TEST(ForwardMessage, LargeTensorsAreNotCopied) {
  msg::Call call;
  fill(call, 100'000);
  size_t shared = 0;
  for (const auto& piece : write_request(call, "m", "", Ending::kAsItIs))
    shared += piece.data() == call.inputs[1].data.data() || piece.data() == call.inputs[3].data.data();
  EXPECT_EQ(shared, 2u);
}

pb::ModelInferResponse response() {
  pb::ModelInferResponse out;
  auto& raw = *out.add_outputs();
  raw.set_name("y"), raw.set_datatype("FP32"), raw.add_shape(2);
  out.add_raw_output_contents(std::string(8, 'x'));
  (*out.mutable_parameters())["n"].set_int64_param(3);
  (*out.mutable_parameters())["triton_final_response"].set_bool_param(true);
  return out;
}

TEST(ForwardMessage, AnAnswersTensorsLieInTheMessage) {
  const Bytes message = Bytes::adopt(response().SerializeAsString());
  auto outputs = read_answer(message, base::heap());
  ASSERT_TRUE(outputs.has_value());
  ASSERT_EQ(outputs->tensors.size(), 1u);
  EXPECT_EQ(outputs->tensors[0].name, "y");
  EXPECT_EQ(outputs->tensors[0].shape, (msg::Shape{2}));
  EXPECT_EQ(outputs->tensors[0].data.slab(), message.slab());
  ASSERT_EQ(outputs->parameters.size(), 1u) << "the mark of the end is ours to set";
  EXPECT_EQ(std::get<int64_t>(outputs->parameters[0].second), 3);
}

TEST(ForwardMessage, TypedContentsAreRead) {
  pb::ModelInferResponse from;
  auto& output = *from.add_outputs();
  output.set_name("y"), output.set_datatype("INT64"), output.add_shape(2);
  output.mutable_contents()->add_int64_contents(-1);
  output.mutable_contents()->add_int64_contents(5);
  auto outputs = read_answer(Bytes::adopt(from.SerializeAsString()), base::heap());
  ASSERT_TRUE(outputs.has_value());
  EXPECT_EQ(outputs->tensors[0].data.size(), 16u);
}

pb::ModelInferResponse typed(const std::string& type, int64_t elements) {
  pb::ModelInferResponse out;
  auto& output = *out.add_outputs();
  output.set_name("y"), output.set_datatype(type), output.add_shape(elements);
  return out;
}

// Converting them would hold up the shard.
TEST(ForwardMessage, ManyTypedContentsAreRefused) {
  const int64_t most = int64_t(kMostTyped) - 100;
  for (int64_t elements : {most, most + 200}) {
    auto from = typed("INT64", elements);
    from.mutable_outputs(0)->mutable_contents()->mutable_int64_contents()->Resize(int(elements), 1);
    auto outputs = read_answer(Bytes::adopt(from.SerializeAsString()), base::heap());
    ASSERT_EQ(outputs.has_value(), elements == most);
    if (outputs) continue;
    EXPECT_NE(outputs.error().text.find("raw_output_contents"), std::string::npos);
  }
}

TEST(ForwardMessage, PackedFloatsMayBeAsManyAsThereAre) {
  const int64_t elements = int64_t(kMostTyped);
  auto from = typed("FP32", elements);
  from.mutable_outputs(0)->mutable_contents()->mutable_fp32_contents()->Resize(int(elements), 1);
  const Bytes message = Bytes::adopt(from.SerializeAsString());
  auto outputs = read_answer(message, base::heap());
  ASSERT_TRUE(outputs.has_value());
  EXPECT_EQ(outputs->tensors[0].data.slab(), message.slab());
}

// An answer whose floats are packed, beside so many elements of another type, one by one.
Bytes floats_beside(size_t others) {
  pb::InferTensorContents floats;
  floats.mutable_fp32_contents()->Resize(4, 1.5f);
  std::string contents = floats.SerializeAsString(), tensor = typed("FP32", 4).outputs(0).SerializeAsString(), out;
  for (size_t i = 0; i < others; ++i) contents += "\x18\x01";
  marshal::put_bytes(tensor, 5, contents);
  marshal::put_bytes(out, 5, tensor);
  return Bytes::adopt(std::move(out));
}

// To pass over them takes as long as to convert them.
TEST(ForwardMessage, ManyFieldsBesidePackedFloatsAreRefused) {
  for (size_t others : {10, 100, 1000}) {
    auto outputs = read_answer(floats_beside(others), base::heap());
    ASSERT_TRUE(outputs.has_value()) << others;
    EXPECT_EQ(outputs->tensors[0].data.size(), 16u);
  }
  auto outputs = read_answer(floats_beside(kMostTyped / 2), base::heap());
  ASSERT_FALSE(outputs.has_value());
  EXPECT_NE(outputs.error().text.find("raw_output_contents"), std::string::npos);
}

TEST(ForwardMessage, AStreamsErrorIsAnError) {
  pb::ModelStreamInferResponse from;
  from.set_error_message("no such thing\n");
  auto outputs = read_streamed(Bytes::adopt(from.SerializeAsString()), base::heap());
  ASSERT_FALSE(outputs.has_value());
  EXPECT_EQ(outputs.error().code, base::Code::kUnknown);
  EXPECT_TRUE(outputs.error().text.starts_with("no such thing"));
}

msg::ModelSpec spec_of(uint32_t max_batch) {
  msg::ModelSpec spec;
  spec.max_batch = max_batch;
  spec.outputs.resize(1);
  spec.outputs[0].name = "y", spec.outputs[0].dtype = msg::DType::kFp32;
  spec.outputs[0].shape = max_batch > 0 ? msg::Shape{} : msg::Shape{-1};
  return spec;
}

TEST(ForwardMessage, AnswersAreHeldAgainstTheSignature) {
  const auto good = tensor("y", msg::DType::kFp32, {2}, std::string(8, 'x'));
  EXPECT_TRUE(check_answer(spec_of(0), {good}, 1).ok());
  EXPECT_TRUE(check_answer(spec_of(4), {good}, 2).ok());
  EXPECT_FALSE(check_answer(spec_of(4), {good}, 3).ok()) << "rows of another request";
  EXPECT_TRUE(check_answer(spec_of(4), {good}, 0).ok());
  EXPECT_FALSE(check_answer(spec_of(0), {tensor("z", msg::DType::kFp32, {2}, std::string(8, 'x'))}, 1).ok());
  EXPECT_FALSE(check_answer(spec_of(0), {tensor("y", msg::DType::kInt32, {2}, std::string(8, 'x'))}, 1).ok());
  EXPECT_FALSE(check_answer(spec_of(0), {tensor("y", msg::DType::kFp32, {1, 2}, std::string(8, 'x'))}, 1).ok());
  EXPECT_FALSE(check_answer(spec_of(0), {tensor("y", msg::DType::kFp32, {3}, std::string(8, 'x'))}, 1).ok());
  EXPECT_FALSE(check_answer(spec_of(0), {tensor("y", msg::DType::kFp32, {-2}, std::string(8, 'x'))}, 1).ok());
}

TEST(ForwardMessage, TheSignatureIsTakenFromMetadataAndConfiguration) {
  pb::ModelMetadataResponse metadata;
  metadata.set_platform("onnxruntime_onnx");
  auto& input = *metadata.add_inputs();
  input.set_name("x"), input.set_datatype("BYTES"), input.add_shape(-1), input.add_shape(3);
  auto& output = *metadata.add_outputs();
  output.set_name("y"), output.set_datatype("FP16"), output.add_shape(-1);
  msg::ModelSpec spec;
  ASSERT_TRUE(read_metadata(metadata.SerializeAsString(), spec).ok());
  EXPECT_EQ(spec.platform, "onnxruntime_onnx");
  EXPECT_EQ(spec.inputs.at(0).shape, (msg::Shape{-1, 3}));
  EXPECT_EQ(spec.outputs.at(0).dtype, msg::DType::kFp16);
  EXPECT_FALSE(spec.any_tensors);
  pb::ModelConfigResponse config;
  config.mutable_config()->set_max_batch_size(8);
  config.mutable_config()->mutable_model_transaction_policy()->set_decoupled(true);
  auto& optional = *config.mutable_config()->add_input();
  optional.set_name("x"), optional.set_optional(true);
  ASSERT_TRUE(read_config(config.SerializeAsString(), spec).ok());
  EXPECT_EQ(spec.max_batch, 8u);
  EXPECT_TRUE(spec.decoupled);
  EXPECT_TRUE(spec.inputs.at(0).optional);
  EXPECT_EQ(spec.inputs.at(0).shape, (msg::Shape{3}));
  EXPECT_EQ(spec.outputs.at(0).shape, (msg::Shape{}));
  EXPECT_FALSE(read_config(config.SerializeAsString(), spec).ok()) << "no batch dimension is left to take";
  msg::ModelSpec any;
  ASSERT_TRUE(read_metadata("", any).ok());
  EXPECT_TRUE(any.any_tensors);
}

TEST(ForwardMessage, NonsenseIsAnErrorOrAnAnswerAndNothingElse) {
  std::mt19937_64 random(1);
  pb::ModelStreamInferResponse streamed;
  *streamed.mutable_infer_response() = response();
  const std::string good = streamed.SerializeAsString();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (uint64_t changes = random() % 4; changes > 0; --changes) bytes[random() % bytes.size()] = char(random());
    bytes.resize(random() % 3 == 0 ? random() % bytes.size() : bytes.size());
    const Bytes message = Bytes::adopt(bytes);
    for (auto read : {read_answer, read_streamed})
      if (auto outputs = read(message, base::heap())) (void)check_answer(spec_of(0), outputs->tensors, 1);
    msg::ModelSpec spec;
    (void)read_metadata(message.view(), spec);
    (void)read_config(message.view(), spec);
    (void)read_ready(message.view());
  }
}

TEST(ForwardRestMessage, ARequestIsJsonAndTheInputsBytes) {
  msg::Call call;
  call.id = "a\"b";
  call.parameters = {{"b", true}, {"i", int64_t(-5)}, {"d", 0.5}, {"binary_data_output", false}};
  call.inputs.push_back(tensor("x", msg::DType::kInt32, {1, 2}, "12345678"));
  call.inputs.push_back(tensor("none", msg::DType::kFp32, {0}, ""));
  call.outputs = {"y", "z"};
  const RestRequest request = write_rest_request(call);
  const std::string json = R"({"id":"a\"b","parameters":{"binary_data_output":true,"b":true,"i":-5,"d":0.5},"inputs":[)"
                           R"({"name":"x","datatype":"INT32","shape":[1,2],"parameters":{"binary_data_size":8}},)"
                           R"({"name":"none","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}}],)"
                           R"("outputs":[{"name":"y"},{"name":"z"}]})";
  EXPECT_EQ(joined(request.body), json + "12345678");
  EXPECT_EQ(request.header, json.size());
  EXPECT_EQ(request.body.back().data(), call.inputs[0].data.data()) << "not copied";
}

TEST(ForwardRestMessage, ARequestOfJsonAloneHasTheDataInIt) {
  msg::Call call;
  call.parameters = {{"binary_data_output", true}};
  call.inputs.push_back(tensor("x", msg::DType::kInt8, {1, 2}, "\x01\xff"));
  call.inputs.push_back(tensor("text", msg::DType::kBytes, {1}, std::string("\x02\0\0\0a\"", 6)));
  call.inputs.push_back(tensor("raw", msg::DType::kBytes, {1}, std::string("\x01\0\0\0\xff", 5)));
  auto body = write_rest_json(call, nullptr);
  ASSERT_TRUE(body) << body.error().text;
  EXPECT_EQ(body->view(), R"({"inputs":[{"name":"x","datatype":"INT8","shape":[1,2],"data":[1,-1]},)"
                          R"({"name":"text","datatype":"BYTES","shape":[1],"data":["a\""]},)"
                          R"({"name":"raw","datatype":"BYTES","shape":[1],"parameters":{"content_type":"base64"},)"
                          R"("data":["/w=="]}]})");
}

TEST(ForwardRestMessage, JsonThatWouldHoldUpAShardIsRefused) {
  msg::Call call;
  std::string data(kMostJsonOut / 5, 'a');  // five characters for each, at most: -128,
  while (marshal::most_text(tensor("x", msg::DType::kInt8, {int64_t(data.size())}, data)) > kMostJsonOut)
    data.pop_back();
  call.inputs.push_back(tensor("x", msg::DType::kInt8, {int64_t(data.size())}, data));
  EXPECT_TRUE(write_rest_json(call, nullptr));
  data += 'a';
  call.inputs[0] = tensor("x", msg::DType::kInt8, {int64_t(data.size())}, data);
  auto refused = write_rest_json(call, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kInvalidArgument);
  EXPECT_NE(refused.error().text.find("binary_tensors"), std::string::npos);
}

TEST(ForwardRestMessage, JsonIsChargedToTheBudget) {
  base::MemoryLedger ledger(8 << 10);
  msg::Call call;
  call.inputs.push_back(tensor("x", msg::DType::kInt8, {16 << 10}, std::string(16 << 10, 'a')));
  auto refused = write_rest_json(call, &ledger);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kResourceExhausted);
}

TEST(ForwardRefusal, WordsOfFastApiAreTold) {
  const auto told = error_of(422, R"({"detail":[{"loc":["body"],"msg":"value is not a valid dict","type":"x"}]})", "");
  EXPECT_EQ(told.text, "it answered with HTTP status 422: value is not a valid dict");
  EXPECT_EQ(error_of(422, R"({"detail":[7,{"loc":[]}]})", "").text, "it answered with HTTP status 422");
}

TEST(ForwardRestMessage, ExtensionsSayWhetherBytesAreTaken) {
  EXPECT_TRUE(lists_binary_tensors(R"({"name":"triton","extensions":["sequence",7,"binary_tensor_data"]})"));
  EXPECT_FALSE(lists_binary_tensors(R"({"name":"mlserver","version":"1.3.5","extensions":[]})"));
  for (const char* odd :
       {"", "[]", "{}", R"({"extensions":"binary_tensor_data"})", R"({"extensions":["binary_tensor_data"])"})
    EXPECT_FALSE(lists_binary_tensors(odd)) << odd;
}

TEST(ForwardRestMessage, Base64InAnAnswerIsRead) {
  auto outputs = read_rest_answer(
      Bytes::adopt(std::string(
          R"({"outputs":[{"name":"y","datatype":"BYTES","shape":[1],"parameters":{"content_type":"base64"},"data":["/w=="]}]})")),
      "", base::heap());
  ASSERT_TRUE(outputs) << outputs.error().text;
  EXPECT_EQ(outputs->tensors[0].data.view(), std::string_view("\x01\0\0\0\xff", 5));
}

TEST(ForwardRestMessage, AnAnswersTensorsLieInTheBody) {
  const std::string json =
      R"({"model_name":"m","parameters":{"n":3,"t":"x","r":0.5,"l":[1]},"outputs":[{"data":[1,2],"shape":[2],)"
      R"("name":"a","datatype":"INT64"},{"name":"y","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]})";
  const Bytes body = Bytes::adopt(json + "12345678");
  auto outputs = read_rest_answer(body, std::to_string(json.size()), base::heap());
  ASSERT_TRUE(outputs.has_value()) << outputs.error().text;
  ASSERT_EQ(outputs->tensors.size(), 2u);
  EXPECT_EQ(outputs->tensors[0].data.size(), 16u);
  EXPECT_EQ(outputs->tensors[1].data.view(), "12345678");
  EXPECT_EQ(outputs->tensors[1].data.slab(), body.slab());
  EXPECT_EQ(outputs->parameters.size(), 3u);
}

TEST(ForwardRestMessage, NonsenseIsAnErrorOrAnAnswerAndNothingElse) {
  std::mt19937_64 random(1);
  const std::string good =
      R"({"parameters":{"n":3},"max_batch_size":2,"model_transaction_policy":{"decoupled":true},"inputs":[)"
      R"({"name":"x","datatype":"FP32","shape":[-1,2],"optional":true}],"outputs":[{"name":"y","datatype":"FP32",)"
      R"("shape":[2],"parameters":{"binary_data_size":8}},{"name":"z","datatype":"BYTES","shape":[1],"data":["a"]}]})";
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = good + "12345678";
    for (uint64_t changes = random() % 4; changes > 0; --changes) bytes[random() % bytes.size()] = char(random());
    bytes.resize(random() % 3 == 0 ? random() % bytes.size() : bytes.size());
    const std::string length = std::to_string(random() % 4 == 0 ? random() % 1000 : good.size());
    if (auto outputs = read_rest_answer(Bytes::adopt(bytes), length, base::heap()))
      (void)check_answer(spec_of(0), outputs->tensors, 1);
    msg::ModelSpec spec;
    (void)read_rest_metadata(bytes, spec);
    (void)read_rest_config(bytes, spec);
  }
}

}  // namespace
}  // namespace weir::forward
