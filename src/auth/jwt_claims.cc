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

base::Status bad_token(const JsonCursor& json, const std::string& part) {
  return base::failure(base::Code::kUnauthenticated, "the token's " + part + " cannot be read: " + json.error().text);
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

bool read_element(JsonCursor& json, ClaimTexts& claim) {
  const bool skipped = claim.others == ClaimTexts::Others::kSkipped && json.peek() != JsonCursor::Kind::kString;
  return skipped ? json.skip() : json.string(claim.texts.emplace_back());
}

bool read_other(JsonCursor& json, const ClaimTexts& claim) {
  return claim.others == ClaimTexts::Others::kSkipped ? json.skip()
                                                      : json.fail("expected a string or a list of strings");
}

bool read_texts(JsonCursor& json, ClaimTexts& claim) {
  if (json.peek() == JsonCursor::Kind::kNull) return json.null();
  claim.found = true;
  switch (json.peek()) {
    case JsonCursor::Kind::kString: return read_text(json, claim);
    case JsonCursor::Kind::kArray: return json.array([&] { return read_element(json, claim); });
    case JsonCursor::Kind::kNumber: {
      marshal::JsonNumber number;
      if (!json.number(number)) return false;
      claim.texts.emplace_back(number.text);
      return true;
    }
    default: return read_other(json, claim);
  }
}

// NumericDate, RFC 7519 §2: seconds, and parts of them, which do not count here.
bool read_date(JsonCursor& json, std::optional<int64_t>& into) {
  constexpr double kMostSeconds = 253'402'300'799;  // the last one of the year 9999
  marshal::JsonNumber number;
  double seconds = 0;
  if (json.peek() == JsonCursor::Kind::kNull) return json.null();
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
  if (json.peek() != JsonCursor::Kind::kObject) return here ? read_texts(json, *here) : json.skip();
  if (below.empty()) return here ? read_other(json, *here) : json.skip();
  MemberNames names;
  return json.object([&](std::string_view member) {
    std::string own(member);
    return names.add(json, own) && read_member(json, own, below);
  });
}

bool read_claim(JsonCursor& json, const std::string& name, RegisteredClaims& claims, std::span<const Search> searches) {
  if (name == "exp") return read_date(json, claims.expires);
  if (name == "nbf") return read_date(json, claims.not_before);
  if (name == "iat") return read_date(json, claims.issued);
  for (auto* claim : {&claims.issuer, &claims.subject, &claims.audience})
    if (name == claim->path) return read_texts(json, *claim);
  return read_member(json, name, searches);
}

// Whether errors name the claim: those whose names the client alone chose are not repeated to it.
bool is_asked_for(std::string_view name, std::span<const Search> searches) {
  for (std::string_view known : {"exp", "nbf", "iat", "iss", "sub", "aud"})
    if (name == known) return true;
  return std::any_of(searches.begin(), searches.end(), [&](const Search& search) {
    return search.rest.starts_with(name) && (search.rest.size() == name.size() || search.rest[name.size()] == '.');
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
  std::string broken;
  bool well = json.object([&](std::string_view member) {
    std::string own(member);
    const bool read = names.add(json, own) && read_claim(json, own, *this, searches);
    if (!read && is_asked_for(own, searches)) broken = " (" + own + ")";
    return read;
  });
  if (!well || !json.finish()) return bad_token(json, "claims" + broken);
  for (auto& other : others)
    for (const auto* claim : {&issuer, &subject, &audience})
      if (other.path == claim->path) other.found = claim->found, other.texts = claim->texts;
  return {};
}

}  // namespace weir::auth
