// The payloads of GrpsMessages: every kind of payload both ways, and the protobuf that is read and written by hand.
#include "dialects/grps/message.h"
#include "marshal/pb_wire.h"
#include "messages.h"

namespace weir::grps {
namespace {

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string join(const std::vector<base::Bytes>& pieces) {
  std::string out;
  for (const auto& p : pieces) out += p.view();
  return out;
}

TEST(GrpsPayload, GtensorsGoByNameWithTypesByNumberOrName) {
  Bench bench;
  bench.models["add"].script.push_back(outputs("sum INT32 [1,2] [3,-4]"));
  for (std::string dtype : {"4", "\"DT_INT32\""}) {
    auto a = bench.predict(R"({"gtensors":{"tensors":[{"flat_int32":[1,2],"name":"a","shape":[1,2],"dtype":)" + dtype +
                               R"(},{"name":"b","dtype":4,"shape":[1,2],"flatInt32":[[5,6]]}]}})",
                           "?model=add");
    EXPECT_EQ(bench.models["add"].seen.back(), "add/2 rows=1 | a INT32 [1,2] [1,2] | b INT32 [1,2] [5,6]");
    EXPECT_EQ(a.body, std::string(kOk) + R"(,
 "gtensors": {
  "tensors": [
   {
    "name": "sum",
    "dtype": "DT_INT32",
    "shape": [
     1,
     2
    ],
    "flat_int32": [
     3,
     -4
    ]
   }
  ]
 }
}
)");
  }
}

TEST(GrpsPayload, EveryTypeComesBackAsItWent) {
  Bench bench;
  pb::GrpsMessage question;
  question.set_model("any");
  auto add = [&](pb::DataType type) {
    auto& t = *question.mutable_gtensors()->add_tensors();
    t.set_name(pb::DataType_Name(type));
    t.set_dtype(type);
    t.add_shape(2);
    return &t;
  };
  for (auto v : {0u, 255u})
    v ? question.mutable_gtensors()->mutable_tensors(0)->add_flat_uint8(v) : add(pb::DT_UINT8)->add_flat_uint8(v);
  auto* t = add(pb::DT_INT8);
  t->add_flat_int8(-128), t->add_flat_int8(127);
  t = add(pb::DT_INT16);
  t->add_flat_int16(-32768), t->add_flat_int16(32767);
  t = add(pb::DT_INT32);
  t->add_flat_int32(INT32_MIN), t->add_flat_int32(INT32_MAX);
  t = add(pb::DT_INT64);
  t->add_flat_int64(INT64_MIN), t->add_flat_int64(INT64_MAX);
  t = add(pb::DT_FLOAT16);
  t->add_flat_float16(0.5f), t->add_flat_float16(-65504.f);
  t = add(pb::DT_FLOAT32);
  t->add_flat_float32(0.1f), t->add_flat_float32(-3e38f);
  t = add(pb::DT_FLOAT64);
  t->add_flat_float64(0.1), t->add_flat_float64(-1e300);
  t = add(pb::DT_STRING);
  t->add_flat_string("é"), t->add_flat_string("");
  pb::GrpsMessage reply;
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.status().code(), 200) << reply.status().msg();
  EXPECT_EQ(reply.gtensors().SerializeAsString(), question.gtensors().SerializeAsString());
  google::protobuf::util::JsonPrintOptions print;
  for (bool by_number : {false, true}) {
    print.always_print_enums_as_ints = by_number;
    print.preserve_proto_field_names = by_number;
    std::string json;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(question, &json, print).ok());
    auto a = bench.predict(json);
    EXPECT_EQ(parse(a.body).gtensors().SerializeAsString(), question.gtensors().SerializeAsString()) << a.body;
  }
  EXPECT_NE(
      bench
          .predict(R"({"model":"any","gtensors":{"tensors":[{"name":"l","dtype":5,"shape":[1],"flat_int64":["-7"]}]}})")
          .body.find("     \"-7\"\n"),
      std::string::npos);
}

