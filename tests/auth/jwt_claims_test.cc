#include "auth/jwt_claims.h"

#include <gtest/gtest.h>

namespace weir::auth {
namespace {

struct JwtClaimsTest : testing::Test {
  std::string read(std::string_view json) {
    claims = {};
    others = {{"models"}, {"scope", ClaimTexts::Words::kSplit, ClaimTexts::Others::kSkipped}};
    return claims.parse(json, others).text;
  }

  RegisteredClaims claims;
  std::vector<ClaimTexts> others;
};

TEST_F(JwtClaimsTest, AClaimThatIsNullIsNotThere) {
  EXPECT_EQ(read(R"({"iss":null,"aud":null,"exp":null,"nbf":null,"iat":null,"models":null,"scope":null})"), "");
  EXPECT_FALSE(claims.issuer.found || claims.audience.found || claims.expires || claims.not_before || claims.issued);
  EXPECT_FALSE(others[0].found || others[1].found);
}

TEST_F(JwtClaimsTest, AClaimThatCannotBeReadIsNamed) {
  EXPECT_EQ(read(R"({"nbf":"0"})").find("the token's claims (nbf) cannot be read: "), 0u) << read(R"({"nbf":"0"})");
  EXPECT_EQ(read(R"({"models":[1]})").find("the token's claims (models) cannot be read: "), 0u);
  EXPECT_EQ(read(R"({"x":1,"x":2})").find("the token's claims cannot be read: "), 0u);
}

// A claim of models that cannot be read must not open all models.
TEST_F(JwtClaimsTest, OnlyClaimsThatAllowItHaveValuesOfOtherTypesSkipped) {
  for (const char* value : {R"({"a":1})", "true", "[true]"}) {
    EXPECT_NE(read(R"({"models":)" + std::string(value) + "}"), "") << value;
    EXPECT_EQ(read(R"({"scope":)" + std::string(value) + "}"), "") << value;
  }
  EXPECT_EQ(read(R"({"scope":["a",{"b":1},2,"c"]})"), "");
  EXPECT_EQ(others[1].texts, (std::vector<std::string>{"a", "c"}));
}

}  // namespace
}  // namespace weir::auth
