#include "app/live_settings.h"

#include <utility>

#include "app/logs.h"
#include "app/settings.h"

namespace weir::app {
namespace {

bool is_live(const std::string& key) { return key == "log.level" || key == "log.format"; }

}  // namespace

LiveSettings::LiveSettings(const Config& config, Read read) : read_(std::move(read)), in_force_(values_of(config)) {}

LiveSettings::Values LiveSettings::values_of(const Config& config) {
  Values out;
  for (const auto& row : settings(const_cast<Config&>(config))) {  // which are only shown
    if (row.form == base::Setting::ValueKind::kReplaced) continue;
    const auto& get = row.compared ? row.compared : row.get;
    out[row.key] = row.form == base::Setting::ValueKind::kTree ? base::Setting::Values{row.show()} : get();
  }
  return out;
}

void LiveSettings::take(const std::string& key, const Config& config) {
  if (key == "log.level")
    set_log_level(config.log_level);
  else
    base::log::set_format(config.log_format);
}

base::Result<std::vector<std::string>> LiveSettings::reload() {
  auto config = read_();
  if (!config) return std::move(config).error();
  std::vector<std::string> others;
  Values now = values_of(*config);
  for (const auto& row : settings(*config)) {
    auto old = in_force_.find(row.key);
    if (old == in_force_.end() || old->second == now[row.key]) continue;
    if (!is_live(row.key)) {
      others.push_back(row.key);
      continue;
    }
    take(row.key, *config);
    old->second = now[row.key];
  }
  return others;
}

}  // namespace weir::app
