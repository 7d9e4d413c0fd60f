// Filters on lists and dicts.
#include <algorithm>
#include <charconv>

#include "builtins.h"
#include "evaluation.h"
#include "filters.h"

namespace jinja {

namespace {

// "a.b.0" of a value, as the `attribute` of several filters.
Value dotted(Evaluation& evaluation, Value value, const Value& path) {
  if (!path.text()) return evaluation.item(value, path);
  std::string_view rest = path.str();
  while (true) {
    size_t end = std::min(rest.find('.'), rest.size());
    std::string_view part = rest.substr(0, end);
    int64_t number = 0;
    auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    bool digits = error == std::errc() && stop == part.data() + part.size() && number >= 0;
    // Jinja's environment.getitem: the key first, then the method.
    value = digits ? evaluation.item(value, number) : evaluation.item(value, Value(part));
    if (end == rest.size()) return value;
    if (value.undefined()) fail("an undefined value has no attribute '" + std::string(rest.substr(end + 1)) + "'");
    rest.remove_prefix(end + 1);
  }
}

Value length_of(Evaluation&, const Value& v, Arguments&) { return size_of(v); }

Value join_filter(Evaluation& evaluation, const Value& v, Arguments& a) {
  std::string between = evaluation.text_of(a.get(0, "d", std::string())), out;
  Value path = a.get(1, "attribute", None{});
  bool first = true;
  for (const Value& item : elements(evaluation, v)) {
    if (!std::exchange(first, false)) evaluation.append(out, between);
    evaluation.append(out, evaluation.text_of(path.none() ? item : dotted(evaluation, item, path)));
  }
  return Value(std::move(out));
}

Value first(Evaluation& evaluation, const Value& v, Arguments&) {
  if (v.text()) return evaluation.item(v, int64_t(0));
  List items = elements(evaluation, v);
  return items.empty() ? Value() : items.front();
}

Value last(Evaluation& evaluation, const Value& v, Arguments&) {
  if (v.text()) return evaluation.item(v, int64_t(-1));
  List items = elements(evaluation, v);
  return items.empty() ? Value() : items.back();
}

Value to_list(Evaluation& evaluation, const Value& v, Arguments&) { return evaluation.list(elements(evaluation, v)); }

Value reverse(Evaluation& evaluation, const Value& v, Arguments&) {
  List items = elements(evaluation, v);
  std::reverse(items.begin(), items.end());
  if (!v.text()) return evaluation.list(std::move(items));
  std::string out;
  for (const Value& c : items) out += c.str();
  return evaluation.text(std::move(out));
}

Value items_of(Evaluation& evaluation, const Value& v, Arguments& a) {
  if (v.undefined()) return Value::list({});
  if (!v.dict()) fail("only a dict has items, not a " + std::string(v.kind()));
  return evaluation.call(find_method(v, "items"), a);
}

// Strings count the same in any case, unless the filter is told otherwise.
Value sort_key(const Value& value, bool exact) { return !exact && value.text() ? Value(lower(value.str())) : value; }

void sort_by(Evaluation& evaluation, List& keys, List& items, bool backwards) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    evaluation.spend(1);
    evaluation.pay_for(keys[x], keys[y]);
    return backwards ? compare(keys[y], keys[x]) < 0 : compare(keys[x], keys[y]) < 0;
  });
  List sorted;
  for (size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

Value sort(Evaluation& evaluation, const Value& v, Arguments& a) {
  bool backwards = a.get(0, "reverse", false).truth(), exact = a.get(1, "case_sensitive", false).truth();
  Value path = a.get(2, "attribute", None{});
  List items = elements(evaluation, v), keys;
  for (const Value& item : items) keys.push_back(sort_key(path.none() ? item : dotted(evaluation, item, path), exact));
  sort_by(evaluation, keys, items, backwards);
  return evaluation.list(std::move(items));
}

Value dictsort(Evaluation& evaluation, const Value& v, Arguments& a) {
  bool exact = a.get(0, "case_sensitive", false).truth(), backwards = a.get(2, "reverse", false).truth();
  std::string by = a.get(1, "by", std::string("key")).to_text();
  if (by != "key" && by != "value") fail("dictsort sorts by key or value");
  Arguments none;
  List items = items_of(evaluation, v, none).items(), keys;
  for (const Value& item : items) keys.push_back(sort_key(item.items()[by == "key" ? 0 : 1], exact));
  sort_by(evaluation, keys, items, backwards);
  return evaluation.list(std::move(items));
}

Value unique(Evaluation& evaluation, const Value& v, Arguments& a) {
  bool exact = a.get(0, "case_sensitive", false).truth();
  Value path = a.get(1, "attribute", None{});
  List seen, out;
  for (const Value& item : elements(evaluation, v)) {
    Value key = sort_key(path.none() ? item : dotted(evaluation, item, path), exact);
    evaluation.spend(seen.size() * (1 + key.weight() / Evaluation::kPerStep));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return evaluation.list(std::move(out));
}

template <int kSign>
Value extreme(Evaluation& evaluation, const Value& v, Arguments& a) {
  bool exact = a.get(0, "case_sensitive", false).truth();
  Value path = a.get(1, "attribute", None{}), best_key, best;
  for (const Value& item : elements(evaluation, v)) {
    Value key = sort_key(path.none() ? item : dotted(evaluation, item, path), exact);
    evaluation.pay_for(key, best_key);
    if (!best_key.undefined() && compare(key, best_key) * kSign <= 0) continue;
    best_key = key, best = item;
  }
  return best;
}

// sum(start=[…]): one list of the items of all.
Value joined_lists(Evaluation& evaluation, const Value& v, const Value& path, const Value& start) {
  List out = start.items();
  for (const Value& item : elements(evaluation, v)) {
    Value more = path.none() ? item : dotted(evaluation, item, path);
    if (!more.list()) fail("only a list can be added to a list, not a " + std::string(more.kind()));
    evaluation.spend(more.items().size());
    out.insert(out.end(), more.items().begin(), more.items().end());
  }
  return evaluation.list(std::move(out));
}

Value sum(Evaluation& evaluation, const Value& v, Arguments& a) {
  Value path = a.get(0, "attribute", None{}), start = a.get(1, "start", int64_t(0));
  if (start.list()) return joined_lists(evaluation, v, path, start);
  bool whole = start.integer();
  int64_t total = whole ? start.to_int("the start") : 0;
  double real = whole ? 0 : start.to_real();
  for (const Value& item : elements(evaluation, v)) {
    Value n = path.none() ? item : dotted(evaluation, item, path);
    if (n.real() && whole) whole = false, real = double(total);
    if (!whole)
      real += n.to_real();
    else if (__builtin_add_overflow(total, n.to_int("what is summed"), &total))
      fail("the number is too large");
  }
  return whole ? Value(total) : Value(real);
}

// The arguments behind the first `n`.
Arguments rest_of(const Arguments& a, size_t n) {
  Arguments out;
  if (a.values.size() > n) out.values.assign(a.values.begin() + long(n), a.values.end());
  out.named = a.named;
  return out;
}

Value map(Evaluation& evaluation, const Value& v, Arguments& a) {
  List out;
  if (v.none()) return evaluation.list({});  // as any value that is false
  if (a.values.empty()) {
    Value path = a.need(0, "attribute"), fallback = a.get(1, "default");
    for (const Value& item : elements(evaluation, v)) {
      Value found = dotted(evaluation, item, path);
      out.push_back(found.undefined() ? fallback : found);
    }
    return evaluation.list(std::move(out));
  }
  std::string name = a.values[0].to_text();
  Arguments rest = rest_of(a, 1);
  FilterFn filter = find_filter(name);
  for (const Value& item : elements(evaluation, v)) {
    Arguments given = rest;
    out.push_back(evaluation.apply_filter(filter, name, item, given));
  }
  return evaluation.list(std::move(out));
}

enum class Keep : uint8_t { kMatching, kOthers };
enum class Selector : uint8_t { kItem, kAttribute };

// select, reject, selectattr, rejectattr: [attribute,] [test, its arguments].
Value chosen(Evaluation& evaluation, const Value& v, Arguments& a, Keep keep, Selector selector) {
  size_t used = selector == Selector::kAttribute ? 1 : 0;
  Value path;
  if (selector == Selector::kAttribute) path = a.need(0, "attribute");
  TestFn test = nullptr;
  if (a.values.size() > used) {
    std::string name = a.values[used].to_text();
    test = find_test(name);
    if (!test) fail("the test '" + name.substr(0, 100) + "' is not supported");
  }
  Arguments rest = rest_of(a, used + 1);
  List out;
  if (v.none()) return evaluation.list({});  // as any value that is false
  for (const Value& item : elements(evaluation, v)) {
    Value what = selector == Selector::kAttribute ? dotted(evaluation, item, path) : item;
    bool yes = test ? evaluation.tested(test, what, rest) : what.truth();
    if (yes == (keep == Keep::kMatching)) out.push_back(item);
  }
  return evaluation.list(std::move(out));
}

Value select(Evaluation& e, const Value& v, Arguments& a) { return chosen(e, v, a, Keep::kMatching, Selector::kItem); }
Value reject(Evaluation& e, const Value& v, Arguments& a) { return chosen(e, v, a, Keep::kOthers, Selector::kItem); }
Value selectattr(Evaluation& e, const Value& v, Arguments& a) {
  return chosen(e, v, a, Keep::kMatching, Selector::kAttribute);
}
Value rejectattr(Evaluation& e, const Value& v, Arguments& a) {
  return chosen(e, v, a, Keep::kOthers, Selector::kAttribute);
}

// Pairs of what the items of a group have alike and a list of them, in its order.
Value group_by(Evaluation& evaluation, const Value& v, Arguments& a) {
  Value path = a.need(0, "attribute"), fallback = a.get(1, "default");
  bool exact = a.get(2, "case_sensitive", false).truth();
  List items = elements(evaluation, v), keys, pairs, out;
  for (const Value& item : items) {
    Value key = dotted(evaluation, item, path);
    if (key.undefined()) key = fallback;
    keys.push_back(sort_key(key, exact));
    pairs.push_back(Value::tuple({std::move(key), item}));
  }
  sort_by(evaluation, keys, pairs, false);
  for (size_t from = 0, to = 0; from < pairs.size(); from = to) {
    Value key = pairs[from].items()[0], same = sort_key(key, exact);
    List group;
    for (; to < pairs.size() && sort_key(pairs[to].items()[0], exact) == same; ++to) {
      evaluation.pay_for(same);
      group.push_back(pairs[to].items()[1]);
    }
    out.push_back(Value::tuple({std::move(key), evaluation.list(std::move(group))}));
  }
  return evaluation.list(std::move(out));
}

// Lists of `linecount` items each; the last is filled up with `fill_with` unless that is None.
Value batch(Evaluation& evaluation, const Value& v, Arguments& a) {
  int64_t size = a.need(0, "linecount").to_int("the size of a batch");
  Value filler = a.get(1, "fill_with", None{});
  List out, part;
  for (const Value& item : elements(evaluation, v)) {
    if (int64_t(part.size()) == size) out.push_back(evaluation.list(std::exchange(part, {})));
    part.push_back(item);
  }
  if (!part.empty()) {
    int64_t missing = filler.none() ? 0 : size - int64_t(part.size());
    if (missing > 0) {
      evaluation.spend(uint64_t(missing));
      part.resize(part.size() + size_t(missing), filler);
    }
    out.push_back(evaluation.list(std::move(part)));
  }
  return evaluation.list(std::move(out));
}

// That many lists, the first ones longer by one; the shorter ones get `fill_with` unless that is None.
Value slices(Evaluation& evaluation, const Value& v, Arguments& a) {
  int64_t count = a.need(0, "slices").to_int("the number of slices");
  if (count == 0) fail("division by zero");
  Value filler = a.get(1, "fill_with", None{});
  List items = elements(evaluation, v), out;
  if (count < 0) return evaluation.list({});
  evaluation.spend(uint64_t(count));
  int64_t each = int64_t(items.size()) / count, longer = int64_t(items.size()) % count;
  auto at = items.begin();
  for (int64_t i = 0; i < count; ++i) {
    auto end = at + each + (i < longer ? 1 : 0);
    List part(at, end);
    if (i >= longer && !filler.none()) part.push_back(filler);
    out.push_back(evaluation.list(std::move(part)));
    at = end;
  }
  return evaluation.list(std::move(out));
}

constexpr FilterEntry kListFilters[] = {
    {"length", length_of},      {"count", length_of}, {"join", join_filter},
    {"first", first},           {"last", last},       {"list", to_list},
    {"reverse", reverse},       {"items", items_of},  {"sort", sort},
    {"dictsort", dictsort},     {"unique", unique},   {"max", extreme<1>},
    {"min", extreme<-1>},       {"sum", sum},         {"map", map},
    {"select", select},         {"reject", reject},   {"selectattr", selectattr},
    {"rejectattr", rejectattr}, {"batch", batch},     {"slice", slices},
    {"groupby", group_by},
};

}  // namespace

FilterFn find_list_filter(std::string_view name) {
  for (const FilterEntry& entry : kListFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace jinja
