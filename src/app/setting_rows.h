// What the tables of settings are made of: a row for each form of value, and where in the Config it goes. For the
// tables alone.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "app/settings.h"
#include "base/encoding.h"
#include "base/units.h"

namespace weir::app {

using Values = Setting::Values;
using base::invalid;
using base::Status;

// The tables, in the order of `weir check` and --help.
void add_server(std::vector<Setting>& rows);      // listen, shards, tls, http
void add_models(std::vector<Setting>& rows);      // models, engines, device
void add_limits(std::vector<Setting>& rows);      // limits
void add_overload(std::vector<Setting>& rows);    // overload
void add_protocols(std::vector<Setting>& rows);   // protocols, and each of them, and sessions
void add_operations(std::vector<Setting>& rows);  // cors, metrics, log, access_log, shutdown

// A row; `at` gives the place in the Config, const or not.
template <class At, class Parse, class Show>
Setting row(std::string_view key, std::string_view unit, std::string_view help, At at, Parse parse, Show show) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.set = [at, parse](Config& config, const Values& values) -> Status {
    if (values.size() != 1) return invalid("expected one value");
    auto parsed = parse(values[0]);
    if (!parsed) return parsed.error();
    auto& place = at(config);
    place = static_cast<std::remove_reference_t<decltype(place)>>(*parsed);
    return {};
  };
  s.get = [at, show](const Config& config) { return Values{show(at(const_cast<Config&>(config)))}; };
  return s;
}

template <class At>
Setting text(std::string_view key, std::string_view unit, std::string_view help, At at) {
  return row(
      key, unit, help, at, [](const std::string& v) { return base::Result<std::string>(v); },
      [](const std::string& v) { return v; });
}

template <class At>
Setting path(std::string_view key, std::string_view help, At at) {
  Setting s = text(key, "FILE", help, at);
  s.path = true;
  return s;
}

template <class At>
Setting count(std::string_view key, std::string_view help, At at, uint64_t least = 0, uint64_t most = UINT32_MAX) {
  auto parse = [least, most](const std::string& v) -> base::Result<uint64_t> {
    auto n = base::parse_count(v, most);
    if (n && *n < least) return invalid("expected at least " + std::to_string(least) + ", got " + v);
    return n;
  };
  return row(key, "N", help, at, parse, [](uint64_t v) { return std::to_string(v); });
}

template <class At>
Setting size(std::string_view key, std::string_view help, At at, uint64_t least, uint64_t most) {
  auto parse = [least, most](const std::string& v) -> base::Result<uint64_t> {
    auto n = base::parse_size(v);
    if (n && (*n < least || *n > most))
      return invalid("expected " + base::show_size(least) + " to " + base::show_size(most) + ", got " + v);
    return n;
  };
  return row(key, "SIZE", help, at, parse, [](uint64_t v) { return base::show_size(v); });
}

template <class At>
Setting duration(std::string_view key, std::string_view help, At at, base::Duration least = base::Duration(0)) {
  auto parse = [least](const std::string& v) -> base::Result<base::Duration> {
    auto d = base::parse_duration(v);
    if (d && *d < least) return invalid("expected at least " + base::show_duration(least) + ", got " + v);
    return d;
  };
  return row(key, "TIME", help, at, parse, [](base::Duration v) { return base::show_duration(v); });
}

template <class At>
Setting flag(std::string_view key, std::string_view help, At at) {
  Setting s = row(
      key, "", help, at, [](const std::string& v) { return base::parse_switch(v); },
      [](bool v) { return std::string(v ? "true" : "false"); });
  s.form = Setting::ValueKind::kFlag;
  return s;
}

// One of a few words; `at` holds an enumerator or the word itself.
template <class At, class T>
Setting choice(std::string_view key, std::string_view help, At at, std::vector<std::pair<std::string, T>> words) {
  auto parse = [words](const std::string& v) -> base::Result<T> {
    std::string all;
    for (const auto& [word, value] : words) {
      if (word == v) return value;
      all += (all.empty() ? "" : ", ") + word;
    }
    return invalid("expected one of " + all + ", got '" + v + "'");
  };
  auto show = [words](const T& v) {
    for (const auto& [word, value] : words)
      if (value == v) return word;
    return std::string();
  };
  return row(key, "WORD", help, at, parse, show);
}

template <class At>
Setting list(std::string_view key, std::string_view unit, std::string_view help, At at) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.form = Setting::ValueKind::kList;
  s.set = [at](Config& config, const Values& values) -> Status {
    if (std::count(values.begin(), values.end(), "")) return invalid("an empty entry");
    at(config) = values;
    return {};
  };
  s.get = [at](const Config& config) { return at(const_cast<Config&>(config)); };
  return s;
}

inline Setting named(Setting s, std::string_view flag_name) {
  s.flag = flag_name;
  s.shown = Setting::Shown::kInHelp;
  return s;
}
inline Setting in_help(Setting s) { return named(std::move(s), s.flag); }

// Kept out of what `weir check` shows.
inline Setting secret(Setting s) {
  auto get = s.get;
  s.get = [get](const Config& config) { return get(config) == Values{""} ? Values{""} : Values{"(a secret)"}; };
  return s;
}

// Where in a Config a setting's value is.
#define AT(member) \
  [](Config & c) -> auto& { return c.member; }

}  // namespace weir::app
