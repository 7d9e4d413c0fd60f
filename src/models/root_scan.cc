#include "models/root_scan.h"

#include "base/encoding.h"
#include "base/log.h"

namespace weir::models {

base::Result<RootScan::Found> RootScan::scan() {
  Found found;
  for (const auto& root : roots_) {
    std::vector<std::string> odd;
    const bool one = is_one_model(root);
    auto names = list_models(root, &odd);
    if (!names) return names.error();
    for (const auto& name : odd) {
      found.skipped[base::presentable(name, 128)] = base::presentable(bad_name(name).text, 400);
      if (told_.insert(name).second) base::log::warning("folder is no model", {{"reason", bad_name(name).text}});
    }
    for (const auto& name : *names) {
      if (found.folders.count(name)) continue;
      auto folder = one ? read_model_folder(root, name) : read_folder_of_repository(root, name);
      if (folder)
        found.folders.emplace(name, std::move(*folder));
      else if (folder.error().code != base::Code::kNotFound)  // gone since it was listed
        return folder.error();
    }
  }
  return found;
}

}  // namespace weir::models
