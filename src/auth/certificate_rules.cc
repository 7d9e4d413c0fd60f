#include "auth/certificate_rules.h"

#include <utility>

#include "auth/usage_limits.h"
#include "wire/text.h"

namespace weir::auth {
namespace {

using base::Complaints;
using base::Yaml;

// The kind of a name, with its colon; empty for an unknown kind.
std::string_view kind_of(std::string_view name) {
  for (std::string_view kind : {"URI:", "DNS:", "email:", "CN:"})
    if (name.starts_with(kind)) return kind;
  return {};
}

std::string_view separators_of(std::string_view kind) {
  return kind == "URI:" ? "/" : kind == "DNS:" ? "." : kind == "email:" ? ".@" : "";
}

// Matches by backtracking: a star first takes one character, and takes one more each time the rest of the pattern does
// not match. A star takes no separator, so only the last star has to be tried again, and the work is at most the
// product of both lengths.
bool matches_parts(std::string_view pattern, std::string_view name, std::string_view separators, bool any_case) {
  auto same = [any_case](char a, char b) { return any_case ? wire::lower(a) == wire::lower(b) : a == b; };
  auto separates = [separators](char c) { return separators.find(c) != separators.npos; };
  size_t p = 0, star = pattern.npos, taken = 0;
  for (size_t n = 0; n < name.size();) {
    if (p < pattern.size() && pattern[p] == '*' && !separates(name[n])) {
      star = ++p, taken = ++n;
    } else if (p < pattern.size() && pattern[p] != '*' && same(pattern[p], name[n])) {
      ++p, ++n;
    } else {
      if (star == pattern.npos || separates(name[taken])) return false;
      p = star, n = ++taken;
    }
  }
  return p == pattern.size();
}

bool read_words(const Yaml& node, Complaints& complaints, std::vector<std::string>& out) {
  if (node.kind == Yaml::Kind::kScalar) return out = {node.scalar}, true;
  if (node.kind != Yaml::Kind::kList) return complaints.at(node, "expected a list"), false;
  for (const auto& item : node.items) {
    if (item.kind != Yaml::Kind::kScalar) return complaints.at(item, "expected one value"), false;
    out.push_back(item.scalar);
  }
  return true;
}

void read_roles(const Yaml& node, Complaints& complaints, wire::Roles& out) {
  std::vector<std::string> words;
  if (!read_words(node, complaints, words)) return;
  out = {};
  for (const auto& word : words) {
    auto role = parse_role(word);
    if (role) out.add(*role);
    if (!role) complaints.at(node, "expected infer, admin, metrics or health, got '" + word + "'");
  }
}

void read_rule(const Yaml& node, Complaints& complaints, CertificateRule& rule) {
  if (node.kind == Yaml::Kind::kNull) return;
  if (node.kind != Yaml::Kind::kMap)
    return complaints.at(node, "expected {tenant: …, roles: […], models: […], limits: {…}}");
  for (const auto& entry : node.entries) {
    if (entry.key == "roles") {
      read_roles(entry.value, complaints, rule.roles);
    } else if (entry.key == "models") {
      read_words(entry.value, complaints, rule.models.emplace());
    } else if (entry.key == "limits") {
      read_limits(entry.value, complaints, rule.limits);
    } else if (entry.key != "tenant") {
      complaints.unknown_key(entry, "auth.certificates", {"tenant", "roles", "models", "limits"});
    } else if (entry.value.kind == Yaml::Kind::kScalar) {
      rule.tenant = entry.value.scalar;
    } else {
      complaints.at(entry.value, "expected the name of a tenant");
    }
  }
}

std::string show_list(std::string_view key, const std::vector<std::string>& words) {
  std::string out = "      " + std::string(key) + ": [";
  for (size_t i = 0; i < words.size(); ++i) out += (i ? ", " : "") + base::yaml_scalar(words[i]);
  return out + "]\n";
}

}  // namespace

bool matches_certificate_name(std::string_view pattern, std::string_view name) {
  std::string_view kind = kind_of(pattern);
  if (kind.empty() || kind_of(name) != kind) return false;
  const bool any_case = kind == "DNS:" || kind == "email:";
  return matches_parts(pattern.substr(kind.size()), name.substr(kind.size()), separators_of(kind), any_case);
}

void CertificateRules::read(const Yaml& node, Complaints& complaints) {
  rules_.clear();
  if (node.kind == Yaml::Kind::kNull) return;
  if (node.kind != Yaml::Kind::kMap)
    return complaints.at(node, "auth.certificates: expected a map from names in certificates to tenants");
  if (node.entries.size() > kMostRules) return complaints.at(node, "auth.certificates: expected at most 1024 names");
  for (const auto& entry : node.entries) {
    if (kind_of(entry.key).empty())
      complaints.at(entry.line, entry.column, "auth.certificates: expected URI:…, DNS:…, email:… or CN:…");
    rules_.push_back({entry.key, {}, {wire::Role::kInfer}, {}});
    read_rule(entry.value, complaints, rules_.back());
  }
}

std::string CertificateRules::show() const {
  std::string out = rules_.empty() ? "" : "  certificates:\n";
  for (const auto& rule : rules_) {
    out += "    \"" + rule.pattern + "\":\n";
    if (!rule.tenant.empty()) out += "      tenant: " + base::yaml_scalar(rule.tenant) + '\n';
    out += "      roles: [" + (rule.roles.none() ? "" : show_roles(rule.roles)) + "]\n";
    if (rule.models) out += show_list("models", *rule.models);
    if (!rule.limits.none()) out += "      limits: " + show_limits(rule.limits) + '\n';
  }
  return out;
}

std::optional<Grant> CertificateRules::find(const std::vector<std::string>& names) const {
  for (const auto& rule : rules_)
    for (const auto& name : names) {
      if (!matches_certificate_name(rule.pattern, name)) continue;
      Grant grant;
      grant.name = name, grant.tenant = rule.tenant, grant.roles = rule.roles, grant.models = rule.models;
      grant.limits = rule.limits, grant.limits_of = Grant::LimitsOf::kTenant;
      return grant;
    }
  return std::nullopt;
}

IdentityRef KnownCertificates::identity_of(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) (all += name) += '\n';  // no name has a line end
  if (auto found = known_.find(all); found != known_.end()) return found->second;
  auto grant = rules_.find(names);
  IdentityRef identity = grant ? IdentityRef(make_identity(*grant, limiters_)) : nullptr;
  if (known_.size() >= kMostCached) known_.clear();
  known_.emplace(std::move(all), identity);
  return identity;
}

base::Setting certificates_setting(CertificateRules& rules) {
  base::Setting row;
  row.key = "auth.certificates";
  row.form = base::Setting::ValueKind::kTree;
  row.help = "who a client certificate stands for: names in it to tenant, roles and models (needs tls.client_ca)";
  row.read = [&rules](const Yaml& node, Complaints& complaints) { rules.read(node, complaints); };
  row.show = [&rules] { return rules.show(); };
  return row;
}

}  // namespace weir::auth
