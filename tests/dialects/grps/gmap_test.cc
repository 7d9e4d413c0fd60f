// gmap: six maps that are namespaces of their own, and tensors that have no names.
#include "messages.h"

namespace weir::grps {
namespace {

// As the client demos of the reference server's templates send it.
constexpr std::string_view kDemo =
    R"({"gmap":{"s_s":{"key":"value"},"s_b":{"key":"aGVsbG8gZ3Jwcy4="},"s_i32":{"key":1},"s_i64":{"key":1},)"
    R"("s_f":{"key":1.0},"s_d":{"key":1.0},)"
    R"("s_t":{"key":{"dtype":"DT_FLOAT32","shape":[2,3],"flat_float32":[1,2,3,4,5,6]}}}})";

TEST(GrpsMap, OneKeyMayBeInAllSixMaps) {
  Bench bench;
  auto a = bench.predict(kDemo, "?model=any");
  EXPECT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(parse(a.body).gmap().ShortDebugString(),
            "s_s { key: \"key\" value: \"value\" } s_b { key: \"key\" value: \"hello grps.\" } "
            "s_i32 { key: \"key\" value: 1 } s_i64 { key: \"key\" value: 1 } s_f { key: \"key\" value: 1 } "
            "s_d { key: \"key\" value: 1 }");
  pb::GrpsMessage question, reply;
  question.set_model("any");
  *question.mutable_gmap() = parse(a.body).gmap();
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.gmap().DebugString(), question.gmap().DebugString());
}

TEST(GrpsMap, WhatWasAskedInAMapIsAnsweredInIt) {
  Bench bench;
  for (std::string maps :
       {R"({"s_b":{"b":"aGk="}})", R"({"s_s":{"b":"hi"}})", R"({"s_b":{"b":""}})", R"({"s_s":{"b":""}})",
        R"({"s_s":{"a":"x","c":"y"},"s_b":{"b":"aGk="}})", R"({"s_b":{"b":"/w=="}})"})
    EXPECT_EQ(parse(bench.predict("{\"gmap\":" + maps + "}", "?model=any").body).gmap().DebugString(),
              parse("{\"gmap\":" + maps + "}").gmap().DebugString());
}

TEST(GrpsMap, AnOutputOfAnInputsNameGoesBackIntoItsMapWhereThatHoldsIt) {
  Bench bench;
  auto ask = [&](std::string_view made) {
    bench.models["any"].echo = false;
    bench.models["any"].script.assign(1, outputs(std::string(made)));
    auto a = bench.predict(R"({"gmap":{"s_i32":{"i":1},"s_i64":{"l":1},"s_f":{"f":1},"s_d":{"d":1},"s_b":{"b":""}}})",
                           "?model=any");
    return parse(a.body).gmap().ShortDebugString();
  };
  EXPECT_EQ(ask("i INT64 [1] [7]"), "s_i32 { key: \"i\" value: 7 }");
  EXPECT_EQ(ask("i INT64 [1] [5000000000]"), "s_i64 { key: \"i\" value: 5000000000 }") << "s_i32 does not hold it";
  EXPECT_EQ(ask("l UINT8 [1] [7]"), "s_i64 { key: \"l\" value: 7 }");
  EXPECT_EQ(ask("f FP64 [1] [0.5]"), "s_f { key: \"f\" value: 0.5 }");
  EXPECT_EQ(ask("d FP32 [1] [0.5]"), "s_d { key: \"d\" value: 0.5 }");
  EXPECT_EQ(ask("i FP32 [1] [2]"), "s_f { key: \"i\" value: 2 }") << "not by chance, because it is whole";
  EXPECT_EQ(ask("b INT32 [1] [3]"), "s_i32 { key: \"b\" value: 3 }");
  EXPECT_EQ(ask("i BYTES [1] [\"x\"]"), "s_b { key: \"i\" value: \"x\" }") << "all bytes of the request came in s_b";
  EXPECT_EQ(ask("new BYTES [1] [\"x\"]"), "s_b { key: \"new\" value: \"x\" }");
}

TEST(GrpsMap, OfOneKeyTheModelsInputTakesTheValueOfItsType) {
  Bench bench;
  bench.models["flow"].script.push_back({msg::Done{}});
  auto a = bench.predict(R"({"gmap":{"s_d":{"n":0.5},"s_i32":{"n":2}}})", "?model=flow&streaming=true");
  EXPECT_NE(a.body.find("model 'flow' has no input 's_d.n'"), std::string::npos) << a.body;
  a = bench.predict(R"({"gmap":{"s_i32":{"n":2}}})", "?model=flow&streaming=true");
  EXPECT_EQ(bench.models["flow"].seen.back(), "flow/1 rows=1 | n INT32 [1] [2]");
}

TEST(GrpsMap, TheSameKeyTwiceInOneMapIsRefused) {
  Bench bench;
  auto a = bench.predict(R"({"gmap":{"s_i32":{"k":1,"k":2}}})", "?model=any");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("input 'k' is given twice"), std::string::npos) << a.body;
  a = bench.predict(R"({"gmap":{"s_i32":{"k":1},"s_f":{"k":2},"s_s":{"s_i32.k":"x"}}})", "?model=any");
  EXPECT_EQ(a.status, 400) << "two inputs of one name: " << a.body;
}

