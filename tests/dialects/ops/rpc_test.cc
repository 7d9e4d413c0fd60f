// Health and reflection through an RpcServer.
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "dialects/ops/health.h"
#include "dialects/ops/reflection.h"
#include "health.pb.h"
#include "marshal/proto_json.h"
#include "reflection.pb.h"
#include "status.pb.h"
#include "support/rpc_wire.h"

namespace weir::ops {
namespace {

namespace hv1 = grpc::health::v1;
namespace rv1 = grpc::reflection::v1;
using support::grpc_frame;
using support::grpc_frames;
using support::grpc_status;
using support::RpcBench;

class FakeSource final : public HealthSource {
 public:
  Serving serving(std::string_view name) const override {
    auto it = states.find(name);
    return it == states.end() ? Serving::kServiceUnknown : it->second;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, state] : states) out.push_back(name);
    return out;
  }
  std::map<std::string, Serving, std::less<>> states{{"", Serving::kServing}, {"model:m", Serving::kNotServing}};
};

class HealthTest : public testing::Test {
 protected:
  HealthTest() { health_.add_to(bench_.server()); }
  static std::string ask(std::string_view name) {
    hv1::HealthCheckRequest request;
    request.set_service(std::string(name));
    return grpc_frame(request.SerializeAsString());
  }
  // The statuses in all messages so far.
  static std::vector<int> told(const support::FakeExchange& x) {
    std::vector<int> out;
    for (const auto& frame : grpc_frames(x.sent)) {
      hv1::HealthCheckResponse response;
      response.ParseFromString(frame.payload);
      out.push_back(response.status());
    }
    return out;
  }
  auto check(std::string_view name) { return bench_.run("/grpc.health.v1.Health/Check", ask(name)); }
  auto watch(std::string_view name) { return bench_.run("/grpc.health.v1.Health/Watch", ask(name)); }

  FakeSource source_;
  marshal::ProtoJson json_;
  Health health_{source_};
  RpcBench bench_{&json_};
};

TEST_F(HealthTest, CheckSaysWhatTheSourceSays) {
  EXPECT_EQ(told(*check("")), std::vector<int>{1});
  EXPECT_EQ(told(*check("model:m")), std::vector<int>{2});
  EXPECT_EQ(grpc_status(*check("")), 0);
}

TEST_F(HealthTest, CheckOfAnUnknownNameIsNotFound) {
  auto x = check("nobody");
  EXPECT_EQ(grpc_status(*x), 5);
  EXPECT_EQ(x->sent, "");
}

TEST_F(HealthTest, BytesThatAreNoRequestAreInvalid) {
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/Check", grpc_frame("\xff\xff"))), 3);
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/Watch", grpc_frame("\x0a\x02\xff\xfe"))), 3);
}