TEST(GrpsPayload, DimensionsMayBeStrings) {
  Bench bench;
  auto ask = [&](const std::string& shape) {
    return bench.predict(R"({"model":"any","gtensors":{"tensors":[{"name":"l","dtype":4,"shape":)" + shape +
                         R"(,"flat_int32":[1,2]}]}})");
  };
  EXPECT_EQ(parse(ask(R"(["1","2"])").body).gtensors().SerializeAsString(),
            parse(ask("[1,2]").body).gtensors().SerializeAsString());
  for (const char* shape : {R"(["1x"])", R"([""])", R"(["-1"])", R"(["4294967296"])"})
    EXPECT_NE(ask(shape).body.find("a dimension is a whole number of 32 bits"), std::string::npos) << shape;
}

TEST(GrpsPayload, TypesThatTheProtocolHasNotAreCarried) {
  Bench bench;
  bench.models["rare"].script.push_back(
      outputs("o BOOL [1] [true]; u UINT16 [1] [65535]; w UINT64 [1] [9]; h BF16 [1] [0.5]"));
  auto ask = [&](std::string w) {
    return bench.predict(
        R"({"model":"rare","gtensors":{"tensors":[{"name":"f","dtype":1,"shape":[1],"flat_uint8":[1]},)"
        R"({"name":"u","dtype":4,"shape":[1],"flat_int32":[65535]},)"
        R"({"name":"w","dtype":5,"shape":[1],"flat_int64":[)" +
        w +
        R"(]},)"
        R"({"name":"h","dtype":7,"shape":[1],"flat_float32":[1.5]}]}})");
  };
  auto a = parse(ask("7").body).gtensors();
  EXPECT_EQ(bench.models["rare"].seen.at(0),
            "rare/1 rows=1 | f BOOL [1] [true] | u UINT16 [1] [65535] | w UINT64 [1] [7] | h BF16 [1] [1.5]");
  EXPECT_EQ(a.ShortDebugString(),
            "tensors { name: \"o\" dtype: DT_UINT8 shape: 1 flat_uint8: 1 } "
            "tensors { name: \"u\" dtype: DT_INT32 shape: 1 flat_int32: 65535 } "
            "tensors { name: \"w\" dtype: DT_INT64 shape: 1 flat_int64: 9 } "
            "tensors { name: \"h\" dtype: DT_FLOAT32 shape: 1 flat_float32: 0.5 }");
  EXPECT_EQ(ask("-1").status, 400);
}

TEST(GrpsPayload, NdarrayIsTheOneInputAndComesBackOnRequest) {
  Bench bench;
  bench.models["digits"].script.push_back(outputs("p FP32 [2,3] [1,2,3,4,5,0.5]"));
  auto a = bench.predict(R"({"ndarray":[[1,2],[3,4.5]]})", "?model=digits&return-ndarray=true");
  EXPECT_EQ(bench.models["digits"].seen.back(), "digits/1 rows=2 | image FP32 [2,2] [1.0,2.0,3.0,4.5]");
  EXPECT_EQ(a.body, std::string(kOk) + ",\n \"ndarray\": [[1.0,2.0,3.0],[4.0,5.0,0.5]]\n}\n");
  a = bench.predict(R"({"ndarray":[1,2]})", "?model=digits");
  EXPECT_EQ(bench.models["digits"].seen.back(), "digits/1 rows=1 | image FP32 [1,2] [1.0,2.0]");
  EXPECT_EQ(parse(a.body).gtensors().tensors(0).flat_float32_size(), 6);
  for (std::string bad : {"[[1,2],[3]]", "[[1,2],3]", "[1,[2]]", "[\"a\"]", "{}", "5", "[[1,2],[]]", "[[],1]"})
    EXPECT_EQ(bench.predict(R"({"ndarray":)" + bad + "}", "?model=digits").status, 400) << bad;
  EXPECT_EQ(bench.predict(R"({"ndarray":[1]})", "?model=add").status, 400);
  EXPECT_EQ(bench.predict(R"({"ndarray":[1,2]})", "?model=digits&return-ndarray=true&streaming=true").body,
            failure(400, "streaming and return-ndarray exclude each other"));
  bench.predict(R"({"ndarray":[[],[]]})", "?model=any");
  EXPECT_EQ(bench.models["any"].seen.back(), "any/1 rows=1 | ndarray FP32 [2,0] []");
}

