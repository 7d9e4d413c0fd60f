// LiveSettings: the settings that a running server takes again from its file: log.level and log.format. Of the others
// it says which have changed there, for they need a restart. One thread at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/config.h"
#include "base/setting.h"

namespace weir::app {

class LiveSettings {
 public:
  // As at the start: file, variables and flags. Errors: those of resolve().
  using Read = std::function<base::Result<Config>()>;
  // `config` as it was read, before anything was fitted to the machine.
  LiveSettings(const Config& config, Read read);

  // Takes what can be taken and has changed since it was last taken: what a client has set meanwhile stays otherwise.
  // Returns the keys of the others that differ from what the server runs with, in their order. Errors: those of
  // resolve(); then nothing is taken.
  base::Result<std::vector<std::string>> reload();

 private:
  using Values = std::map<std::string, base::Setting::Values>;  // by key; of secrets, too, which nothing may show
  static Values values_of(const Config& config);
  void take(const std::string& key, const Config& config);

  const Read read_;
  Values in_force_;
};

}  // namespace weir::app
