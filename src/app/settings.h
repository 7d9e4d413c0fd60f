// The table of settings: one row per key.
#pragma once

#include <vector>

#include "app/config.h"
#include "base/setting.h"

namespace weir::app {

// Whether the text is what people write for "on" or "off", or a stream's name: no file is called that where a setting
// takes one of them, too.
bool is_switch(std::string_view text);

// The rows of `config`, which they borrow, in the order of `weir check`; those of one section ("limits") stand
// together.
std::vector<base::Setting> settings(Config& config);

}  // namespace weir::app