TEST(GrpsPayload, TextGoesToTextModelsAndComesBackAsText) {
  Bench bench;
  bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"b\\nc\"]"));
  EXPECT_EQ(bench.predict(R"({"str_data":"a"})", "?model=my-text").body,
            std::string(kOk) + ",\n \"str_data\": \"b\\nc\"\n}\n");
  EXPECT_EQ(bench.models["my-text"].seen.back(), "my-text/1 rows=1 | s BYTES [1] [\"a\"]");
  EXPECT_EQ(bench.predict(R"({"str_data":"a"})", "?model=digits").body,
            failure(400, "str_data needs a model with one BYTES input; model 'digits' has image FP32 [-1,2]"));
}

TEST(GrpsPayload, OctetsAreBinDataBothWays) {
  Bench bench;
  bench.models["digits"].script.push_back(outputs("p FP32 [1,3] [1,2,3]"));
  auto a = bench.predict(floats({1, 2}), "?model=digits", {{"content-type", "application/octet-stream"}});
  EXPECT_EQ(bench.models["digits"].seen.back(), "digits/1 rows=1 | image FP32 [1,2] [1.0,2.0]");
  EXPECT_EQ(a.type, "application/octet-stream");
  EXPECT_EQ(a.body, floats({1, 2, 3}));
  bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"raw\"]"));
  a = bench.predict("\xff\0x", "?model=my-text", {{"content-type", "application/octet-stream"}});
  EXPECT_EQ(a.body, "raw");
  EXPECT_EQ(bench.predict("123", "?model=digits", {{"content-type", "application/octet-stream"}}).status, 400);
  a = bench.predict("{}", "?model=digits", {{"content-type", "text/plain"}});
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("Content type is not supported"), std::string::npos);
  pb::GrpsMessage question, reply;
  question.set_model("any");
  question.set_bin_data(std::string("\0\xff", 2));
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.bin_data(), std::string("\0\xff", 2));
}

TEST(GrpsPayload, MapsAreNamedScalars) {
  Bench bench;
  pb::GrpsMessage question, reply;
  question.set_model("any");
  auto& maps = *question.mutable_gmap();
  (*maps.mutable_s_s())["text"] = "é";
  (*maps.mutable_s_b())["bytes"] = "\xff\xfe";
  (*maps.mutable_s_i32())["i"] = -5;
  (*maps.mutable_s_i64())["l"] = INT64_MIN;
  (*maps.mutable_s_f())["f"] = 0.1f;
  (*maps.mutable_s_d())["d"] = 1e300;
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.gmap().DebugString(), question.gmap().DebugString());
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(question, &json).ok());
  EXPECT_EQ(parse(bench.predict(json).body).gmap().DebugString(), question.gmap().DebugString());
  bench.models["rare"].script.push_back(outputs("o BOOL [1] [true]"));
  auto a = bench.predict(R"({"gmap":{"s_i32":{"f":1,"u":7},"s_i64":{"w":"8"},"s_d":{"h":0.5}}})", "?model=rare");
  EXPECT_EQ(bench.models["rare"].seen.size(), 1u) << a.body;
  EXPECT_EQ(parse(a.body).gmap().ShortDebugString(), "s_i32 { key: \"o\" value: 1 }");
  EXPECT_EQ(bench.predict(R"({"gmap":{"s_i32":{"a":1}}})", "?model=add").status, 400);
  EXPECT_EQ(bench.predict(R"({"gmap":{"s_b":{"a":"**"}}})", "?model=any").status, 400);
  EXPECT_EQ(bench.predict(R"({"gmap":{"s_i32":{"a":1.5}}})", "?model=any").status, 400);
  EXPECT_EQ(bench.predict(R"({"gmap":{"s_i32":{"a":[1]}}})", "?model=any").status, 400);
}

