#include "auth/credentials.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weir::auth {
namespace {

using Headers = std::vector<std::pair<std::string_view, std::string_view>>;

// The secret; "-" where none is shown; "!" and the error.
std::string shown(const Headers& headers) {
  wire::Request request;
  for (auto [name, value] : headers) request.fields.add(name, value);
  auto found = credentials_of(request);
  if (!found) {
    EXPECT_EQ(found.error().code, base::Code::kUnauthenticated);
    return "!" + found.error().text;
  }
  return found->shown ? std::string(found->secret()) : "-";
}

TEST(Credentials, ASecretIsShownInOneOfFourWays) {
  EXPECT_EQ(shown({{"authorization", "Bearer s3"}}), "s3");
  EXPECT_EQ(shown({{"authorization", "bEARER   s3"}}), "s3");
  EXPECT_EQ(shown({{"x-api-key", "s3"}}), "s3");
  EXPECT_EQ(shown({{"api-key", " s3 "}}), "s3");
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir, weir.key.czM"}}), "s3");
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir.key.Pz8_Pj4-"}}), "\?\?\?>>>");
  EXPECT_EQ(shown({}), "-");
  EXPECT_EQ(shown({{"authorization", "Basic c2VjcmV0"}}), "-");
  EXPECT_EQ(shown({{"authorization", "s3"}}), "-");
  EXPECT_EQ(shown({{"sec-websocket-protocol", "chat"}}), "-");
}

TEST(Credentials, TwoOfThemAreRefusedUnlessTheySayTheSame) {
  const std::string two = "!there are two authorization fields: send one";
  EXPECT_EQ(shown({{"authorization", "Bearer a"}, {"authorization", "Bearer a"}}), two);
  EXPECT_EQ(shown({{"authorization", "Bearer a"}, {"authorization", "Basic b"}}), two);
  EXPECT_EQ(shown({{"authorization", "Bearer a"}, {"x-api-key", "b"}})[0], '!');
  EXPECT_EQ(shown({{"x-api-key", "a"}, {"x-api-key", "b"}})[0], '!');
  EXPECT_EQ(shown({{"x-api-key", ""}, {"api-key", "b"}})[0], '!');
  EXPECT_EQ(shown({{"authorization", "Bearer a"}, {"x-api-key", "a"}, {"api-key", "a"}}), "a");
  EXPECT_EQ(shown({{"authorization", "Basic x"}, {"x-api-key", "a"}}), "a") << "a proxy's own";
}

TEST(Credentials, AFieldCountsBeforeASubprotocol) {
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir.key.czM"}, {"x-api-key", "a"}}), "a");
}

TEST(Credentials, WhatIsNoSecretIsShownAllTheSame) {
  EXPECT_EQ(shown({{"authorization", "Bearer "}}), "");
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir.key."}}), "");
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir.key.++//"}}), "") << "base64, and not base64url";
  EXPECT_EQ(shown({{"sec-websocket-protocol", "weir.key.!"}}), "");
}

TEST(Credentials, AnEndlessSecretIsNotHashed) {
  EXPECT_EQ(shown({{"x-api-key", std::string(kMostSecretBytes + 1, 'a')}})[0], '!');
  EXPECT_EQ(shown({{"x-api-key", std::string(kMostSecretBytes, 'a')}}).size(), kMostSecretBytes);
}

}  // namespace
}  // namespace weir::auth
