#include "app/logs.h"

#include "base/log.h"

namespace weir::app {

void set_up_logs(const Config& config) {
  set_log_level(config.log_level);
  base::log::set_format(config.log_format);
}

void set_log_level(base::log::Level least) {
  using base::log::Level;
  for (auto level : {Level::kInfo, Level::kWarning, Level::kError}) base::log::enable(level, level >= least);
  base::log::set_verbosity(least == Level::kVerbose ? 1 : 0);
}

}  // namespace weir::app