TEST(GrpsPayload, Base64IsOfEitherAlphabet) {
  Bench bench;
  bench.models["any"].echo = true;
  for (const char* text : {"fn5+", "fn5-"}) {
    EXPECT_EQ(bench.predict(std::string(R"({"bin_data":")") + text + "\"}", "?model=any").status, 200) << text;
    EXPECT_NE(bench.models["any"].seen.back().find("~~~"), std::string::npos) << bench.models["any"].seen.back();
    EXPECT_EQ(bench.predict(std::string(R"({"gmap":{"s_b":{"a":")") + text + "\"}}}", "?model=any").status, 200)
        << text;
  }
}

TEST(GrpsPayload, WhatIsWrongIsSaid) {
  Bench bench;
  auto says = [&](std::string body) {
    auto a = bench.predict(body, "?model=add");
    EXPECT_EQ(a.status, 400);
    return parse(a.body).status().msg();
  };
  auto tensor = [](std::string fields) { return R"({"gtensors":{"tensors":[{"name":"a",)" + fields + "}]}}"; };
  EXPECT_EQ(says("{}"), "the request has no data: str_data, bin_data, gtensors, ndarray or gmap");
  EXPECT_EQ(says(R"({"str_data":"a","ndarray":[1]})"), "the request has more than one kind of data");
  EXPECT_EQ(says(tensor(R"("shape":[1,2],"flat_int32":[1,2])")), "input 'a': no dtype");
  EXPECT_EQ(says(tensor(R"("dtype":4,"shape":[1,2])")), "input 'a': no 'flat_int32'");
  EXPECT_EQ(says(tensor(R"("dtype":10,"shape":[1])")), "input 'a': dtype is 1 to 9, or its name");
  EXPECT_EQ(says(tensor(R"("dtype":"FP32","shape":[1])")), "input 'a': unknown dtype 'FP32'");
  EXPECT_EQ(says(tensor(R"("dtype":4,"shape":[1,2],"flat_float32":[1,2])")),
            "input 'a': DT_INT32 data belongs in 'flat_int32', not 'flat_float32'");
  EXPECT_EQ(says(tensor(R"("dtype":4,"shape":[1,2],"flat_int32":[1,2,3])")),
            "input 'a': more data than the 2 elements of its shape [1,2]");
  EXPECT_EQ(says(tensor(R"("dtype":7,"shape":[1,2],"flat_float32":[1,2])")),
            "input 'a' of model 'add': expected INT32 [-1,2], got FP32 [1,2]");
  EXPECT_NE(says("{"), "");
  EXPECT_TRUE(bench.models["add"].seen.empty());
}

TEST(GrpsPayload, AnErrorHasTheSameCodeInItsStatusLineAndItsBody) {
  Bench bench;
  auto a = bench.predict(R"({"str_data":"x"})", "?model=nothing");
  EXPECT_EQ(a.status, 404);
  EXPECT_EQ(parse(a.body).status().code(), 404);
}

TEST(GrpsPayload, AFailureOfTheEngineIsStamped) {
  Bench bench;
  bench.models["my-text"].script.push_back(
      {msg::Failed{base::failure(base::Code::kResourceExhausted, "queue is full")}});
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})", "?model=my-text").body, failure(429, "queue is full"));
  pb::GrpsMessage question, reply;
  question.set_model("my-text-1");
  question.set_str_data("x");
  auto x = bench.open_grpc("Predict", question.SerializeAsString());
  EXPECT_EQ(support::grpc_status(*x), 0);
  EXPECT_EQ(x->record().code, base::Code::kResourceExhausted);
  ASSERT_TRUE(reply.ParseFromString(support::grpc_frames(x->sent).at(0).payload));
  EXPECT_EQ(reply.status().ShortDebugString(), "code: 429 msg: \"queue is full\" status: FAILURE");
}

