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
  root.seen = true, root.folder = folder, root.models = models;
  return {};
}

// Where it fails the root has what it had.
base::Status RootScan::look(Root& root, const Found& earlier, Watch::Settle settle) {
  Found found;
  std::vector<std::string> odd;
  const bool one = is_one_model(root.path);
  auto names = list_models(root.path, &odd);
  if (!names) return names.error();
  if (auto s = believe(root, names->size(), settle); !s.ok()) return s;
  for (const auto& name : odd) {
    found.skipped[base::presentable(name, 128)] = base::presentable(bad_name(name).text, 400);
    if (told_.insert(name).second) base::log::warning("folder is no model", {{"reason", bad_name(name).text}});
  }
  for (const auto& name : *names) {
    if (earlier.folders.contains(name)) continue;
    auto folder = one ? read_model_folder(root.path, name) : read_folder_of_repository(root.path, name);
    if (folder)
      found.folders.emplace(name, std::move(*folder));
    else if (folder.error().code != base::Code::kNotFound)  // gone since it was listed
      return folder.error();
  }
  root.had = std::move(found);
  return {};
}

base::Result<RootScan::Found> RootScan::scan(Watch::Settle settle) {
  Found found;
  for (auto& root : roots_) {
    if (auto s = look(root, found, settle); !s.ok()) {
      if (settle == Watch::Settle::kNo || s.code != base::Code::kNotFound || !root.seen) return s;
      if (found.trouble.ok()) found.trouble = std::move(s);
    }
    found.folders.insert(root.had.folders.begin(), root.had.folders.end());
    found.skipped.insert(root.had.skipped.begin(), root.had.skipped.end());
  }
  return found;
}

}  // namespace weir::models
