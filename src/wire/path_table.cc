#include "wire/path_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/encoding.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kMaxSegments = 16, kMaxNearMiss = 96, kMaxRemembered = 512;

// Cuts the first segment off: "/a/b" -> "a", leaving "/b".
std::string_view cut_segment(std::string_view& path) {
  path.remove_prefix(1);
  size_t slash = path.find('/');
  std::string_view segment = path.substr(0, slash);
  path = slash == std::string_view::npos ? std::string_view() : path.substr(slash);
  return segment;
}

bool placeholder(std::string_view segment) { return segment.size() > 2 && segment.front() == '{'; }
// The name in a pattern's placeholder: "model" in "{model}:predict".
std::string_view name_in(std::string_view segment) { return segment.substr(1, segment.find('}') - 1); }
// The part from the last colon on, or empty: ":predict" of "{model}:predict" and of "resnet:predict" alike.
std::string_view verb_of(std::string_view segment) {
  const size_t colon = segment.rfind(':');
  return colon == segment.npos ? std::string_view() : segment.substr(colon);
}

// One look-up: the path's segments, as sent, that stand for placeholders.
struct Walk {
  bool escaped;  // there is a '%' in the path
  size_t count = 0;
  std::array<std::string_view, kMaxSegments> values{};
};

// A path as one that was meant for a pattern.
struct Slip {
  size_t edits = 0;
  std::string meant;
};

// Nothing where the pattern has another number of segments, or a fixed one that is not near to the path's.
std::optional<Slip> slip_of(std::string_view pattern, std::string_view path) {
  Slip slip;
  while (!pattern.empty() && !path.empty()) {
    std::string_view wanted = cut_segment(pattern), given = cut_segment(path);
    const bool any = placeholder(wanted);
    const std::string_view verb = any ? verb_of(wanted) : std::string_view();
    std::string_view value;  // of the placeholder
    if (any) {
      const std::string_view said = verb.empty() ? std::string_view() : verb_of(given);
      value = given.substr(0, given.size() - said.size());
      wanted = verb, given = said;
      if (value.empty()) return std::nullopt;
    }
    std::array<std::string_view, 1> candidate{wanted};
    if (given != wanted && base::near_miss(given, candidate).empty()) return std::nullopt;
    slip.edits += base::edit_distance(given, wanted);
    ((slip.meant += '/') += value) += wanted;
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return slip;
}

// The same where it is slashes that are too many or missing: only a path that is nearly there.
std::optional<Slip> slashes_of(std::string_view pattern, std::string_view path) {
  constexpr size_t kMost = 3;
  size_t longer = std::max(pattern.size(), path.size()), shorter = std::min(pattern.size(), path.size());
  if (longer - shorter > kMost) return std::nullopt;
  Slip slip{base::edit_distance(path, pattern), std::string(pattern)};
  return slip.edits <= std::min(kMost, path.size() / 4) ? std::optional(slip) : std::nullopt;
}

}  // namespace

const Route* PathEntry::find(std::string_view method, const Fields& fields) const {
  for (const Route& r : routes)
    if (r.method == method && (r.content_type.empty() || is_media_type(fields.find("content-type"), r.content_type)))
      return &r;
  return method == "HEAD" ? find("GET", fields) : nullptr;
}

const Route* PathEntry::first(std::string_view method) const {
  auto at = std::find_if(routes.begin(), routes.end(), [&](const Route& r) { return r.method == method; });
  return at == routes.end() ? nullptr : &*at;
}

std::string_view PathEntry::protocol() const {
  const std::string_view one = routes.front().protocol;
  return std::all_of(routes.begin(), routes.end(), [&](const Route& r) { return r.protocol == one; }) ? one : "";
}

size_t PathTable::TextHash::operator()(std::string_view text) const {
  uint64_t front = 0, back = 0;
  if (text.size() >= 8) {
    std::memcpy(&front, text.data(), 8);
    std::memcpy(&back, text.data() + text.size() - 8, 8);
  } else {
    for (char c : text) front = front << 8 | uint8_t(c);
  }
  uint64_t mixed = (front ^ std::rotl(back, 23) ^ text.size()) * 0x9e3779b97f4a7c15;
  return size_t(mixed ^ (mixed >> 32));
}

struct PathTable::Node {
  ByText<std::unique_ptr<Node>> fixed;
  ByText<std::unique_ptr<Node>> verbs;  // of placeholders: ":predict"
  std::unique_ptr<Node> any;
  PathEntry* entry = nullptr;

