// `weir key`: makes, lists and takes away keys of the file that auth.keys_file names. A running server reads the file
// again by itself.
#pragma once

#include <string>
#include <vector>

#include "app/commands.h"
#include "app/serve.h"

namespace weir::app {

struct KeyWords {
  std::string file;  // of keys
  std::string name, tenant, expires;
  std::vector<std::string> roles, models;
  Output output = Output::kTable;
};

// Prints a new key, once, on standard output, and adds its hash to the file, which is made if it is not there.
Exit new_key(const KeyWords& words);
Exit list_keys(const KeyWords& words);
Exit revoke_key(const KeyWords& words);

}  // namespace weir::app
