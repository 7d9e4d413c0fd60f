#include "auth/key_file.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "auth/usage_limits.h"
#include "base/encoding.h"

namespace weir::auth {
namespace {

using base::Complaints;
using base::Yaml;

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kMostName = 128, kMostModels = 1024, kMostPattern = 256;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The next `n` digits of `text`, which are taken off; negative where they are none.
int take_number(std::string_view& text, size_t n) {
  if (text.size() < n) return -1;
  int out = 0;
  for (char c : text.substr(0, n)) {
    if (c < '0' || c > '9') return -1;
    out = out * 10 + (c - '0');
  }
  text.remove_prefix(n);
  return out;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text[0]) == any_of.npos) return false;
  text.remove_prefix(1);
  return true;
}

// "Z", "+02:00", "-05:30". Nothing where it is none, or something follows.
std::optional<std::chrono::minutes> parse_offset(std::string_view text) {
  if (take(text, "Zz")) return text.empty() ? std::optional(std::chrono::minutes(0)) : std::nullopt;
  const bool behind = text.starts_with('-');
  if (!take(text, "+-")) return std::nullopt;
  const int hours = take_number(text, 2);
  if (hours < 0 || hours > 23 || !take(text, ":")) return std::nullopt;
  const int minutes = take_number(text, 2);
  if (minutes < 0 || minutes > 59 || !text.empty()) return std::nullopt;
  const auto offset = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  return behind ? -offset : offset;
}

bool visible(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

class KeyReading {
 public:
  explicit KeyReading(std::string_view file) : complaints_(std::string(file)) {}

  base::Result<std::vector<Key>> read(const Yaml& root) {
    if (root.kind != Yaml::Kind::kMap)
      complaints_.at(root, "expected 'keys:' with a list of keys");
    else
      members(root, "", {"keys"}, [this](const Yaml::Member& m) { list(m.value); });
    if (!complaints_.none()) return complaints_.status();
    return std::move(keys_);
  }

 private:
  // Calls `take` with every member whose key is one of `known`, and complains of the others.
  template <class Take>
  void members(const Yaml& node, std::string_view where, const std::vector<std::string_view>& known, Take take) {
    for (const auto& member : node.entries)
      if (std::find(known.begin(), known.end(), member.key) == known.end())
        complaints_.unknown_key(member, where, known);
      else
        take(member);
  }

  void list(const Yaml& node) {
    if (node.kind == Yaml::Kind::kNull) return;
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of keys");
    if (node.items.size() > kMostKeys) return complaints_.at(node, "more than " + std::to_string(kMostKeys) + " keys");
    for (const auto& item : node.items) key(item);
  }

  void key(const Yaml& node) {
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map: name, hash, roles, …");
    Key out;
    out.grant.roles = {wire::Role::kInfer};
    bool hashed = false;
    members(node, "keys", {"name", "hash", "tenant", "roles", "models", "limits", "expires"},
            [&](const Yaml::Member& m) {
              hashed = hashed || m.key == "hash";
              member(m, out);
            });
    if (out.grant.name.empty()) complaints_.at(node, "a key needs a name");
    if (!hashed) complaints_.at(node, "a key needs a hash: \"sha256:\" and 64 hexadecimal digits");
    keys_.push_back(std::move(out));
  }

  void member(const Yaml::Member& m, Key& out) {
    if (m.key == "name") {
      out.grant.name = word(m.value);
      if (!out.grant.name.empty() && !names_.insert(out.grant.name).second)
        complaints_.at(m.value, "there is another key with the name '" + out.grant.name + "'");
    } else if (m.key == "hash") {
      hash(m.value, out.digest);
    } else if (m.key == "tenant") {
      out.grant.tenant = word(m.value);
    } else if (m.key == "roles") {
      roles(m.value, out.grant.roles);
    } else if (m.key == "models") {
      models(m.value, out.grant);
    } else if (m.key == "limits") {
      read_limits(m.value, complaints_, out.grant.limits);
    } else {
      expires(m.value, out.grant);
    }
  }

  // The text of the node itself is not quoted: it may be a secret that somebody has put in the wrong place.
  std::string word(const Yaml& node) {
    if (node.kind == Yaml::Kind::kScalar && visible(node.scalar) && node.scalar.size() <= kMostName) return node.scalar;
    complaints_.at(node, "expected visible ASCII without blanks, at most " + std::to_string(kMostName) + " bytes");
    return {};
  }

  void hash(const Yaml& node, Digest& out) {
    auto digest = parse_digest(node.scalar);
    if (node.kind != Yaml::Kind::kScalar || !digest)
      return complaints_.at(node, "expected \"sha256:\" and 64 hexadecimal digits (`weir key new` makes them)");
    if (!digests_.insert(*digest).second) complaints_.at(node, "there is another key with this hash");
    out = *digest;
  }

  void roles(const Yaml& node, wire::Roles& out) {
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of infer, admin, metrics");
    out = {};
    for (const auto& item : node.items) {
      auto role = item.kind == Yaml::Kind::kScalar ? parse_role(item.scalar) : std::nullopt;
      if (role)
        out.add(*role);
      else
        complaints_.at(item, "expected infer, admin or metrics");
    }
  }

  void models(const Yaml& node, Grant& out) {
    if (node.kind != Yaml::Kind::kList || node.items.size() > kMostModels)
      return complaints_.at(node,
                            "expected a list of patterns such as \"chat*\", at most " + std::to_string(kMostModels));
    out.models.emplace();
    for (const auto& item : node.items)
      if (item.kind == Yaml::Kind::kScalar && visible(item.scalar) && item.scalar.size() <= kMostPattern)
        out.models->push_back(item.scalar);
      else
        complaints_.at(item, "expected a pattern such as \"chat*\"");
  }

  void expires(const Yaml& node, Grant& out) {
    auto when = node.kind == Yaml::Kind::kScalar ? parse_time(node.scalar) : std::nullopt;
    if (!when) return complaints_.at(node, "expected a time such as 2027-01-31T00:00:00Z (RFC 3339)");
    out.expires = *when;
  }

  Complaints complaints_;
  std::vector<Key> keys_;
  std::set<std::string, std::less<>> names_;
  std::set<Digest> digests_;
};

}  // namespace

