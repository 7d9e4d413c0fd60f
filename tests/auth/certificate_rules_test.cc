#include "auth/certificate_rules.h"

#include <gtest/gtest.h>

#include "models/yaml.h"

namespace weir::auth {
namespace {

using Names = std::vector<std::string>;

CertificateRules rules_of(const std::string& yaml, std::string* wrong = nullptr) {
  CertificateRules rules;
  base::Complaints complaints("f");
  rules.read(models::parse_yaml(yaml, "f").value(), complaints);
  if (wrong)
    *wrong = complaints.status().text;
  else
    EXPECT_TRUE(complaints.none()) << complaints.status().text;
  return rules;
}

TEST(CertificateRules, AStarTakesOnePartOfAName) {
  struct Case {
    const char *pattern, *name;
    bool matches;
  };
  for (const Case& c : {Case{"DNS:a.example", "DNS:A.example", true},
                        Case{"DNS:*.example", "DNS:a.example", true},
                        Case{"DNS:*.example", "DNS:a.b.example", false},
                        Case{"DNS:*.example", "DNS:.example", false},
                        Case{"DNS:*.example", "DNS:evil.example.org", false},
                        Case{"DNS:w*.example", "DNS:web.example", true},
                        Case{"DNS:w*b.example", "DNS:wbbb.example", true},
                        Case{"DNS:w*b.example", "DNS:wb.example", false},
                        Case{"DNS:a.example", "CN:a.example", false},
                        Case{"URI:spiffe://x/ns/*/sa/*", "URI:spiffe://x/ns/p/sa/c", true},
                        Case{"URI:spiffe://x/ns/*/sa/*", "URI:spiffe://x/ns/p/q/sa/c", false},
                        Case{"URI:spiffe://x/*", "URI:spiffe://x/", false},
                        Case{"URI:spiffe://x/*", "URI:spiffe://X/a", false},
                        Case{"email:*@a.example", "email:bob@a.example", true},
                        Case{"email:*@a.example", "email:b@c@a.example", false},
                        Case{"CN:*", "CN:anything at all", true},
                        Case{"CN:*", "CN:", false},
                        Case{"CN:a*b*c", "CN:a-b-b-c", true},
                        Case{"CN:a*b*c", "CN:a-b-b-d", false},
                        Case{"*", "DNS:a", false},
                        Case{"CN:batch", "CN:batch2", false}})
    EXPECT_EQ(matches_certificate_name(c.pattern, c.name), c.matches) << c.pattern << ' ' << c.name;
  const std::string stars = "CN:" + std::string(64, '*') + "b", long_name = "CN:" + std::string(512, 'a');
  EXPECT_FALSE(matches_certificate_name(stars, long_name)) << "in no time";
}

TEST(CertificateRules, TheFirstRuleThatANameMatchesCounts) {
  auto rules = rules_of(R"(
"URI:spiffe://x/*": {tenant: mesh, roles: [infer, metrics], models: ["chat*"]}
"DNS:*.ops.example": {roles: [admin]}
"CN:batch":
)");
  auto mesh = rules.find({"DNS:a.ops.example", "URI:spiffe://x/web"});
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->tenant, "mesh");
  EXPECT_EQ(mesh->name, "URI:spiffe://x/web");
  EXPECT_EQ(*mesh->models, std::vector<std::string>{"chat*"});
  auto ops = rules.find({"DNS:a.ops.example", "CN:batch"});
  ASSERT_TRUE(ops);
  EXPECT_TRUE(ops->roles.has(wire::Role::kAdmin));
  EXPECT_FALSE(ops->roles.has(wire::Role::kInfer));
  EXPECT_EQ(ops->tenant, "");
  EXPECT_FALSE(ops->models);
  EXPECT_TRUE(rules.find({"CN:batch"})->roles.has(wire::Role::kInfer));
  EXPECT_FALSE(rules.find({"CN:other"}));
  EXPECT_FALSE(rules.find({}));
}

TEST(CertificateRules, MistakesAreSaidWhereTheyAre) {
  std::string wrong;
  rules_of("\"a.example\": {}\n\"DNS:a\": {role: [infer], roles: [root], tenant: [a]}\n\"CN:b\": 3\n", &wrong);
  EXPECT_NE(wrong.find("f:1:1: auth.certificates: expected URI:"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("unknown key 'role' in 'auth.certificates', did you mean 'roles'?"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("expected infer, admin, metrics or health, got 'root'"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("expected the name of a tenant"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("f:3:9: expected {tenant"), std::string::npos) << wrong;
}

TEST(CertificateRules, WhatIsShownReadsTheSame) {
  const std::string yaml =
      "\"DNS:*.example\": {tenant: t, roles: [admin], models: [\"a*\", b], limits: {requests_per_second: 0.5, "
      "concurrent: 2, tokens_per_minute: 7, bytes_per_minute: 1KiB}}\n\"CN:b\": {}\n";
  auto rules = rules_of(yaml);
  const std::string shown = "auth:\n" + rules.show();
  const base::Yaml document = models::parse_yaml(shown, "f").value();
  CertificateRules again;
  base::Complaints complaints("f");
  again.read(*document.find("auth")->find("certificates"), complaints);
  EXPECT_TRUE(complaints.none()) << complaints.status().text;
  EXPECT_EQ(again.show(), rules.show());
}

TEST(KnownCertificates, TheSameNamesAreTheSameIdentity) {
  auto rules = rules_of("\"DNS:*.example\": {roles: [infer]}\n");
  Limiters limiters;
  KnownCertificates known(rules, limiters);
  auto first = known.identity_of({"DNS:a.example"});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->tenant, "DNS:a.example");
  EXPECT_EQ(known.identity_of({"DNS:a.example"}), first);
  EXPECT_NE(known.identity_of({"DNS:b.example"})->tenant_number, first->tenant_number);
  EXPECT_FALSE(known.identity_of({"DNS:a.other"}));
  for (size_t i = 0; i < 2 * KnownCertificates::kMostCached; ++i)
    EXPECT_TRUE(known.identity_of({"DNS:n" + std::to_string(i) + ".example"}));
}

TEST(KnownCertificates, TheCertificatesOfATenantShareItsLimits) {
  auto rules =
      rules_of("\"DNS:*.example\": {tenant: t, limits: {concurrent: 1}}\n\"CN:*\": {limits: {concurrent: 1}}\n");
  Limiters limiters;
  KnownCertificates known(rules, limiters), elsewhere(rules, limiters);
  constexpr base::Time kNow{std::chrono::hours(1)};
  auto held = wire::Caller::enter(known.identity_of({"DNS:a.example"}), kNow);
  ASSERT_TRUE(held);
  EXPECT_FALSE(wire::Caller::enter(elsewhere.identity_of({"DNS:b.example"}), kNow));
  EXPECT_TRUE(wire::Caller::enter(known.identity_of({"CN:a"}), kNow));
  std::string wrong;
  rules_of("\"CN:a\": {limits: {requests: 1, concurrent: none}}\n\"CN:b\": {limits: 3}\n", &wrong);
  EXPECT_NE(wrong.find("unknown key 'requests' in 'limits'"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("expected a number above 0"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("expected a map of limits"), std::string::npos) << wrong;
}

}  // namespace
}  // namespace weir::auth
