#include "schema_merge.h"

#include <algorithm>
#include <array>
#include <string>

namespace grammar {
namespace {

constexpr size_t kMostBytes = size_t(32) << 20;  // of schemas that are merged

constexpr std::array<std::string_view, 16> kAnnotations{
    "title",    "description", "default",    "examples", "$schema", "$id",           "id",    "$comment",
    "readOnly", "writeOnly",   "deprecated", "nullable", "example", "discriminator", "$defs", "definitions"};

bool both_numbers(const Json& a, const Json& b) { return a.is_number() && b.is_number(); }

Json listed(const Json& type) { return type.is_array() ? type : Json::array({type}); }

Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json left = listed(a), right = listed(b);
  auto has = [](const Json& all, const char* type) { return std::find(all.begin(), all.end(), type) != all.end(); };
  for (const Json& type : left) {
    if (std::find(right.begin(), right.end(), type) != right.end() || (type == "integer" && has(right, "number")))
      out.push_back(type);
    else if (type == "number" && has(right, "integer"))
      out.push_back("integer");
  }
  return out;
}

Json common_values(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& value : a)
    if (std::find(b.begin(), b.end(), value) != b.end()) out.push_back(value);
  return out;
}

// A const is an enum of one.
void enumerate(Json& schema) {
  auto value = schema.find("const");
  if (value == schema.end()) return;
  Json one = Json::array({*value});
  schema.erase("const");
  schema["enum"] = schema.contains("enum") && schema["enum"].is_array() ? common_values(schema["enum"], one) : one;
}

const Json* member(const Json& schema, const char* key) {
  if (!schema.is_object()) return nullptr;
  auto at = schema.find(key);
  return at == schema.end() ? nullptr : &*at;
}

Error too_large(std::string_view pointer) { return wrong(pointer, "the schema is too large"); }

// Properties that one of the two does not name are for its additionalProperties.
Result<Json> merge_properties(const Json& a, const Json& b, Merging& merging, std::string_view pointer) {
  Json out = Json::object();
  for (const auto& [from, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const Json *mine = member(*from, "properties"), *theirs = member(*other, "properties"),
               *rest = member(*other, "additionalProperties");
    if (!mine || !mine->is_object()) continue;
    for (const auto& [key, value] : mine->items()) {
      if (out.contains(key)) continue;
      const Json* same = theirs && theirs->is_object() ? member(*theirs, key.c_str()) : nullptr;
      const Json* with = same ? same : rest;
      if (!with) {
        out[key] = value;
        continue;
      }
      if (!same && !merging.take(*rest)) return too_large(pointer);
      auto merged = merge(value, *with, merging, below(below(pointer, "properties"), key));
      if (!merged) return merged;
      out[key] = *std::move(merged);
    }
  }
  return out;
}

// The items of a list: those of its first places, and all behind them. Draft 7 has them under other names.
struct Items {
  explicit Items(const Json& schema) {
    const Json* items = member(schema, "items");
    const bool listed = items && items->is_array();
    first = listed ? items : member(schema, "prefixItems");
    rest = listed ? member(schema, "additionalItems") : items;
  }
  size_t count() const { return first ? first->size() : 0; }
  const Json* at(size_t place) const { return place < count() ? &(*first)[place] : rest; }

  const Json *first, *rest;  // null: there are none, anything may come
};

bool is_of_items(std::string_view keyword) {
  return keyword == "items" || keyword == "prefixItems" || keyword == "additionalItems";
}

bool has_items(const Json& schema) {
  return schema.contains("items") || schema.contains("prefixItems") || schema.contains("additionalItems");
}

// Places that one of the two does not list are for the rest of it.
Result<Json> merge_items(const Json& a, const Json& b, Merging& merging, std::string_view pointer) {
  const Items left(a), right(b);
  const std::string place = below(pointer, "prefixItems");
  for (const Items* items : {&left, &right})
    if (items->first && !items->first->is_array()) return wrong(place, "expected a list of schemas");
  auto both = [&](const Json* one, const Json* other, const std::string& at) -> Result<Json> {
    if (!one || !other) return one ? *one : *other;
    return merge(*one, *other, merging, at);
  };
  Json out = Json::object(), first = Json::array();
  for (size_t i = 0; i < std::max(left.count(), right.count()); ++i) {
    for (const Items* items : {&left, &right})
      if (items->rest && i >= items->count() && !merging.take(*items->rest)) return too_large(pointer);
    auto item = both(left.at(i), right.at(i), below(place, std::to_string(i)));
    if (!item) return item;
    first.push_back(*std::move(item));
  }
  if (!first.empty()) out["prefixItems"] = std::move(first);
  if (!left.rest && !right.rest) return out;
  auto rest = both(left.rest, right.rest, below(pointer, "items"));
  if (!rest) return rest;
  out["items"] = *std::move(rest);
  return out;
}

Result<Json> merge_keyword(const std::string& key, const Json& a, const Json& b, Merging& merging,
                           std::string_view pointer) {
  if (a == b || is_annotation(key)) return a;
  if (key == "type") return common_types(a, b);
  if (key == "enum" && a.is_array() && b.is_array()) return common_values(a, b);
  if (key == "required" && a.is_array() && b.is_array()) {
    Json out = a;
    for (const Json& name : b)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    return out;
  }
  if ((key.starts_with("min") || key == "exclusiveMinimum") && both_numbers(a, b)) return std::max(a, b);
  if ((key.starts_with("max") || key == "exclusiveMaximum") && both_numbers(a, b)) return std::min(a, b);
  if (key == "additionalProperties") return merge(a, b, merging, below(pointer, key));
  if (merging.unsupported == Unsupported::kIgnored) return a;
  return wrong(pointer, "two schemas that both have '" + key.substr(0, 60) + "' cannot be merged");
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

bool Merging::take(const Json& schema) { return (bytes += json_text(schema).size()) <= kMostBytes; }

Result<Json> merge(const Json& a, const Json& b, Merging& merging, std::string_view pointer) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (!a.is_object() || !b.is_object()) return wrong(pointer, "a schema is an object or a boolean");
  Json left = a, right = b;
  enumerate(left), enumerate(right);
  auto properties = merge_properties(left, right, merging, pointer);
  if (!properties) return properties;
  const bool both_items = has_items(left) && has_items(right);
  auto items = both_items ? merge_items(left, right, merging, pointer) : Json::object();
  if (!items) return items;
  Json out = Json::object();
  for (const auto& [key, value] : left.items()) {
    if (both_items && is_of_items(key)) continue;
    const Json* other = member(right, key.c_str());
    if (key == "properties" || !other) {
      out[key] = value;
      continue;
    }
    auto merged = merge_keyword(key, value, *other, merging, pointer);
    if (!merged) return merged;
    out[key] = *std::move(merged);
  }
  for (const auto& [key, value] : right.items())
    if (!out.contains(key) && !(both_items && is_of_items(key))) out[key] = value;
  if (!properties->empty()) out["properties"] = *std::move(properties);
  out.update(*items);
  return out;
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number() && value.get<double>() == double(int64_t(value.get<double>())));
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "object") return value.is_object();
  return type == "array" && value.is_array();
}

