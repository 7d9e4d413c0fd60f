#include "app/logs.h"

#include "base/log.h"

namespace weir::app {

void set_up_logs(const Config& config) {
  using base::log::Level;
  for (auto level : {Level::kVerbose, Level::kInfo, Level::kWarning, Level::kError})
    base::log::enable(level, level >= config.log_level);
  if (config.log_level == Level::kVerbose) base::log::set_verbosity(1);
  base::log::set_format(config.log_format);
}

}  // namespace weir::app
