#include "base/setting.h"

namespace weir::base {

std::string Setting::flag_name() const {
  if (!flag.empty()) return flag;
  std::string out = "--" + key;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return out;
}

std::string Setting::environment_name() const {
  std::string out = "WEIR_";
  for (char c : key) out += c == '.' ? '_' : char(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}

namespace setting {

Setting text(std::string_view key, std::string_view unit, std::string_view help, std::string& place) {
  return row(
      key, unit, help, place, [](const std::string& v) { return Result<std::string>(v); },
      [](const std::string& v) { return v; });
}

Setting path(std::string_view key, std::string_view help, std::string& place) {
  Setting s = text(key, "FILE", help, place);
  s.path = true;
  return s;
}

Setting flag(std::string_view key, std::string_view help, bool& place) {
  Setting s = row(
      key, "", help, place, [](const std::string& v) { return parse_switch(v); },
      [](bool v) { return std::string(v ? "true" : "false"); });
  s.form = Setting::ValueKind::kFlag;
  return s;
}

Setting duration(std::string_view key, std::string_view help, Duration& place, Duration least) {
  auto parse = [least](const std::string& v) -> Result<Duration> {
    auto d = parse_duration(v);
    if (d && *d < least) return invalid("expected at least " + show_duration(least) + ", got " + v);
    return d;
  };
  return row(key, "TIME", help, place, parse, [](Duration v) { return show_duration(v); });
}

Setting list(std::string_view key, std::string_view unit, std::string_view help, Values& place) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.form = Setting::ValueKind::kList;
  s.set = [&place](const Values& values) -> Status {
    if (std::count(values.begin(), values.end(), "")) return invalid("an empty entry");
    place = values;
    return {};
  };
  s.get = [&place] { return place; };
  return s;
}

Setting path_prefix(Setting s, std::string_view example) {
  return checked(std::move(s), [example = std::string(example)](const Values& values) -> Status {
    for (const auto& v : values)
      if (v.size() < 2 || v[0] != '/' || v.back() == '/' || v.find_first_of("{}?# ") != v.npos)
        return invalid("expected a path like " + example + ", got '" + v + "'");
    return {};
  });
}

Setting replaced(std::string_view key, std::string_view by) {
  Setting s;
  s.key = key;
  s.form = Setting::ValueKind::kReplaced;
  s.help = "is now " + std::string(by);
  s.set = [text = s.key + ' ' + s.help](const Values&) { return invalid(text); };
  return s;
}

Setting checked(Setting s, std::function<Status(const Values&)> check) {
  s.set = [store = s.set, check = std::move(check)](const Values& values) -> Status {
    if (auto wrong = check(values); !wrong.ok()) return wrong;
    return store(values);
  };
  return s;
}

Setting named(Setting s, std::string_view flag_name) {
  s.flag = flag_name;
  s.shown = Setting::Shown::kInHelp;
  return s;
}

Setting in_help(Setting s) {
  s.shown = Setting::Shown::kInHelp;
  return s;
}

Setting secret(Setting s) {
  s.compared = s.get;
  s.get = [get = s.get] {
    Values values = get();
    return values.empty() || values == Values{""} ? values : Values{"(a secret)"};
  };
  return s;
}

}  // namespace setting
}  // namespace weir::base