bool disjoint(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return false;
  Json left = a, right = b;
  enumerate(left), enumerate(right);
  const Json *values = member(left, "enum"), *others = member(right, "enum");
  if (values && others) return values->is_array() && others->is_array() && common_values(*values, *others).empty();
  const Json *type = member(left, "type"), *other_type = member(right, "type");
  if (type && other_type && common_types(*type, *other_type).empty()) return true;
  auto none_has = [](const Json& all, const Json& types) {
    return std::none_of(all.begin(), all.end(), [&](const Json& value) {
      const Json list = listed(types);
      return std::any_of(list.begin(), list.end(),
                         [&](const Json& t) { return t.is_string() && has_type(value, t.get<std::string>()); });
    });
  };
  if (values && other_type && values->is_array() && none_has(*values, *other_type)) return true;
  if (others && type && others->is_array() && none_has(*others, *type)) return true;
  // Objects: a property that both require, with nothing in common; or one that the other does not allow.
  const Json *properties = member(left, "properties"), *other_properties = member(right, "properties");
  const bool objects = type && other_type && *type == "object" && *other_type == "object";
  if (!objects || !properties || !other_properties) return false;
  auto requires_name = [](const Json& schema, const std::string& name) {
    const Json* names = member(schema, "required");
    return names && names->is_array() && std::find(names->begin(), names->end(), name) != names->end();
  };
  auto closed = [](const Json& schema) {
    const Json* more = member(schema, "additionalProperties");
    return more && *more == false;
  };
  for (const auto& [name, value] : properties->items()) {
    const Json* other = member(*other_properties, name.c_str());
    if (!other && requires_name(left, name) && closed(right)) return true;
    if (other && requires_name(left, name) && requires_name(right, name) && disjoint(value, *other)) return true;
  }
  for (const auto& [name, value] : other_properties->items())
    if (!member(*properties, name.c_str()) && requires_name(right, name) && closed(left)) return true;
  return false;
}

}  // namespace grammar