  // The segments passed on the way to the entry are left in `walk`.
  const PathEntry* find(std::string_view path, Walk& walk) const {
    if (path.empty()) return entry;
    std::string_view rest = path, segment = cut_segment(rest), text = segment;
    std::optional<std::string> decoded;
    if (walk.escaped) {
      decoded = base::percent_decode(segment);
      if (!decoded) return nullptr;
      text = *decoded;
    }
    if (auto it = fixed.find(text); it != fixed.end())
      if (const PathEntry* found = it->second->find(rest, walk)) return found;
    if (!verbs.empty())
      if (const PathEntry* found = with_verb(segment, rest, walk)) return found;
    return any ? any->take(segment, rest, walk) : nullptr;
  }
  // As a placeholder's node: `segment` is the value, as sent.
  const PathEntry* take(std::string_view segment, std::string_view rest, Walk& walk) const {
    if (segment.empty() || walk.count == kMaxSegments) return nullptr;
    walk.values[walk.count++] = segment;
    const PathEntry* found = find(rest, walk);
    if (!found) --walk.count;
    return found;
  }
  const PathEntry* with_verb(std::string_view segment, std::string_view rest, Walk& walk) const {
    const std::string_view verb = verb_of(segment);
    auto it = verbs.find(verb);
    return it == verbs.end() ? nullptr : it->second->take(segment.substr(0, segment.size() - verb.size()), rest, walk);
  }
};

PathTable::PathTable() : root_(std::make_unique<Node>()) {}
PathTable::~PathTable() = default;

void PathTable::add(Route route) {
  Node* node = root_.get();
  bool fixed = true;
  for (std::string_view rest = route.pattern; !rest.empty();) {
    std::string_view segment = cut_segment(rest);
    fixed = fixed && !placeholder(segment);
    const std::string verb(placeholder(segment) ? verb_of(segment) : std::string_view());
    auto& next = !placeholder(segment) ? node->fixed[std::string(segment)]
                 : verb.empty()        ? node->any
                                       : node->verbs[verb];
    if (!next) next = std::make_unique<Node>();
    node = next.get();
  }
  if (!node->entry) {
    entries_.push_back(std::make_unique<PathEntry>());
    node->entry = entries_.back().get();
    node->entry->pattern = route.pattern;
    for (std::string_view rest = node->entry->pattern; !rest.empty();)
      if (std::string_view segment = cut_segment(rest); placeholder(segment))
        node->entry->names.push_back(name_in(segment));
    if (fixed) exact_[route.pattern] = node->entry;
  }
  PathEntry& entry = *node->entry;
  last_ = {};
  std::erase_if(entry.routes,
                [&](const Route& r) { return r.method == route.method && r.content_type == route.content_type; });
  entry.routes.insert(route.content_type.empty() ? entry.routes.end() : entry.routes.begin(), std::move(route));
  std::vector<std::string_view> methods;
  for (const Route& r : entry.routes)
    if (std::find(methods.begin(), methods.end(), r.method) == methods.end()) methods.push_back(r.method);
  entry.allow.clear();
  for (std::string_view method : methods) (entry.allow += entry.allow.empty() ? "" : ", ") += method;
  if (entry.first("GET") && !entry.first("HEAD")) entry.allow += ", HEAD";
}

const PathEntry* PathTable::find(std::string_view path, PathArgs& args) const {
  if (auto it = exact_.find(path); it != exact_.end()) return it->second;
  if (path.empty() || path[0] != '/') return nullptr;
  if (last_.entry && path == last_.path) return give(last_.values, *last_.entry, args);
  Walk walk{path.find('%') != std::string_view::npos};
  const PathEntry* entry = root_->find(path, walk);
  if (!entry) return nullptr;
  last_.entry = nullptr;
  last_.values.resize(walk.count);
  for (size_t i = 0; i < walk.count; ++i)
    if (walk.escaped)
      last_.values[i] = *base::percent_decode(walk.values[i]);
    else
      last_.values[i] = walk.values[i];
  give(last_.values, *entry, args);
  if (path.size() > kMaxRemembered)
    last_ = {};
  else
    last_.path = path, last_.entry = entry;
  return entry;
}

const PathEntry* PathTable::give(const std::vector<std::string>& values, const PathEntry& entry, PathArgs& args) {
  for (size_t i = 0; i < values.size(); ++i) args.add(entry.names[i], values[i]);
  return &entry;
}

// Segments that stand for placeholders match whatever they are, so they are no sign of nearness: the fixed ones must be
// near, each to its own.
std::string PathTable::nearest(std::string_view path) const {
  if (path.size() > kMaxNearMiss || path.empty() || path[0] != '/') return {};
  std::string best;
  size_t least = std::string::npos;
  for (const auto& entry : entries_) {
    // Any last segment of one letter would be near to the first, and any two to the second.
    if (entry->pattern.ends_with('/') || entry->pattern.find("}/{") != std::string::npos) continue;
    auto slip = slip_of(entry->pattern, path);
    if (!slip && entry->names.empty()) slip = slashes_of(entry->pattern, path);
    if (slip && slip->edits < least) least = slip->edits, best = std::move(slip->meant);
  }
  return best;
}

}  // namespace weir::wire
