// GrpsMessages as text and as protobuf reads them.
#pragma once

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "bench.h"
#include "grps.pb.h"

namespace weir::grps {

namespace pb = ::grps::protos::v1;

constexpr std::string_view kOk =
    "{\n \"status\": {\n  \"code\": 200,\n  \"msg\": \"OK\",\n  \"status\": \"SUCCESS\"\n }";

inline std::string failure(int code, const std::string& msg) {
  return "{\n \"status\": {\n  \"code\": " + std::to_string(code) + ",\n  \"msg\": \"" + msg +
         "\",\n  \"status\": \"FAILURE\"\n }\n}\n";
}
// Parses what was answered with protobuf's own JSON.
inline pb::GrpsMessage parse(std::string_view json) {
  pb::GrpsMessage m;
  auto status = google::protobuf::util::JsonStringToMessage(std::string(json), &m);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  return m;
}

}  // namespace weir::grps
