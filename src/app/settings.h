// The table of settings: one row per key.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"

namespace weir::app {

struct Setting {
  enum class ValueKind : uint8_t { kOne, kList, kFlag };  // kFlag: a switch that needs no value on the command line
  enum class Shown : uint8_t { kInHelp, kInFileOnly };    // every setting has a flag; the rare ones are not in --help
  using Values = std::vector<std::string>;

  std::string_view key;   // "limits.body"
  std::string_view flag;  // "--max-body"; empty = made from the key
  ValueKind form = ValueKind::kOne;
  Shown shown = Shown::kInFileOnly;
  bool path = false;      // relative to the file's folder when it stands in a file
  std::string_view unit;  // "SIZE", for the help
  std::string_view help;
  // Errors: INVALID_ARGUMENT "expected a size …".
  std::function<base::Status(Config&, const Values&)> set;
  std::function<Values(const Config&)> get;

  std::string flag_name() const;         // "--limits-body"
  std::string environment_name() const;  // "WEIR_LIMITS_BODY"
};

const std::vector<Setting>& settings();

}  // namespace weir::app