base::Result<std::vector<Key>> read_keys(const base::Yaml& root, std::string_view file) {
  return KeyReading(file).read(root);
}

std::optional<Digest> parse_digest(std::string_view text) {
  Digest out;
  if (!text.starts_with(kDigestPrefix)) return std::nullopt;
  text.remove_prefix(kDigestPrefix.size());
  if (text.size() != 2 * out.size()) return std::nullopt;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return out;
}

std::string show_digest(const Digest& digest) {
  return std::string(kDigestPrefix) + base::hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::optional<base::WallTime> parse_time(std::string_view text) {
  const int year = take_number(text, 4);
  if (year < 1 || !take(text, "-")) return std::nullopt;
  const int month = take_number(text, 2);
  if (month < 1 || !take(text, "-")) return std::nullopt;
  const int day = take_number(text, 2);
  if (day < 1 || !take(text, "Tt ")) return std::nullopt;
  const int hour = take_number(text, 2);
  if (hour < 0 || hour > 23 || !take(text, ":")) return std::nullopt;
  const int minute = take_number(text, 2);
  if (minute < 0 || minute > 59 || !take(text, ":")) return std::nullopt;
  const int second = take_number(text, 2);
  if (second < 0 || second > 60) return std::nullopt;
  if (take(text, "."))
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') text.remove_prefix(1);
  auto offset = parse_offset(text);
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(unsigned(month)),
                            std::chrono::day(unsigned(day))};
  constexpr int kFirstYear = 1970, kLastYear = 2261;  // what nanoseconds since 1970 can say
  if (!offset || !date.ok() || year < kFirstYear || year > kLastYear) return std::nullopt;
  return base::WallTime(sys_days(date)) + hours(hour) + minutes(minute) + seconds(second) - *offset;
}

}  // namespace weir::auth
