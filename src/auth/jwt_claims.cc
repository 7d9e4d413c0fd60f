#include "auth/jwt_claims.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "marshal/json_cursor.h"

namespace weir::auth {
namespace {

using marshal::JsonCursor;

base::Status bad_token(const JsonCursor& json, std::string_view part) {
  return base::failure(base::Code::kUnauthenticated,
                       "the token's " + std::string(part) + " cannot be read: " + json.error().text);
}

// The names of one object's members, each of which may be there once.
class MemberNames {
 public:
  bool add(JsonCursor& json, std::string_view name) {
    if (names_.size() == kMostMembers) return json.fail("too many members");
    return names_.emplace(name).second || json.fail("a member is there twice");
  }

 private:
  std::set<std::string, std::less<>> names_;
};

void split_words(std::string_view text, std::vector<std::string>& into) {
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    if (end > 0) into.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool read_text(JsonCursor& json, ClaimTexts& claim) {
  std::string text;
  if (!json.string(text)) return false;
  if (claim.words == ClaimTexts::Words::kSplit)
    split_words(text, claim.texts);
  else
    claim.texts.push_back(std::move(text));
  return true;
}

bool read_texts(JsonCursor& json, ClaimTexts& claim) {
  claim.found = true;
  switch (json.peek()) {
    case JsonCursor::Kind::kString: return read_text(json, claim);
    case JsonCursor::Kind::kArray: return json.array([&] { return json.string(claim.texts.emplace_back()); });
    case JsonCursor::Kind::kNumber: {
      marshal::JsonNumber number;
      if (!json.number(number)) return false;
      claim.texts.emplace_back(number.text);
      return true;
    }
    default: return json.fail("expected a string or a list of strings");
  }
}

// NumericDate, RFC 7519 §2: seconds, and parts of them, which do not count here.
bool read_date(JsonCursor& json, std::optional<int64_t>& into) {
  constexpr double kMostSeconds = 253'402'300'799;  // the last one of the year 9999
  marshal::JsonNumber number;
  double seconds = 0;
  if (!json.number(number)) return false;
  if (!number.to(seconds) || !(std::abs(seconds) <= kMostSeconds)) return json.fail("expected seconds since 1970");
  into = int64_t(std::floor(seconds));
  return true;
}

// One claim on its way down a path: where the texts go, and what is left of its path.
struct Search {
  ClaimTexts* claim;
  std::string_view rest;
};

// Reads the value of the member `name` into the searches that it is on the path of. A value that has texts for one and
// members for another is read as what it is.
bool read_member(JsonCursor& json, std::string_view name, std::span<const Search> searches) {
  std::vector<Search> below;
  ClaimTexts* here = nullptr;
  for (const auto& search : searches) {
    if (!search.rest.starts_with(name)) continue;
    if (search.rest.size() == name.size())
      here = search.claim;
    else if (search.rest[name.size()] == '.')
      below.push_back({search.claim, search.rest.substr(name.size() + 1)});
  }
  if (json.peek() != JsonCursor::Kind::kObject) {
    if (here && json.peek() != JsonCursor::Kind::kNull) return read_texts(json, *here);
    return json.skip();
  }
  if (below.empty()) return here ? json.fail("expected a string or a list of strings") : json.skip();
  MemberNames names;
  return json.object([&](std::string_view member) {
    std::string own(member);
    return names.add(json, own) && read_member(json, own, below);
  });
}

}  // namespace

base::Result<JwtHeader> JwtHeader::parse(std::string_view text) {
  JwtHeader header;
  JsonCursor json(text);
  MemberNames names;
  bool well = json.object([&](std::string_view name) {
    if (!names.add(json, name)) return false;
    if (name == "alg") return json.string(header.algorithm);
    if (name == "kid") return json.string(header.key_id);
    if (name == "typ") return json.string(header.type);
    header.critical = header.critical || name == "crit";
    return json.skip();
  });
  if (!well || !json.finish()) return bad_token(json, "header");
  return header;
}

base::Status RegisteredClaims::parse(std::string_view text, std::span<ClaimTexts> others) {
  std::vector<Search> searches;
  for (auto& claim : others)
    if (!claim.path.empty()) searches.push_back({&claim, claim.path});
  JsonCursor json(text);
  MemberNames names;
  bool well = json.object([&](std::string_view member) {
    if (!names.add(json, member)) return false;
    if (member == "exp") return read_date(json, expires);
    if (member == "nbf") return read_date(json, not_before);
    if (member == "iat") return read_date(json, issued);
    for (auto* claim : {&issuer, &subject, &audience})
      if (member == claim->path) return read_texts(json, *claim);
    std::string own(member);
    return read_member(json, own, searches);
  });
  if (!well || !json.finish()) return bad_token(json, "claims");
  for (auto& other : others)
    for (const auto* claim : {&issuer, &subject, &audience})
      if (other.path == claim->path) other.found = claim->found, other.texts = claim->texts;
  return {};
}

}  // namespace weir::auth