TEST(GrpsWire, WhatWouldGrowInMemoryIsRefused) {
  Message m;
  std::string empty_tensors, inner;
  for (int i = 0; i < 500000; ++i) inner += std::string("\x0a\x00", 2);
  marshal::put_bytes(empty_tensors, 5, inner);
  EXPECT_EQ(read_pb(base::Bytes::copy_of(empty_tensors), base::heap(), m).text, "input '': dtype is 1 to 9");
  pb::GrpsMessage many;
  for (int i = 0; i < 257; ++i)
    many.mutable_gtensors()->add_tensors()->set_dtype(pb::DT_STRING),
        many.mutable_gtensors()->mutable_tensors(i)->add_shape(0);
  EXPECT_EQ(read_pb(base::Bytes::copy_of(many.SerializeAsString()), base::heap(), m = {}).text,
            "more than 256 tensors");
  std::string unknown;
  for (int i = 0; i < 5000; ++i) marshal::put_bytes(unknown, 99, "0123456789abcdef");
  EXPECT_EQ(read_pb(base::Bytes::copy_of(unknown), base::heap(), m = {}).text,
            "more than 64 KiB of unknown fields in GrpsMessage");
  std::string names, tensor, elements;
  for (int i = 0; i < 66'000; ++i) marshal::put_bytes(names, 2, "");
  EXPECT_EQ(read_pb(base::Bytes::copy_of(names), base::heap(), m = {}).text, "more than 65536 fields in GrpsMessage");
  marshal::put_bytes(tensor, 1, "");
  tensor += "\x10\x01\x1a\x03\xd0\x83\x04";  // UINT8, of 66,000 elements one by one
  for (int i = 0; i < 66'000; ++i) tensor += "\x20\x01";
  marshal::put_bytes(elements, 1, tensor);
  std::string of_elements;
  marshal::put_bytes(of_elements, 5, elements);
  EXPECT_TRUE(read_pb(base::Bytes::copy_of(of_elements), base::heap(), m = {}).ok()) << "elements are not counted";
  pb::GrpsMessage deep;
  auto& t = *deep.mutable_gtensors()->add_tensors();
  t.set_dtype(pb::DT_UINT8);
  for (int i = 0; i < 17; ++i) t.add_shape(1);
  EXPECT_EQ(read_pb(base::Bytes::copy_of(deep.SerializeAsString()), base::heap(), m = {}).text,
            "input '': a shape has at most 16 dimensions");
}

TEST(GrpsWire, ElementsMayComeBeforeTheirType) {
  pb::GrpsMessage all;
  auto& t = *all.mutable_gtensors()->add_tensors();
  t.set_name("x"), t.set_dtype(pb::DT_INT16), t.add_shape(2), t.add_flat_int16(3), t.add_flat_int16(-4);
  pb::GenericTensor data;
  data.add_flat_int16(3), data.add_flat_int16(-4);
  pb::GenericTensor rest = t;
  rest.clear_flat_int16();
  std::string tensor = data.SerializeAsString() + rest.SerializeAsString(), tensors, bytes;
  marshal::put_bytes(tensors, 1, tensor);
  marshal::put_bytes(bytes, 5, tensors);
  Message m;
  ASSERT_TRUE(read_pb(base::Bytes::copy_of(bytes), base::heap(), m).ok());
  EXPECT_EQ(support::describe(m.tensors.at(0)), "x INT16 [2] [3,-4]");
}

TEST(GrpsWire, LargeFloatsAreNotCopiedEitherWay) {
  pb::GrpsMessage question;
  auto& t = *question.mutable_gtensors()->add_tensors();
  t.set_name("x"), t.set_dtype(pb::DT_FLOAT32), t.add_shape(5000);
  for (int i = 0; i < 5000; ++i) t.add_flat_float32(float(i));
  auto bytes = base::Bytes::copy_of(question.SerializeAsString());
  Message m;
  ASSERT_TRUE(read_pb(bytes, base::heap(), m).ok());
  const auto& data = m.tensors.at(0).data;
  EXPECT_EQ(data.slab(), bytes.slab());
  auto pieces = write_pb({}, m);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].data(), data.data());
  pb::GrpsMessage reply;
  ASSERT_TRUE(reply.ParseFromString(join(pieces)));
  EXPECT_EQ(reply.gtensors().SerializeAsString(), question.gtensors().SerializeAsString());
}

}  // namespace
}  // namespace weir::grps
