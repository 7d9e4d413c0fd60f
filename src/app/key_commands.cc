#include "app/key_commands.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/locked_file.h"
#include "auth/grant.h"
#include "auth/key_file.h"
#include "auth/key_file_edit.h"
#include "base/units.h"
#include "models/yaml.h"

namespace weir::app {
namespace {

using auth::Key;

Exit key_failure(const base::Status& status) {
  std::fprintf(stderr, "weir: %s\n", status.text.c_str());
  return status.code == base::Code::kInvalidArgument ? Exit::kUsage : Exit::kFailed;
}

// The file, as a document and as keys.
struct KeyDocument {
  base::Yaml root;
  std::vector<Key> keys;
};

base::Result<KeyDocument> parse_keys(const std::string& text, const std::string& path) {
  KeyDocument out;
  auto root = models::parse_yaml(text, path, {auth::kMostKeyFileBytes, auth::kMostKeyFileNodes});
  if (!root) return root.error();
  out.root = std::move(*root);
  if (out.root.kind == base::Yaml::Kind::kNull) return out;  // nothing but comments
  auto keys = auth::read_keys(out.root, path);
  if (!keys) return keys.error();
  out.keys = std::move(*keys);
  return out;
}

// "90d", "12h" (from now), or a time of RFC 3339; "never" and "" are nothing.
base::Result<std::optional<base::WallTime>> expiry(const std::string& text) {
  using std::chrono::hours;
  if (text.empty() || text == "never") return std::optional<base::WallTime>();
  if (auto when = auth::parse_time(text)) return std::optional(*when);
  const base::WallTime now = std::chrono::system_clock::now();
  uint32_t days = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), days);
  constexpr uint32_t kMostDays = 36'500;
  if (error == std::errc() && end + 1 == text.data() + text.size() && *end == 'd' && days > 0 && days <= kMostDays)
    return std::optional(now + hours(24) * days);
  auto duration = base::parse_duration(text);
  if (!duration || duration->count() <= 0)
    return base::invalid("--expires: expected 90d, 12h, never, or a time such as 2027-01-31T00:00:00Z, got '" + text +
                         "'");
  return std::optional(now + *duration);
}

base::Status check_words(const KeyWords& words) {
  if (words.file.empty())
    return base::invalid("expected the file of keys: --keys-file FILE, or a configuration with auth.keys_file");
  for (const auto& role : words.roles)
    if (!auth::parse_role(role)) return base::invalid("--roles: expected infer, admin or metrics, got '" + role + "'");
  return {};
}

// Takes the place of the file if it is what was meant: it can be read, and has `expected` keys.
base::Status replace_keys(LockedFile& file, const std::string& text, size_t expected) {
  auto after = parse_keys(text, file.path());
  if (!after) return after.error();
  if (after->keys.size() != expected)
    return base::failure(base::Code::kFailedPrecondition, "'" + file.path() + "' cannot be edited: change it by hand");
  return file.replace(text);
}

base::Result<std::string> add_to_file(const KeyWords& words) {
  if (auto s = check_words(words); !s.ok()) return s;
  auto expires = expiry(words.expires);
  if (!expires) return expires.error();
  auto file = LockedFile::open(words.file, LockedFile::Missing::kMake);
  if (!file) return file.error();
  auto before = parse_keys(file->text(), file->path());
  if (!before) return before.error();
  std::string key = auth::make_key();
  auto text = auth::add_key(
      file->text(), before->root,
      {words.name, auth::show_digest(auth::digest_of(key)), words.tenant, words.roles, words.models, *expires});
  if (!text) return text.error();
  if (auto s = replace_keys(*file, *text, before->keys.size() + 1); !s.ok()) return s;
  return key;
}

std::string tenant_text(const auth::Grant& grant) { return grant.tenant.empty() ? grant.name : grant.tenant; }

std::string models_text(const auth::Grant& grant) {
  if (!grant.models) return "all";
  std::string out;
  for (const auto& pattern : *grant.models) (out += out.empty() ? "" : ", ") += pattern;
  return out.empty() ? "none" : out;
}

std::string expires_text(const auth::Grant& grant) {
  if (grant.expires == base::WallTime::max()) return "never";
  const bool over = grant.expires <= base::WallTime(std::chrono::system_clock::now());
  return auth::show_time(grant.expires) + (over ? " (expired)" : "");
}

void print_key_json(const std::vector<Key>& keys) {
  auto rows = nlohmann::json::array();
  for (const auto& key : keys) {
    const auto& grant = key.grant;
    nlohmann::json row{{"name", grant.name}, {"tenant", tenant_text(grant)}, {"roles", auth::show_roles(grant.roles)}};
    if (grant.models) row["models"] = *grant.models;
    if (grant.expires != base::WallTime::max()) row["expires"] = auth::show_time(grant.expires);
    rows.push_back(std::move(row));
  }
  std::printf("%s\n", rows.dump(2).c_str());
}

void print_key_table(const std::vector<Key>& keys) {
  std::vector<std::array<std::string, 5>> rows{{"NAME", "TENANT", "ROLES", "MODELS", "EXPIRES"}};
  for (const auto& [grant, digest] : keys)
    rows.push_back(
        {grant.name, tenant_text(grant), auth::show_roles(grant.roles), models_text(grant), expires_text(grant)});
  std::array<size_t, 5> wide{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) wide[i] = std::max(wide[i], row[i].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) std::printf("%-*s  ", int(wide[i]), row[i].c_str());
    std::printf("%s\n", row.back().c_str());
  }
}

}  // namespace

Exit new_key(const KeyWords& words) {
  auto key = add_to_file(words);
  if (!key) return key_failure(key.error());
  std::printf("%s\n", key->c_str());
  std::fprintf(stderr, "This is the key of '%s'. It is shown this once: '%s' has its hash alone.\n", words.name.c_str(),
               words.file.c_str());
  return Exit::kOk;
}

Exit list_keys(const KeyWords& words) {
  if (auto s = check_words(words); !s.ok()) return key_failure(s);
  auto file = LockedFile::open(words.file, LockedFile::Missing::kFail);
  if (!file) return key_failure(file.error());
  auto document = parse_keys(file->text(), file->path());
  if (!document) return key_failure(document.error());
  if (words.output == Output::kJson)
    print_key_json(document->keys);
  else
    print_key_table(document->keys);
  return Exit::kOk;
}

Exit revoke_key(const KeyWords& words) {
  if (auto s = check_words(words); !s.ok()) return key_failure(s);
  auto file = LockedFile::open(words.file, LockedFile::Missing::kFail);
  if (!file) return key_failure(file.error());
  auto before = parse_keys(file->text(), file->path());
  if (!before) return key_failure(before.error());
  auto text = auth::remove_key(file->text(), before->root, words.name);
  if (!text) return key_failure(text.error());
  if (auto s = replace_keys(*file, *text, before->keys.size() - 1); !s.ok()) return key_failure(s);
  return Exit::kOk;
}

}  // namespace weir::app
