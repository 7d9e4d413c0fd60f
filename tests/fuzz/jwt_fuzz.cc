// Any bytes as a JSON Web Token, and as its header and claims: nobody comes in without a signature, what is wrong is
// said, and the claims that are read keep their bounds.
#include <cstdint>
#include <string>
#include <string_view>

#include "auth/jwt.h"
#include "auth/jwt_claims.h"
#include "base/encoding.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string base64url(std::string_view bytes) {
  std::string text = base::base64_encode(bytes, base::Padding::kNone);
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

const auth::KeySet& keys() {
  // The public key of RFC 7515 A.3 and a secret that nothing here signs with.
  static const auth::KeySet set =
      auth::KeySet::parse_jwks(
          R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
              "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
              {"kty":"oct","kid":"s","k":"c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldCE"}]})",
          auth::KeySet::Secrets::kTaken)
          .value();
  return set;
}

void verify(std::string_view token) {
  auth::JwtRules rules;
  rules.audiences = {"*"};
  auto check = auth::verify_jwt(token, keys(), rules, base::WallTime(std::chrono::seconds(1300819300)));
  require(!check.claims || token.ends_with(".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJ"
                                           "qPP3-Kg6NU1Q"),
          "nothing is taken but what the key has signed");
  require(check.claims || !check.claims.error().text.empty(), "a refusal says why");
  require(check.cost <= auth::KeySet::kMostTried * auth::VerificationKey::kMostCost,
          "a token costs a few signatures at most");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  verify(bytes);
  verify("eyJhbGciOiJFUzI1NiJ9." + base64url(bytes) + ".AAAA");
  verify(base64url(bytes) + ".e30.AAAA");
  auth::ClaimTexts others[] = {{"realm_access.roles"}, {"scope"}, {"a.b.c"}, {"sub", auth::ClaimTexts::Words::kWhole}};
  auth::RegisteredClaims claims;
  if (claims.parse(bytes, others).ok())
    for (const auto& claim : others)
      for (const auto& text : claim.texts) require(text.size() <= size, "a claim is no longer than its token");
  return 0;
}
