// Setting: one row of the table of settings: its key in the configuration file, its flag, its variable, the text of its
// help, and the place where its value is. Rows are built for one object whose members they set and show; they borrow
// it.
//
// Every room that has settings builds its rows with the functions below; the app's table is all of them in a row.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/encoding.h"
#include "base/env.h"
#include "base/status.h"
#include "base/units.h"
#include "base/yaml.h"

namespace weir::base {

struct Setting {
  // kFlag: a switch that needs no value on the command line. kTree: a part of the file with keys of its own, which has
  // neither a flag nor a variable. kReplaced: a key of the past, which can only be refused.
  enum class ValueKind : uint8_t { kOne, kList, kFlag, kTree, kReplaced };
  enum class Shown : uint8_t { kInHelp, kInFileOnly };  // every setting has a flag; the rare ones are not in --help
  using Values = std::vector<std::string>;

  std::string key;   // "limits.body"
  std::string flag;  // "--max-body"; empty = made from the key
  ValueKind form = ValueKind::kOne;
  Shown shown = Shown::kInFileOnly;
  bool path = false;  // relative to the file's folder when it stands in a file
  std::string unit;   // "SIZE", for the help
  std::string help;
  // Errors: INVALID_ARGUMENT "expected a size …".
  std::function<Status(const Values&)> set;
  std::function<Values()> get;
  std::function<Values()>
      compared;  // set for secrets, whose get() hides the values: the values, to see whether they change
  // Set for kTree, in place of set and get: reads what stands below the key, and shows it as lines of YAML that are
  // indented below the key ("" where there is nothing to show).
  std::function<void(const Yaml&, Complaints&)> read;
  std::function<std::string()> show;

  std::string flag_name() const;         // "--limits-body"
  std::string environment_name() const;  // "WEIR_LIMITS_BODY"
};

// The builders of rows: one for each form of value. `place` outlives the row.
namespace setting {

using Values = Setting::Values;

// `parse` makes a Result of what `place` can hold from a text, `show` the text from that.
template <class T, class Parse, class Show>
Setting row(std::string_view key, std::string_view unit, std::string_view help, T& place, Parse parse, Show show) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.set = [&place, parse](const Values& values) -> Status {
    if (values.size() != 1) return invalid("expected one value");
    auto parsed = parse(values[0]);
    if (!parsed) return parsed.error();
    place = static_cast<T>(*parsed);
    return {};
  };
  s.get = [&place, show] { return Values{show(place)}; };
  return s;
}

Setting text(std::string_view key, std::string_view unit, std::string_view help, std::string& place);
// A file or folder.
Setting path(std::string_view key, std::string_view help, std::string& place);
Setting flag(std::string_view key, std::string_view help, bool& place);
// Times are given with their unit: 5ms, 2s.
Setting duration(std::string_view key, std::string_view help, Duration& place, Duration least = Duration(0));
Setting list(std::string_view key, std::string_view unit, std::string_view help, Values& place);
// The row, whose values are where endpoints are: paths of one segment or more, like `example`, without a / at the end.
Setting path_prefix(Setting s, std::string_view example);
// A key that is now called `by`: where it is set, that is an error.
Setting replaced(std::string_view key, std::string_view by);

template <class T>
Setting count(std::string_view key, std::string_view help, T& place, uint64_t least = 0, uint64_t most = UINT32_MAX) {
  auto parse = [least, most](const std::string& v) -> Result<uint64_t> {
    auto n = parse_count(v, most);
    if (n && *n < least) return invalid("expected at least " + std::to_string(least) + ", got " + v);
    return n;
  };
  return row(key, "N", help, place, parse, [](uint64_t v) { return std::to_string(v); });
}

template <class T>
Setting size(std::string_view key, std::string_view help, T& place, uint64_t least, uint64_t most) {
  auto parse = [least, most](const std::string& v) -> Result<uint64_t> {
    auto n = parse_size(v);
    if (n && (*n < least || *n > most))
      return invalid("expected " + show_size(least) + " to " + show_size(most) + ", got " + v);
    return n;
  };
  return row(key, "SIZE", help, place, parse, [](uint64_t v) { return show_size(v); });
}

// One of a few words; `place` holds an enumerator or the word itself.
template <class T>
Setting choice(std::string_view key, std::string_view help, T& place, std::vector<std::pair<std::string, T>> table) {
  auto words = std::make_shared<const std::vector<std::pair<std::string, T>>>(std::move(table));
  auto parse = [words](const std::string& v) -> Result<T> {
    std::string all;
    for (const auto& [word, value] : *words) {
      if (word == v) return value;
      all += (all.empty() ? "" : ", ") + word;
    }
    return invalid("expected one of " + all + ", got '" + v + "'");
  };
  auto show = [words](const T& v) {
    for (const auto& [word, value] : *words)
      if (value == v) return word;
    return std::string();
  };
  return row(key, "WORD", help, place, parse, show);
}

// The row, with a rule that all its values must keep: `check` returns OK or what was expected.
Setting checked(Setting s, std::function<Status(const Values&)> check);
// The row, named in --help; with a flag of its own where `flag_name` is not empty.
Setting named(Setting s, std::string_view flag_name);
Setting in_help(Setting s);
// The row, whose value `weir check` does not show.
Setting secret(Setting s);

}  // namespace setting
}  // namespace weir::base