TEST(GrpsOrder, TensorsWithoutNamesAreTheInputsInTheirOrder) {
  Bench bench;
  auto tensors = [&](std::string_view first, std::string_view second) {
    auto tensor = [](std::string_view name, int value) {
      std::string v = std::to_string(value);
      return "{" + (name.empty() ? "" : "\"name\":\"" + std::string(name) + "\",") +
             R"("dtype":4,"shape":[1,2],"flat_int32":[)" + v + "," + v + "]}";
    };
    return bench.predict(R"({"gtensors":{"tensors":[)" + tensor(first, 1) + "," + tensor(second, 2) + "]}}",
                         "?model=add");
  };
  bench.models["add"].script.assign(1, outputs("sum INT32 [1,2] [3,3]"));
  tensors("", "");
  EXPECT_EQ(bench.models["add"].seen.back(), "add/2 rows=1 | a INT32 [1,2] [1,1] | b INT32 [1,2] [2,2]");
  tensors("b", "");
  EXPECT_EQ(bench.models["add"].seen.back(), "add/2 rows=1 | b INT32 [1,2] [1,1] | a INT32 [1,2] [2,2]");
  tensors("", "a");
  EXPECT_EQ(bench.models["add"].seen.back(), "add/2 rows=1 | b INT32 [1,2] [1,1] | a INT32 [1,2] [2,2]");
  pb::GrpsMessage question;
  question.set_model("add");
  for (int v : {1, 2}) {
    auto& t = *question.mutable_gtensors()->add_tensors();
    t.set_dtype(pb::DT_INT32), t.add_shape(1), t.add_shape(2), t.add_flat_int32(v), t.add_flat_int32(v);
  }
  bench.grpc("Predict", question.SerializeAsString());
  EXPECT_EQ(bench.models["add"].seen.back(), "add/2 rows=1 | a INT32 [1,2] [1,1] | b INT32 [1,2] [2,2]");
  *question.mutable_gtensors()->add_tensors() = question.gtensors().tensors(0);
  pb::GrpsMessage reply;
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.status().msg(),
            "there is no input for unnamed tensor number 3; model 'add' has a INT32 [-1,2], b "
            "INT32 [-1,2] (optional)");
  question.set_model("any");
  ASSERT_TRUE(reply.ParseFromString(bench.grpc("Predict", question.SerializeAsString()).messages.at(0)));
  EXPECT_EQ(reply.status().code(), 200) << reply.status().msg();
  EXPECT_EQ(reply.gtensors().tensors(2).name(), "INPUT2");
}

}  // namespace
}  // namespace weir::grps
