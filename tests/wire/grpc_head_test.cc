// grpc-timeout, grpc-status, grpc-message, -bin metadata.
#include <gtest/gtest.h>

#include <chrono>

#include "wire/grpc_status.h"
#include "wire/grpc_timeout.h"
#include "wire/rpc.h"

namespace weir::wire {
namespace {

using base::Code;
using base::Duration;
using namespace std::chrono_literals;

TEST(GrpcTimeout, EachUnitCounts) {
  struct Row {
    std::string_view text;
    Duration value;
  };
  for (auto [text, value] : {Row{"1H", 1h},
                             {"2M", 2min},
                             {"3S", 3s},
                             {"4m", 4ms},
                             {"5u", 5us},
                             {"6n", 6ns},
                             {"0n", 0ns},
                             {"00000001S", 1s},
                             {"99999999n", 99999999ns},
                             {"99999999S", 99999999s}}) {
    ASSERT_TRUE(parse_grpc_timeout(text)) << text;
    EXPECT_EQ(*parse_grpc_timeout(text), value) << text;
  }
}

TEST(GrpcTimeout, WhatNoDurationCanHoldIsTheLongest) {
  for (auto text : {"99999999H", "9999999H", "2562048H"}) EXPECT_EQ(parse_grpc_timeout(text), Duration::max()) << text;
  EXPECT_EQ(parse_grpc_timeout("2562047H"), Duration(2562047h));
}

TEST(GrpcTimeout, MalformedIsNothing) {
  for (auto text : {"", "S", "1", "1x", "1s", "1h", "-1S", "+1S", " 1S", "1S ", "1.5S", "123456789S", "1SS", "0x1S",
                    "1 S", "\xc2\xb2S"})
    EXPECT_FALSE(parse_grpc_timeout(text)) << text;
}

TEST(GrpcTimeout, ADeadlinePastTheEndOfTimeIsNever) {
  base::Time now{1000s};
  EXPECT_EQ(deadline_after(now, 1s), now + 1s);
  EXPECT_EQ(deadline_after(now, Duration::max()), base::kNever);
}

TEST(GrpcStatus, TheMessageIsPercentEncoded) {
  EXPECT_EQ(encode_grpc_message("plain text!"), "plain text!");
  EXPECT_EQ(encode_grpc_message("100%"), "100%25");
  EXPECT_EQ(encode_grpc_message("a\r\nb\t"), "a%0D%0Ab%09");
  EXPECT_EQ(
      encode_grpc_message("\t\ntest with whitespace\r\nand Unicode BMP \xE2\x98\xBA and non-BMP \xF0\x9F\x98\x88\t\n"),
      "%09%0Atest with whitespace%0D%0Aand Unicode BMP %E2%98%BA and non-BMP %F0%9F%98%88%09%0A");
  EXPECT_EQ(encode_grpc_message(std::string("\0\x7f\xff", 3)), "%00%7F%FF");
}

TEST(GrpcStatus, ALongMessageIsCutBetweenEscapes) {
  std::string out = encode_grpc_message(std::string(10000, '\n'));
  EXPECT_EQ(out.size(), kMaxGrpcMessage / 3 * 3);
  EXPECT_EQ(encode_grpc_message(std::string(10000, 'x')).size(), kMaxGrpcMessage - 2) << "an escape could come next";
  Fields fields;
  add_grpc_status(fields, base::invalid(std::string(10000, 'x')));
  EXPECT_LE(fields.find("grpc-message").size(), kMaxGrpcMessage);
}

TEST(GrpcStatus, APlainMessageIsTheSameWhicheverWayItIsWritten) {
  for (size_t size = kMaxGrpcMessage - 5; size < kMaxGrpcMessage + 5; ++size) {
    const std::string text(size, 'x');
    Fields fields;
    add_grpc_status(fields, base::invalid(text));
    EXPECT_EQ(fields.find("grpc-message"), encode_grpc_message(text)) << size;
  }
  Fields fields;
  add_grpc_status(fields, base::invalid("100%"));
  EXPECT_EQ(fields.find("grpc-message"), "100%25");
}

TEST(GrpcStatus, DetailsThatAreTooLongAreLeftOut) {
  for (size_t more : {0, 1}) {
    Fields fields;
    add_grpc_status(fields, {Code::kInternal, "x", std::string(kMaxGrpcDetails + more, 'd')});
    EXPECT_EQ(fields.has("grpc-status-details-bin"), more == 0);
  }
}

TEST(GrpcStatus, EveryCodeHasItsNumber) {
  for (int code = 0; code <= 16; ++code) {
    Fields fields;
    add_grpc_status(fields, {Code(code), {}, {}});
    EXPECT_EQ(fields.find("grpc-status"), std::to_string(code));
    EXPECT_FALSE(fields.has("grpc-message"));
  }
}

TEST(GrpcStatus, DetailsAreBase64WithoutPadding) {
  Fields fields;
  add_grpc_status(fields, {Code::kUnavailable, "later", std::string("\x08\x0e", 2)});
  EXPECT_EQ(fields.find("grpc-status-details-bin"), "CA4");
  Fields huge;
  add_grpc_status(huge, {Code::kUnavailable, "later", std::string(100000, 'x')});
  EXPECT_FALSE(huge.has("grpc-status-details-bin"));
}

TEST(Metadata, ABinValueGoesThereAndBack) {
  for (std::string_view raw : {std::string_view("\0\x01\xff", 3), std::string_view("a"), std::string_view("ab")}) {
    Fields fields;
    add_metadata(fields, "x-bin", raw);
    EXPECT_EQ(metadata_bin(fields, "x-bin"), std::string(raw));
  }
}

TEST(Metadata, ABinValueMayBePaddedOrCommaJoined) {
  Fields fields;
  fields.add("padded-bin", "YQ==");
  fields.add("joined-bin", "YQ,Yg");
  fields.add("bad-bin", "Y*Q");
  fields.add("short-bin", "Y");
  fields.add("empty-bin", "");
  EXPECT_EQ(metadata_bin(fields, "padded-bin"), "a");
  EXPECT_EQ(metadata_bin(fields, "joined-bin"), "a");
  EXPECT_EQ(metadata_bin(fields, "bad-bin"), std::nullopt);
  EXPECT_EQ(metadata_bin(fields, "short-bin"), std::nullopt);
  EXPECT_EQ(metadata_bin(fields, "empty-bin"), "");
  EXPECT_EQ(metadata_bin(fields, "absent-bin"), std::nullopt);
}

TEST(Metadata, AValueThatHttpForbidsIsDropped) {
  Fields fields;
  add_metadata(fields, "x", "a\r\ngrpc-status: 0");
  add_metadata(fields, "y", std::string_view("\0", 1));
  add_metadata(fields, "", "z");
  EXPECT_EQ(fields.size(), 0u);
}

TEST(GrpcHead, OneFunctionTellsWhichContentTypesAreGrpcs) {
  for (auto type : {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8",
                    "application/grpc ; a=b", "Application/GRPC", "APPLICATION/GRPC+PROTO"}) {
    EXPECT_TRUE(is_grpc(type)) << type;
    EXPECT_TRUE(is_grpc_or_web(type)) << type;
  }
  for (auto type : {"application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text;q=1",
                    "Application/gRPC-Web"}) {
    EXPECT_FALSE(is_grpc(type)) << type;
    EXPECT_TRUE(is_grpc_or_web(type)) << type;
  }
  for (auto type : {"", "application/grp", "application/grpcx", "application/grpc-webx", "application/json",
                    "text/application/grpc", "application/grpc-"}) {
    EXPECT_FALSE(is_grpc(type)) << type;
    EXPECT_FALSE(is_grpc_or_web(type)) << type;
  }
}

}  // namespace
}  // namespace weir::wire
