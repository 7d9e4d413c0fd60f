// The table of settings: one row per key.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "base/setting.h"

namespace weir::app {

// The rows of `config`, which they borrow, in the order of `weir check`; those of one section ("limits") stand
// together.
std::vector<base::Setting> settings(Config& config);

// A key that the file had once, and the setting that has taken its place.
struct ReplacedSetting {
  std::string_view key, by;
};
std::span<const ReplacedSetting> replaced_settings();

}  // namespace weir::app
