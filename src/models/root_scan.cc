#include "models/root_scan.h"

#include <sys/stat.h>

#include "base/encoding.h"
#include "base/log.h"

namespace weir::models {

base::Status RootScan::believe(Root& root, size_t models, Watch::Settle settle) {
  struct stat info {};
  (void)::stat(root.path.c_str(), &info);
  const std::pair<uint64_t, uint64_t> folder(info.st_dev, info.st_ino);
  if (models == 0 && root.models > 0 && folder != root.folder && settle == Watch::Settle::kYes)
    return base::failure(base::Code::kNotFound,
                         "the model repository '" + root.path + "' is empty, and had " + std::to_string(root.models) +
                             (root.models == 1 ? " model" : " models") +
                             " before: what was loaded stays (is its volume mounted? SIGHUP unloads what is gone)");
  root.folder = folder, root.models = models;
  return {};
}

base::Result<RootScan::Found> RootScan::scan(Watch::Settle settle) {
  Found found;
  for (auto& each : roots_) {
    const std::string& root = each.path;
    std::vector<std::string> odd;
    const bool one = is_one_model(root);
    auto names = list_models(root, &odd);
    if (!names) return names.error();
    if (auto s = believe(each, names->size(), settle); !s.ok()) return s;
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
