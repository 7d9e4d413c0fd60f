#include "json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "grammar/readers.h"
#include "schema_merge.h"
#include "schema_numbers.h"
#include "schema_strings.h"

namespace grammar {
namespace {

constexpr size_t kDeepestReferences = 32, kMostSchemas = 50'000, kMostComparisons = 20'000;

// Keywords that would make a value invalid, and that are not read here.
constexpr std::array<std::string_view, 17> kUnsupported{
    "not",           "if",       "then",        "else",        "dependentRequired", "dependentSchemas",
    "dependencies",  "contains", "minContains", "maxContains", "unevaluatedItems",  "$dynamicRef",
    "$recursiveRef", "$anchor",  "extends",     "divisibleBy", "disallow"};
// Keywords that an enum's values are held to.
constexpr std::array<std::string_view, 11> kOfValues{
    "enum",      "const",   "type",    "format",           "minLength",
    "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf"};
constexpr std::array<std::string_view, 7> kTypes{"object", "array", "string", "number", "integer", "boolean", "null"};

// The type that a schema is of where it does not say: by the keywords that it has.
std::string_view implied_type(const Json& schema) {
  using Words = std::initializer_list<const char*>;
  constexpr auto has = [](const Json& s, Words words) {
    return std::any_of(words.begin(), words.end(), [&](const char* w) { return s.contains(w); });
  };
  if (has(schema, {"properties", "required", "additionalProperties", "patternProperties", "minProperties",
                   "maxProperties", "propertyNames"}))
    return "object";
  if (has(schema, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})) return "array";
  if (has(schema, {"minLength", "maxLength", "pattern"}) || has_known_format(schema)) return "string";
  if (has(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) return "number";
  return {};
}

// Nothing but the reference says what is valid.
bool refers_alone(const Json& schema, const char* keyword) {
  if (!schema.is_object() || !schema.contains(keyword)) return false;
  for (const auto& [key, value] : schema.items())
    if (key != keyword && !is_annotation(key)) return false;
  return true;
}

}  // namespace

SchemaReader::SchemaReader(Grammar& out)
    : out_(out),
      string_(out.add_rule("string", Sharing::kShared)),
      value_(out.add_rule("value", Sharing::kShared)),
      object_(out.add_rule("object", Sharing::kShared)),
      comma_(out.sequence({out.literal(","), out.optional(out.literal(" "))})),
      colon_(out.sequence({out.literal(":"), out.optional(out.literal(" "))})) {
  const Node quote = out.literal("\"");
  out.define(string_, out.sequence({quote, out.repeat(string_character(out), 0, kUnbounded), quote}));
  const Node value = out.rule(value_);
  const Node entry = out.sequence({out.rule(string_), colon_, value});
  auto list = [&](Node item) {
    return out.optional(out.sequence({item, out.repeat(out.sequence({comma_, item}), 0, kUnbounded)}));
  };
  out.define(object_, in_braces("{", list(entry), "}"));
  out.define(value_, out.choice({out.rule(object_), in_braces("[", list(value), "]"), out.rule(string_),
                                 any_number(out), out.literal("true"), out.literal("false"), out.literal("null")}));
}

Node SchemaReader::any_object() { return out_.rule(object_); }
Node SchemaReader::any_value() { return out_.rule(value_); }

Node SchemaReader::in_braces(const char* open, Node inside, const char* close) {
  return out_.sequence({out_.literal(open), inside, out_.literal(close)});
}

Result<Node> SchemaReader::read(const Json& document, Unsupported unsupported) {
  document_ = &document;
  merging_.unsupported = unsupported;
  references_.clear(), merged_.clear();
  return node(document, "");
}

Result<Node> SchemaReader::node(const Json& schema, const std::string& pointer) {
  if (schema.is_boolean()) return schema.get<bool>() ? any_value() : Grammar::kNever;
  if (!schema.is_object()) return wrong(pointer, "a schema is an object or a boolean");
  if (++work_ > kMostSchemas || out_.too_large()) return wrong(pointer, "the schema is too large");
  if (refers_alone(schema, "$ref")) return reference(schema, pointer);
  const bool merges = schema.contains("$ref") || schema.contains("allOf");
  if (depth_ >= kMostNested) return wrong(pointer, "schemas are nested too deeply");
  ++depth_;
  auto out = [&]() -> Result<Node> {
    if (!merges) return flat_node(schema, pointer);
    if (refers_alone(schema, "allOf") && schema["allOf"].is_array() && schema["allOf"].size() == 1)
      return node(schema["allOf"][0], below(pointer, "allOf/0"));
    auto flat = flatten(schema, pointer, 0);
    if (!flat) return flat.error();
    // Recursion through merged schemas comes back to the same text.
    auto [at, fresh] = merged_.try_emplace(json_text(*flat), 0);
    if (!fresh) return out_.rule(at->second);
    const uint32_t rule = at->second = out_.add_rule(pointer, Sharing::kShared);
    auto body = flat_node(*flat, pointer);
    if (!body) return body;
    out_.define(rule, *body);
    return out_.rule(rule);
  }();
  --depth_;
  return out;
}

Result<Node> SchemaReader::flat_node(const Json& flat, const std::string& pointer) {
  if (flat.is_boolean()) return node(flat, pointer);
  for (const auto& [key, value] : flat.items())
    if (!ignores() && std::find(kUnsupported.begin(), kUnsupported.end(), key) != kUnsupported.end())
      return wrong(pointer, "'" + key + "' is not supported");
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return alternatives(flat, keyword, pointer);
  if (flat.contains("enum") || flat.contains("const")) return values(flat, pointer);
  Json types = Json::array();
  if (auto type = flat.find("type"); type != flat.end())
    types = type->is_array() ? *type : Json::array({*type});
  else if (auto implied = implied_type(flat); !implied.empty())
    types.push_back(implied);
  else
    return any_value();
  std::vector<Node> all;
  for (const Json& type : types) {
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (std::find(kTypes.begin(), kTypes.end(), name) == kTypes.end())
      return wrong(below(pointer, "type"), "no such type: " + json_text(type).substr(0, 60));
    auto one = typed(flat, name, pointer);
    if (!one) return one;
    all.push_back(*one);
  }
  return out_.choice(std::move(all));
}

Result<Node> SchemaReader::typed(const Json& flat, const std::string& type, const std::string& pointer) {
  if (type == "object") return object(flat, pointer);
  if (type == "array") return array(flat, pointer);
  if (type == "boolean") return out_.choice({out_.literal("true"), out_.literal("false")});
  if (type == "null") return out_.literal("null");
  return scalar(flat, type, pointer);
}

// Strings and numbers of the same form are one rule, whose masks are found once.
Result<Node> SchemaReader::scalar(const Json& flat, const std::string& type, const std::string& pointer) {
  using Keywords = std::vector<const char*>;
  static const Keywords kOfStrings{"minLength", "maxLength", "pattern", "format"},
      kOfNumbers{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
  Json form = Json::object();
  for (const char* keyword : type == "string" ? kOfStrings : kOfNumbers)
    if (auto at = flat.find(keyword); at != flat.end()) form[keyword] = *at;
  const std::string key = type + (ignores() ? " about " : " ") + json_text(form);
  if (auto found = scalars_.find(key); found != scalars_.end()) return out_.rule(found->second);
  const auto kind = type == "integer" ? NumberKind::kInteger : NumberKind::kNumber;
  auto body = type == "string" ? string_node(out_, flat, out_.rule(string_), merging_.unsupported, pointer)
                               : number_node(out_, flat, kind, merging_.unsupported, pointer);
  if (!body || *body == Grammar::kNever || form.empty()) return body;
  const uint32_t rule = out_.add_rule(key.substr(0, 80), Sharing::kShared);
  out_.define(rule, *body);
  scalars_.emplace(key, rule);
  return out_.rule(rule);
}

Result<Node> SchemaReader::alternatives(const Json& flat, const char* keyword, const std::string& pointer) {
  const Json& branches = flat[keyword];
  const std::string place = below(pointer, keyword);
  if (!branches.is_array() || branches.empty()) return wrong(place, "expected a list of schemas");
  const bool alone = refers_alone(flat, keyword), exactly_one = !ignores() && std::string_view(keyword) == "oneOf";
  Json base = flat;
  base.erase(keyword);
  std::vector<Json> seen;
  std::vector<Node> all;
  for (size_t i = 0; i < branches.size(); ++i) {
    const std::string at = below(place, std::to_string(i));
    if (exactly_one) {
      auto part = flatten(branches[i], at, 0);
      if (!part) return part.error();
      for (size_t j = 0; j < seen.size(); ++j)
        if (++comparisons_ > kMostComparisons)
          return wrong(place, "it has too many branches");
        else if (!disjoint(seen[j], *part))
          return wrong(at, "it may overlap with branch " + std::to_string(j) + " of oneOf; use anyOf");
      seen.push_back(*std::move(part));
    }
    Json both = Json::object({{"allOf", Json::array({base, branches[i]})}});
    auto one = node(alone ? branches[i] : both, at);
    if (!one) return one;
    all.push_back(*one);
  }
  return out_.choice(std::move(all));
}

// The values of an enum that the keywords beside it allow.
Result<Node> SchemaReader::values(const Json& flat, const std::string& pointer) {
  Json all = flat.contains("enum") ? flat["enum"] : Json::array({flat["const"]});
  if (!all.is_array()) return wrong(below(pointer, "enum"), "expected a list of values");
  for (const auto& [key, value] : flat.items())
    if (!ignores() && !is_annotation(key) && std::find(kOfValues.begin(), kOfValues.end(), key) == kOfValues.end())
      return wrong(pointer, "'" + key.substr(0, 60) + "' beside enum or const is not supported");
  Json types = flat.contains("type") ? flat["type"] : Json();
  if (types.is_string()) types = Json::array({types});
  std::vector<Node> out;
  for (const Json& value : all) {
    bool fits = !types.is_array() || std::any_of(types.begin(), types.end(), [&](const Json& t) {
      return t.is_string() && has_type(value, t.get<std::string>());
    });
    if (flat.contains("const") && value != flat["const"]) fits = false;
    auto long_enough = has_length(flat, value, pointer), between = is_between(flat, value, pointer);
    if (!long_enough) return long_enough.error();
    if (!between) return between.error();
    if (fits && *long_enough && *between) out.push_back(out_.literal(json_text(value)));
  }
  return out_.choice(std::move(out));
}

// ---- References

Result<const Json*> SchemaReader::resolve(const Json& schema, const std::string& pointer) const {
  static const Json kAnyValue = true;
  const Json& ref = schema["$ref"];
  const std::string text = ref.is_string() ? ref.get<std::string>() : "";
  const bool is_inside = text.starts_with('#') && (text.size() == 1 || text[1] == '/');
  if (!is_inside && !text.empty() && ignores()) return &kAnyValue;
  if (!is_inside)
    return wrong(
        below(pointer, "$ref"),
        "only references into the schema itself are supported, like #/$defs/name; not '" + text.substr(0, 80) + "'");
  const Json* at = document_;
  for (size_t from = 2; from <= text.size() && text.size() > 1;) {
    const size_t to = std::min(text.find('/', from), text.size());
    std::string key;
    for (size_t i = from; i < to; ++i) {
      if (text[i] == '~' && i + 1 < to && (text[i + 1] == '0' || text[i + 1] == '1'))
        key += text[++i] == '0' ? '~' : '/';
      else if (uint8_t code = 0; text[i] == '%' && i + 2 < to &&
                                 std::from_chars(&text[i + 1], &text[i + 3], code, 16).ptr == &text[i + 3])
        key += char(code), i += 2;
      else
        key += text[i];
    }
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (at->is_object() && at->contains(key))
      at = &(*at)[key];
    else if (at->is_array() && error == std::errc() && end == key.data() + key.size() && index < at->size())
      at = &(*at)[index];
    else
      return wrong(below(pointer, "$ref"), "there is no '" + text.substr(0, 80) + "'");
    from = to + 1;
  }
  return at;
}

Result<Node> SchemaReader::reference(const Json& schema, const std::string& pointer) {
  auto target = resolve(schema, pointer);
  if (!target) return target.error();
  const std::string& text = schema["$ref"].get_ref<const std::string&>();
  auto [at, fresh] = references_.try_emplace(text, 0);
  if (!fresh) return out_.rule(at->second);
  const uint32_t rule = at->second = out_.add_rule(text.substr(0, 100), Sharing::kShared);
  auto body = node(**target, text.substr(1));
  if (!body) return body;
  out_.define(rule, *body);
  return out_.rule(rule);
}

// One schema without $ref and allOf.
Result<Json> SchemaReader::flatten(const Json& schema, const std::string& pointer, size_t depth) {
  if (!schema.is_object()) return schema;
  if (depth > kDeepestReferences)
    return wrong(pointer, "references that lead back to themselves are not supported here");
  Json out = Json::object();
  for (const auto& [key, value] : schema.items())
    if (key != "$ref" && key != "allOf" && !is_annotation(key)) out[key] = value;
  auto add = [&](const Json& part, const std::string& place) -> Result<Json> {
    auto flat = flatten(part, place, depth + 1);
    if (!flat) return flat;
    if (!merging_.take(*flat)) return wrong(pointer, "the schema is too large");
    return merge(out, *flat, merging_, place);
  };
  if (schema.contains("$ref")) {
    auto target = resolve(schema, pointer);
    if (!target) return target.error();
    auto merged = add(**target, pointer);
    if (!merged) return merged;
    out = *std::move(merged);
  }
  auto all = schema.find("allOf");
  if (all == schema.end()) return out;
  if (!all->is_array()) return wrong(below(pointer, "allOf"), "expected a list of schemas");
  for (size_t i = 0; i < all->size(); ++i) {
    auto merged = add((*all)[i], below(below(pointer, "allOf"), std::to_string(i)));
    if (!merged) return merged;
    out = *std::move(merged);
  }
  return out;
}

// ---- The whole

Result<Grammar> read_json_schema(std::string_view schema, Unsupported unsupported) {
  Segments segments;
  segments.alternatives = {{{Segment::Kind::kSchema, std::string(schema), unsupported}}};
  return read_segments(segments);
}

Grammar json_object() {
  Grammar out;
  SchemaReader reader(out);
  out.root = out.add_rule("root");
  out.define(out.root, reader.any_object());
  return out;
}

}  // namespace grammar
