#include "marshal/proto_json.h"

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include "health.pb.h"
#include "status.pb.h"

namespace weir::marshal {
namespace {

using base::Code;

class ProtoJsonTest : public testing::Test {
 protected:
  // Naming the types links them in.
  const void* linked_ = grpc::health::v1::HealthCheckResponse::descriptor();
  const void* also_ = google::rpc::BadRequest::descriptor();
  const void* value_ = google::protobuf::Value::descriptor();
  ProtoJson json_{1 << 16};
};

TEST_F(ProtoJsonTest, AMessageGoesThereAndBack) {
  auto binary = json_.to_binary("grpc.health.v1.HealthCheckRequest", R"({"service":"a b"})");
  ASSERT_TRUE(binary.has_value());
  grpc::health::v1::HealthCheckRequest request;
  ASSERT_TRUE(request.ParseFromString(*binary));
  EXPECT_EQ(request.service(), "a b");
  EXPECT_EQ(*json_.to_json("grpc.health.v1.HealthCheckRequest", *binary), R"({"service":"a b"})");
}

TEST_F(ProtoJsonTest, FieldNamesKeepTheSpellingOfTheProtoFile) {
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("inputs[0]");
  EXPECT_EQ(*json_.to_json("google.rpc.BadRequest", bad.SerializeAsString()),
            R"({"field_violations":[{"field":"inputs[0]"}]})");
  for (auto text : {R"({"field_violations":[{"field":"x"}]})", R"({"fieldViolations":[{"field":"x"}]})"})
    EXPECT_TRUE(json_.to_binary("google.rpc.BadRequest", text).has_value()) << text;
}

TEST_F(ProtoJsonTest, EnumsAreNames) {
  grpc::health::v1::HealthCheckResponse response;
  response.set_status(grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(*json_.to_json("grpc.health.v1.HealthCheckResponse", response.SerializeAsString()),
            R"({"status":"SERVING"})");
}

TEST_F(ProtoJsonTest, BadTextIsInvalidArgumentWithWords) {
  for (auto text :
       {"", "{", "[]", "{\"service\":1e}", "{\"nope\":1}", "{\"service\":{}}", "{} {}", "\xff\xfe", "nul"}) {
    auto result = json_.to_binary("grpc.health.v1.HealthCheckRequest", text);
    ASSERT_TRUE(result.has_error()) << text;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument) << text;
    EXPECT_FALSE(result.error().text.empty()) << text;
  }
}

TEST_F(ProtoJsonTest, DeepNestingIsRefused) {
  std::string deep = std::string(65, '[') + std::string(65, ']');
  EXPECT_EQ(json_.to_binary("google.protobuf.Value", deep).error().code, Code::kInvalidArgument);
  EXPECT_EQ(json_.to_binary("google.protobuf.Value", std::string(60000, '[')).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(json_
                  .to_binary("google.protobuf.Value",
                             R"("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[")")
                  .has_value());
}

TEST_F(ProtoJsonTest, NullIsNoElementOfAList) {
  auto error = [&](const std::string& type, const std::string& text) {
    auto result = json_.to_binary(type, text);
    return result ? "" : result.error().text;
  };
  const std::string bad = R"({"fieldViolations":[{"field":"x"},null]})";
  EXPECT_EQ(error("google.rpc.BadRequest", bad),
            "JSON: null is no element of 'field_violations' at byte 34, in field_violations[1]");
  EXPECT_EQ(error("google.rpc.BadRequest", R"({"fieldViolations":null})"), "");
  auto detail = [](const std::string& type, const std::string& rest) {
    return R"({"details":[{"@type":"type.googleapis.com/)" + type + "\"," + rest + "}]}";
  };
  EXPECT_NE(error("google.rpc.Status", R"({"details":[null]})").find("in details[0]"), std::string::npos);
  EXPECT_NE(error("google.rpc.Status", detail("google.rpc.BadRequest", bad.substr(1, bad.size() - 2)))
                .find("in details[0].field_violations[1]"),
            std::string::npos);
  EXPECT_EQ(error("google.rpc.Status", detail("google.protobuf.Value", R"("value":[null])")), "");
  EXPECT_EQ(error("google.rpc.Status", detail("google.rpc.ErrorInfo", R"("domain":null)")), "");
  EXPECT_EQ(error("google.protobuf.Value", "[null]"), "");
}

TEST_F(ProtoJsonTest, TooLongIsResourceExhausted) {
  std::string longer = "{\"service\":\"" + std::string(1 << 16, 'x') + "\"}";
  EXPECT_EQ(json_.to_binary("grpc.health.v1.HealthCheckRequest", longer).error().code, Code::kResourceExhausted);
  EXPECT_EQ(json_.to_json("grpc.health.v1.HealthCheckRequest", longer + longer).error().code, Code::kResourceExhausted);
}

TEST_F(ProtoJsonTest, AnUnknownTypeIsInternal) {
  EXPECT_EQ(json_.to_binary("no.Such", "{}").error().code, Code::kInternal);
  EXPECT_EQ(json_.to_json("no.Such", "").error().code, Code::kInternal);
}

TEST_F(ProtoJsonTest, DepthIsWhatIsOpenOutsideOfStrings) {
  auto error = [&](const std::string& text) {
    auto result = json_.to_binary("google.protobuf.Value", text);
    return result ? "" : result.error().text;
  };
  auto nest = [](size_t n, const std::string& open, const std::string& inner, const std::string& close) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += open;
    out += inner;
    for (size_t i = 0; i < n; ++i) out += close;
    return out;
  };
  const std::string too_deep = "the JSON text is nested deeper than 64 levels";
  EXPECT_NE(error(nest(64, "[", "1", "]")), too_deep);
  EXPECT_EQ(error(nest(65, "[", "1", "]")), too_deep);
  EXPECT_EQ(error(nest(65, "[1,", "1", "]")), too_deep) << "what stands between brackets closes none";
  EXPECT_EQ(error(nest(65, "{\"a\":", "1", "}")), too_deep);
  std::string siblings = "[[]";
  for (int i = 0; i < 200; ++i) siblings += ",[],{}";
  EXPECT_EQ(error(siblings + "]"), "") << "beside each other is not inside";
  EXPECT_EQ(error("\"\\\"" + std::string(70, '[') + "\""), "") << "an escaped quote ends no string";
  EXPECT_EQ(error("[\"\\\\\"," + nest(64, "[", "1", "]") + "]"), too_deep) << "and an escaped backslash hides none";
  EXPECT_NE(error("]][[").find("nested deeper") == std::string::npos, false) << "brackets that close nothing";
}

TEST_F(ProtoJsonTest, TheLimitIsOfBytesBothWays) {
  const std::string type = "grpc.health.v1.HealthCheckRequest";
  const size_t around = std::string("{\"service\":\"\"}").size();
  auto text = [&](size_t n) { return "{\"service\":\"" + std::string(n - around, 'x') + "\"}"; };
  EXPECT_TRUE(json_.to_binary(type, text(1 << 16)));
  EXPECT_EQ(json_.to_binary(type, text((1 << 16) + 1)).error().code, Code::kResourceExhausted);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string((1 << 16) - 4, 'x'));
  ASSERT_EQ(request.SerializeAsString().size(), size_t(1 << 16));
  EXPECT_TRUE(json_.to_json(type, request.SerializeAsString()));
  request.set_service(std::string((1 << 16) - 3, 'x'));
  EXPECT_EQ(json_.to_json(type, request.SerializeAsString()).error().code, Code::kResourceExhausted);
  std::string many = "[1";
  for (int i = 0; i < 20'000; ++i) many += ",1";
  EXPECT_EQ(json_.to_binary("google.protobuf.Value", many + "]").error().code, Code::kResourceExhausted)
      << "a message that is longer than its text";
}

TEST_F(ProtoJsonTest, NamesMayBeInCamelCase) {
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("x");
  ProtoJson camel(1 << 16, ProtoJson::Names::kCamel);
  EXPECT_EQ(*camel.to_json("google.rpc.BadRequest", bad.SerializeAsString()), R"({"fieldViolations":[{"field":"x"}]})");
}

}  // namespace
}  // namespace weir::marshal
