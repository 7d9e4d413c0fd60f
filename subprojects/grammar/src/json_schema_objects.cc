// Arrays and objects.
#include <algorithm>
#include <memory>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/readers.h"
#include "json_schema.h"
#include "regex.h"
#include "schema_merge.h"
#include "schema_strings.h"
#include "stacks.h"
#include "text_cursor.h"

namespace grammar {
namespace {

constexpr size_t kLongestKey = 256;  // characters of a key that other keys must differ from

// Whether a part of the key matches.
Result<bool> matches(const std::string& pattern, const std::string& key) {
  Grammar grammar;
  auto regex = read_regex_into(grammar, pattern, Match::kSearch, Quoting::kNone);
  if (!regex) return regex.error();
  grammar.root = grammar.add_rule("root");
  grammar.define(grammar.root, regex->node);
  auto automaton = Automaton::compile(grammar);
  if (!automaton) return automaton.error();
  Stacks stacks(**automaton);
  stacks.steps_left = 10'000'000;
  Position here, next;
  stacks.enter({(*automaton)->start, kRootFrame}, here);
  for (char c : key) stacks.advance(here, uint8_t(c), next), std::swap(here, next);
  if (stacks.exhausted()) return Error{"it is too complex"};
  return here.accepting;
}

std::u32string characters_of(const std::string& text) {
  std::u32string out;
  for (TextCursor in{text}; !in.end();) out += char32_t(in.character());
  return out;
}

}  // namespace

Result<Node> SchemaReader::array(const Json& flat, const std::string& pointer) {
  auto least = count_of(flat, "minItems", 0, pointer), most = count_of(flat, "maxItems", kUnbounded, pointer);
  if (!least) return least.error();
  if (!most) return most.error();
  if (!ignores() && flat.contains("uniqueItems") && flat["uniqueItems"] == true && *most > 1)
    return wrong(below(pointer, "uniqueItems"), "'uniqueItems' is not supported");
  const bool listed = flat.contains("items") && flat["items"].is_array();  // of draft 7
  const char* first = listed ? "items" : "prefixItems";
  const char* rest = listed ? "additionalItems" : "items";
  std::vector<Node> prefix;
  if (flat.contains(first)) {
    if (!flat[first].is_array()) return wrong(below(pointer, first), "expected a list of schemas");
    for (size_t i = 0; i < flat[first].size(); ++i) {
      auto item = node(flat[first][i], below(below(pointer, first), std::to_string(i)));
      if (!item) return item;
      prefix.push_back(*item);
    }
  }
  auto item = flat.contains(rest) ? node(flat[rest], below(pointer, rest)) : Result<Node>(any_value());
  if (!item) return item;
  const auto count = uint32_t(prefix.size());
  if (*least > 1) item = named(*item);  // what must come is written out for each place
  auto left = [&](uint32_t bound, uint32_t taken) {
    return bound == kUnbounded ? bound : bound - std::min(bound, taken);
  };
  // From the back: what may follow i items, of which there is one.
  auto after = [&](uint32_t taken) {
    return out_.repeat(out_.sequence({comma_, *item}), left(*least, taken), left(*most, taken));
  };
  Node tail = count > *most ? Grammar::kEmpty : after(std::max(count, 1u));
  for (uint32_t i = count; i-- > 1;) {
    const Node stop = i >= *least ? Grammar::kEmpty : Grammar::kNever;
    tail = i >= *most ? Grammar::kEmpty : out_.choice({out_.sequence({comma_, prefix[i], tail}), stop});
  }
  const Node some = *most == 0 ? Grammar::kNever : out_.sequence({count > 0 ? prefix[0] : *item, tail});
  return in_braces("[", out_.choice({some, *least == 0 ? Grammar::kEmpty : Grammar::kNever}), "]");
}

// As a rule, which is copied only where it is small.
Node SchemaReader::named(Node node) {
  const uint32_t rule = out_.add_rule("item");
  out_.define(rule, node);
  return out_.rule(rule);
}

// The properties in their order, then those that are required only.
Result<std::vector<SchemaReader::Property>> SchemaReader::properties(const Json& flat, const std::string& pointer) {
  std::vector<Property> out;
  if (auto all = flat.find("properties"); all != flat.end()) {
    if (!all->is_object()) return wrong(below(pointer, "properties"), "expected an object");
    for (const auto& [key, schema] : all->items()) out.push_back({key, schema, false});
  }
  if (auto required = flat.find("required"); required != flat.end() && !required->is_boolean()) {
    if (!required->is_array()) return wrong(below(pointer, "required"), "expected a list of names");
    for (const Json& name : *required) {
      if (!name.is_string()) return wrong(below(pointer, "required"), "expected a list of names");
      const std::string key = name.get<std::string>();
      auto at = std::find_if(out.begin(), out.end(), [&](const Property& p) { return p.key == key; });
      if (at == out.end())
        out.push_back({key, flat.contains("additionalProperties") ? flat["additionalProperties"] : Json(true), true});
      else
        at->required = true;
    }
  }
  auto patterns = flat.find("patternProperties");
  if (patterns == flat.end() || !patterns->is_object()) return out;
  for (const auto& [pattern, schema] : patterns->items())
    for (Property& p : out) {
      auto same = matches(pattern, p.key);
      if (!same && !ignores()) return wrong(below(below(pointer, "patternProperties"), pattern), same.error().message);
      if (same && *same) p.schema = Json::object({{"allOf", Json::array({p.schema, schema})}});
    }
  return out;
}

// Entries of any number, with keys that are not given one by one.
Result<Node> SchemaReader::map(const Json& flat, const Json& value, const std::string& pointer) {
  auto least = count_of(flat, "minProperties", 0, pointer), most = count_of(flat, "maxProperties", kUnbounded, pointer);
  if (!least) return least.error();
  if (!most) return most.error();
  if (*least > 1 && !ignores())
    return wrong(below(pointer, "minProperties"), "more than 1 is not supported without named properties");
  Node key = out_.rule(string_);
  Json schema = value;
  if (auto patterns = flat.find("patternProperties");
      patterns != flat.end() && patterns->is_object() && !patterns->empty()) {
    const std::string place = below(pointer, "patternProperties");
    const bool several = patterns->size() > 1;
    if (several && !ignores()) return wrong(place, "more than one pattern is not supported");
    auto regex = read_regex_into(out_, patterns->begin().key(), Match::kSearch, Quoting::kJson);
    if (!regex && !ignores()) return wrong(below(place, patterns->begin().key()), regex.error().message);
    if (regex && !several) key = out_.sequence({out_.literal("\""), regex->node, out_.literal("\"")});
    schema = several ? Json(true) : patterns->begin().value();
  }
  const bool beside = flat.contains("patternProperties");
  if (auto names = flat.find("propertyNames"); names != flat.end() && !(beside && ignores())) {
    const std::string place = below(pointer, "propertyNames");
    if (beside) return wrong(place, "'propertyNames' beside patternProperties is not supported");
    Json strings = Json::object({{"allOf", Json::array({Json::object({{"type", "string"}}), *names})}});
    auto only = node(strings, place);
    if (!only) return only;
    key = *only;
  }
  auto one = node(schema, below(pointer, "additionalProperties"));
  if (!one) return one;
  const Node entry = out_.sequence({key, colon_, *one});
  const Node more =
      out_.repeat(out_.sequence({comma_, entry}), 0, *most == kUnbounded ? *most : *most - std::min(*most, 1u));
  const Node some = *most == 0 ? Grammar::kNever : out_.sequence({entry, more});
  return in_braces("{", out_.choice({some, *least == 0 ? Grammar::kEmpty : Grammar::kNever}), "}");
}

Result<Node> SchemaReader::object(const Json& flat, const std::string& pointer) {
  auto named = properties(flat, pointer);
  if (!named) return named.error();
  const Json more = flat.contains("additionalProperties") ? flat["additionalProperties"] : Json();
  if (named->empty()) {
    const bool closed = more.is_boolean() && !more.get<bool>();
    if (closed && !flat.contains("patternProperties")) return out_.literal("{}");
    return map(flat, more.is_null() || closed ? Json(true) : more, pointer);
  }
  if (flat.contains("propertyNames") && !ignores())
    return wrong(below(pointer, "propertyNames"), "'propertyNames' beside properties is not supported");
  auto extra_entry = extra(flat, *named, pointer);
  if (!extra_entry) return extra_entry;
  const size_t required = size_t(std::count_if(named->begin(), named->end(), [](const auto& p) { return p.required; }));
  auto least = count_of(flat, "minProperties", 0, pointer), most = count_of(flat, "maxProperties", kUnbounded, pointer);
  if (!least) return least.error();
  if (!most) return most.error();
  if (*least > std::max<size_t>(required, 1) && !ignores())
    return wrong(below(pointer, "minProperties"), "more than the required properties is not supported");
  if (!ignores() && (*most < named->size() || (*most != kUnbounded && *extra_entry != Grammar::kNever)))
    return wrong(below(pointer, "maxProperties"), "fewer than the properties is not supported");
  // From the back: what may follow where nothing has come (`first`), and where something has (`next`).
  Node next = out_.repeat(out_.sequence({comma_, *extra_entry}), 0, kUnbounded);
  Node first = out_.choice({out_.sequence({*extra_entry, next}), *least == 0 ? Grammar::kEmpty : Grammar::kNever});
  for (auto p = named->rbegin(); p != named->rend(); ++p) {
    auto value = node(p->schema, below(below(pointer, "properties"), p->key));
    if (!value) return value;
    const Node entry = out_.sequence({out_.literal(json_text(p->key)), colon_, *value});
    const Node here = out_.sequence({entry, next});
    first = out_.choice({here, p->required ? Grammar::kNever : first});
    next = out_.choice({out_.sequence({comma_, here}), p->required ? Grammar::kNever : next});
  }
  return in_braces("{", first, "}");
}

// An entry beside the named properties: only where the schema says additionalProperties. Its key is none of theirs.
Result<Node> SchemaReader::extra(const Json& flat, const std::vector<Property>& named, const std::string& pointer) {
  auto more = flat.find("additionalProperties");
  if (more == flat.end() || (more->is_boolean() && !more->get<bool>()) || flat.contains("patternProperties") ||
      (flat.contains("unevaluatedProperties") && flat["unevaluatedProperties"] != true))
    return Grammar::kNever;
  std::vector<std::u32string> keys;
  for (const Property& p : named) {
    keys.push_back(characters_of(p.key));
    if (keys.back().size() > kLongestKey)
      return wrong(pointer,
                   "additionalProperties beside a key of more than " + std::to_string(kLongestKey) + " characters");
  }
  std::sort(keys.begin(), keys.end());
  auto value = node(*more, below(pointer, "additionalProperties"));
  if (!value) return value;
  return out_.sequence({out_.literal("\""), other_key(keys, 0), colon_, *value});
}

// The rest of a key, `depth` characters of which are those of all `keys` (sorted), up to its end. Without escapes.
Node SchemaReader::other_key(const std::vector<std::u32string>& keys, size_t depth) {
  const std::vector<CodeRange> plain{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7e}, {0x80, kLastCharacter}};
  std::vector<Node> all;
  std::vector<CodeRange> taken = complement(plain);
  size_t i = 0;
  const bool ends = !keys.empty() && keys[0].size() == depth;
  if (!ends) all.push_back(out_.literal("\""));
  while (i < keys.size() && keys[i].size() == depth) ++i;
  while (i < keys.size()) {
    const char32_t c = keys[i][depth];
    std::vector<std::u32string> same;
    for (; i < keys.size() && keys[i][depth] == c; ++i) same.push_back(keys[i]);
    taken.push_back({c, c});
    const bool written =
        std::any_of(plain.begin(), plain.end(), [c](CodeRange r) { return c >= r.first && c <= r.last; });
    if (written) all.push_back(out_.sequence({out_.characters({{c, c}}), other_key(same, depth + 1)}));
  }
  const Node any = out_.repeat(out_.characters(plain), 0, kUnbounded);
  all.push_back(out_.sequence({out_.characters(complement(std::move(taken))), any, out_.literal("\"")}));
  return out_.choice(std::move(all));
}

}  // namespace grammar