// Fields that protobuf's library does not know take many times their bytes when it has read them.
TEST_F(HealthTest, ARequestIsSmall) {
  std::string unknown;
  while (unknown.size() < 16'384) unknown += "\x78\x01";
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/Check", grpc_frame(unknown))), 0);
  unknown += "\x78\x01";
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/Check", grpc_frame(unknown))), 3);
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/Watch", grpc_frame(unknown))), 3);
}

TEST_F(HealthTest, ListNamesAll) {
  auto x = bench_.run("/grpc.health.v1.Health/List", grpc_frame(""));
  hv1::HealthListResponse response;
  ASSERT_TRUE(response.ParseFromString(grpc_frames(x->sent).at(0).payload));
  EXPECT_EQ(response.statuses().size(), 2u);
  EXPECT_EQ(response.statuses().at("model:m").status(), hv1::HealthCheckResponse::NOT_SERVING);
  for (size_t i = 0; i < Health::kMaxListed; ++i) source_.states["model:" + std::to_string(i)] = Serving::kServing;
  EXPECT_EQ(grpc_status(*bench_.run("/grpc.health.v1.Health/List", grpc_frame(""))), 8);
}

TEST_F(HealthTest, WatchTellsTheStateAndEachChangeOnce) {
  auto x = watch("model:m");
  EXPECT_EQ(told(*x), std::vector<int>{2});
  health_.changed();
  EXPECT_EQ(told(*x), std::vector<int>{2});
  source_.states["model:m"] = Serving::kServing;
  health_.changed();
  health_.changed();
  EXPECT_EQ(told(*x), (std::vector<int>{2, 1}));
  EXPECT_FALSE(x->ended);
}

TEST_F(HealthTest, WatchOfAnUnknownNameStaysOpenUntilItIsKnown) {
  auto x = watch("model:new");
  EXPECT_EQ(told(*x), std::vector<int>{3});
  EXPECT_FALSE(x->ended);
  source_.states["model:new"] = Serving::kServing;
  health_.changed();
  source_.states.erase("model:new");
  health_.changed();
  EXPECT_EQ(told(*x), (std::vector<int>{3, 1, 3}));
}

TEST_F(HealthTest, DrainMakesAllThatIsThereNotServing) {
  auto x = watch("");
  auto unknown = watch("nobody");
  health_.drain();
  EXPECT_EQ(told(*x), (std::vector<int>{1, 2}));
  EXPECT_EQ(told(*unknown), std::vector<int>{3});
  EXPECT_EQ(told(*check("")), std::vector<int>{2});
  EXPECT_EQ(grpc_status(*check("nobody")), 5);
}

TEST_F(HealthTest, AWatcherThatLeavesIsForgotten) {
  auto x = watch("");
  auto y = watch("");
  EXPECT_EQ(health_.watchers(), 2u);
  x->close(false);
  EXPECT_EQ(health_.watchers(), 1u);
  health_.drain();
  EXPECT_EQ(told(*x), std::vector<int>{1});
}

TEST_F(HealthTest, AWatcherThatDoesNotReadHearsTheLatestOnceItDoes) {
  auto x = watch("");
  x->fake_backlog = wire::Exchange::kHighWater + 1;
  source_.states[""] = Serving::kNotServing;
  health_.changed();
  source_.states[""] = Serving::kServing;
  health_.changed();
  source_.states[""] = Serving::kNotServing;
  health_.changed();
  EXPECT_EQ(told(*x), std::vector<int>{1});
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(told(*x), (std::vector<int>{1, 2}));
}

TEST_F(HealthTest, ItCanBeCurled) {
  auto x = bench_.run("/grpc.health.v1.Health/Check", "", "application/json", {}, wire::Version::kHttp11);
  EXPECT_EQ(x->sent, R"({"status":"SERVING"})");
  auto y = bench_.run("/grpc.health.v1.Health/Watch", "{}", "application/json", {}, wire::Version::kHttp11);
  EXPECT_EQ(y->sent, "{\"status\":\"SERVING\"}\n");
}

class ReflectionTest : public testing::TestWithParam<std::string> {
 protected:
  ReflectionTest() { reflection_.add_to(bench_.server()); }
  std::string path() const { return "/grpc.reflection." + GetParam() + ".ServerReflection/ServerReflectionInfo"; }
  rv1::ServerReflectionResponse ask(const rv1::ServerReflectionRequest& request) {
    auto x = bench_.run(path(), grpc_frame(request.SerializeAsString()));
    EXPECT_EQ(grpc_status(*x), 0);
    rv1::ServerReflectionResponse response;
    EXPECT_TRUE(response.ParseFromString(grpc_frames(x->sent).at(0).payload));
    EXPECT_EQ(response.original_request().SerializeAsString(), request.SerializeAsString());
    return response;
  }
  static std::set<std::string> files(const rv1::ServerReflectionResponse& response) {
    std::set<std::string> names;
    for (const auto& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      EXPECT_TRUE(names.insert(file.name()).second) << "twice: " << file.name();
    }
    return names;
  }

  Reflection reflection_{{std::string(Health::kService)}};
  RpcBench bench_;
};

TEST_P(ReflectionTest, ListsTheServicesAndItself) {
  rv1::ServerReflectionRequest request;
  request.set_host("h");
  request.set_list_services("*");
  auto response = ask(request);
  EXPECT_EQ(response.valid_host(), "h");
  std::vector<std::string> names;
  for (const auto& s : response.list_services_response().service()) names.push_back(s.name());
  EXPECT_EQ(names, (std::vector<std::string>{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                             "grpc.reflection.v1alpha.ServerReflection"}));
}

TEST_P(ReflectionTest, DescribesEveryServiceThatItLists) {
  for (auto symbol : {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.health.v1.Health.Check",
                      "grpc.reflection.v1alpha.ServerReflection", "grpc.health.v1.HealthCheckResponse.status"}) {
    rv1::ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    EXPECT_EQ(files(ask(request)).size(), 1u) << symbol;
  }
}

TEST_P(ReflectionTest, ARequestIsSmall) {
  std::string unknown;
  while (unknown.size() <= 16'384) unknown += "\x78\x01";
  EXPECT_EQ(grpc_status(*bench_.run(path(), grpc_frame(unknown))), 3);
}

TEST_P(ReflectionTest, AFileComesWithWhatItImports) {
  rv1::ServerReflectionRequest request;
  request.set_file_by_filename(google::rpc::Status::descriptor()->file()->name());
  EXPECT_EQ(files(ask(request)),
            (std::set<std::string>{"status.proto", "google/protobuf/any.proto", "google/protobuf/duration.proto"}));
}

TEST_P(ReflectionTest, WhatIsNotThereIsAnErrorResponseAndTheStreamGoesOn) {
  rv1::ServerReflectionRequest file, symbol, extension, numbers, nothing;
  file.set_file_by_filename("no.proto");
  symbol.set_file_containing_symbol("no.Such");
  extension.mutable_file_containing_extension()->set_containing_type("grpc.health.v1.HealthCheckRequest");
  extension.mutable_file_containing_extension()->set_extension_number(7);
  numbers.set_all_extension_numbers_of_type("no.Such");
  for (const auto& request : {file, symbol, extension, numbers})
    EXPECT_EQ(ask(request).error_response().error_code(), 5) << request.ShortDebugString();
  EXPECT_EQ(ask(nothing).error_response().error_code(), 3);
  auto x = bench_.run(path(), grpc_frame(file.SerializeAsString()) + grpc_frame(symbol.SerializeAsString()));
  EXPECT_EQ(grpc_frames(x->sent).size(), 2u);
}

TEST_P(ReflectionTest, ExtensionsAreFound) {
  rv1::ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("grpc.health.v1.HealthCheckRequest");
  auto response = ask(request);
  EXPECT_EQ(response.all_extension_numbers_response().base_type_name(), "grpc.health.v1.HealthCheckRequest");
  EXPECT_EQ(response.all_extension_numbers_response().extension_number_size(), 0);
}

TEST_P(ReflectionTest, BytesThatAreNoRequestEndTheStream) {
  EXPECT_EQ(grpc_status(*bench_.run(path(), grpc_frame("\xff"))), 3);
}

INSTANTIATE_TEST_SUITE_P(Versions, ReflectionTest, testing::Values("v1", "v1alpha"));

}  // namespace
}  // namespace weir::ops
