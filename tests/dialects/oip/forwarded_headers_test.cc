#include "dialects/oip/forwarded_headers.h"

#include <gtest/gtest.h>

namespace weir::oip {
namespace {

std::string names(const msg::Parameters& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) out += name + "=" + std::get<std::string>(value) + " ";
  return out;
}

TEST(ForwardedHeaders, OnlyThoseOfThePatternsAreParameters) {
  wire::Fields fields;
  for (const char* name : {"x-a", "x-ab", "y", "x-a", "priority", "x_under", "timeout", "authorization"})
    fields.add(name, "v");
  msg::Parameters none, exact, all{{"y", std::string("own")}};
  EXPECT_TRUE(forward_headers({}, fields, none).ok());
  EXPECT_EQ(names(none), "");
  EXPECT_TRUE(forward_headers({"x-a"}, fields, exact).ok());
  EXPECT_EQ(names(exact), "x-a=v ");
  EXPECT_TRUE(forward_headers({"*"}, fields, all).ok());
  EXPECT_EQ(names(all), "y=own x-a=v x-ab=v ") << "a key is no value of any header";
  msg::Parameters key;
  EXPECT_TRUE(forward_headers({"a*", "authorization"}, fields, key).ok());
  EXPECT_EQ(names(key), "authorization=v ");
}

TEST(ForwardedHeaders, AParameterIsText) {
  for (const auto& [value, good] : {std::pair("caf\xc3\xa9", true), std::pair("caf\xe9", false)}) {
    msg::Parameters parameters;
    wire::Fields fields;
    fields.add("x-a", value);
    EXPECT_EQ(forward_headers({"x-*"}, fields, parameters).ok(), good) << value;
  }
}

TEST(ForwardedHeaders, TheirNumberAndBytesAreBounded) {
  msg::Parameters parameters;
  wire::Fields many, large;
  for (size_t i = 0; i < kMostForwarded; ++i) many.add("x-" + std::to_string(i), "");
  EXPECT_TRUE(forward_headers({"x-*"}, many, parameters).ok());
  EXPECT_EQ(parameters.size(), kMostForwarded);
  parameters.clear();
  many.add("x-more", "");
  EXPECT_EQ(forward_headers({"x-*"}, many, parameters).code, base::Code::kInvalidArgument);
  large.add("x-1", std::string(kMostForwardedBytes - 3, 'v'));
  EXPECT_TRUE(forward_headers({"x-*"}, large, parameters).ok());
  parameters.clear();
  large.add("x-2", "v");
  EXPECT_EQ(forward_headers({"x-*"}, large, parameters).code, base::Code::kInvalidArgument);
  EXPECT_TRUE(parameters.empty());
}

TEST(ForwardedHeaders, APatternIsANameOrItsBeginning) {
  for (const char* right : {"x-a", "x-*", "*", "a.b"}) EXPECT_TRUE(check_header_pattern(right).ok()) << right;
  for (const char* wrong : {"", "X-A", "x-*-y", "x_a", "x-a:", "(x|y)"})
    EXPECT_FALSE(check_header_pattern(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace weir::oip
