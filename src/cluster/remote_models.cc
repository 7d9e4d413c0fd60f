#include "cluster/remote_models.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/encoding.h"
#include "base/log.h"

namespace weir::cluster {

namespace fs = std::filesystem;

// The nodes of each model, as many as a forwarded model can have, in the order of their ids.
std::map<std::string, RemoteModels::Wanted> RemoteModels::wanted(const Members& members) {
  std::map<std::string, Wanted> out;
  for (const auto& node : members.nodes) {
    if (node.phase != Node::Phase::kServing || node.address.empty()) continue;
    for (const auto& model : node.models) {
      if (!out.contains(model.name) && out.size() >= kMostModels) continue;
      auto [found, made] = out.try_emplace(model.name, Wanted{model.makes, {}});
      if (found->second.makes == model.makes && found->second.urls.size() < kMostNodes)
        found->second.urls.push_back(node.address);
    }
  }
  return out;
}

void RemoteModels::update(const Members& members) {
  const auto all = wanted(members);
  std::map<std::string, std::vector<std::string>> nodes;
  for (const auto& [model, what] : all) nodes[model] = what.urls;
  for (const auto& why : directory_.set(nodes))
    base::log::warning("a node's address cannot be used", {{"reason", base::presentable(why, 300)}});
  std::vector<std::string> changed;
  for (const auto& [model, what] : all)
    if (what.makes == NodeModel::Makes::kTensors && keep(model, what.urls)) changed.push_back(model);
  std::erase_if(folders_, [&](const auto& one) {
    auto found = all.find(one.first);
    if (found != all.end() && found->second.makes == NodeModel::Makes::kTensors) return false;
    remove(one.first);
    changed.push_back(one.first);
    return true;
  });
  if (!changed.empty()) refresh_(std::move(changed));
}

// True: the folder is new, or has room for more nodes.
bool RemoteModels::keep(const std::string& model, const std::vector<std::string>& urls) {
  Folder& folder = folders_[model];
  folder.used.insert(urls.begin(), urls.end());
  if (folder.used.size() <= folder.places) return false;
  folder.used = {urls.begin(), urls.end()};
  folder.places = std::min(kMostNodes, std::max<size_t>(8, 2 * folder.used.size()));
  const base::Status status = write(model, folder);
  if (status.ok()) return folder.failed = false, true;
  folder.places = 0;  // it is written at the next change of the cluster
  if (!std::exchange(folder.failed, true))
    base::log::warning("a model of another node is not served", {{"model", model}, {"reason", status.text}});
  return false;
}

// Written aside and renamed: the repository may read it at any time.
base::Status RemoteModels::write(const std::string& model, const Folder& folder) const {
  const fs::path place = fs::path(root_) / model, file = place / "model.yaml", aside = place / ".model.yaml";
  std::error_code error;
  fs::create_directories(place, error);
  std::ofstream out(aside);
  out << "engine: forward\nkind: weir\norigins: cluster\nparameters: {places: " << folder.places << "}\n";
  out.close();
  if (!out) return base::failure(base::Code::kUnavailable, "its folder cannot be written");
  fs::rename(aside, file, error);
  return error ? base::failure(base::Code::kUnavailable, error.message()) : base::Status();
}

void RemoteModels::remove(const std::string& model) const {
  std::error_code ignored;
  fs::remove_all(fs::path(root_) / model, ignored);
}

}  // namespace weir::cluster
