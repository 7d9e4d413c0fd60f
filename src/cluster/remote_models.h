// RemoteModels: models that other nodes have, as folders of a repository: <root>/<model>/model.yaml, engine forward,
// kind weir, origins cluster. A model of this node's own repository goes before another node's of the same name.
//
// Models of tokens need a tokenizer here, so that they get no folder: who wants them lays one into the repository, with
// `origins: cluster` and the tokenizer.
//
// On the cluster's thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/cluster.h"
#include "engines/forward/directory.h"

namespace weir::cluster {

class RemoteModels {
 public:
  // `refresh` is called with the models whose folders have come, gone or changed.
  using Refresh = std::function<void(std::vector<std::string> models)>;
  static constexpr size_t kMostModels = 1024, kMostNodes = 64;  // nodes of one model

  RemoteModels(std::string root, forward::Directory& directory, Refresh refresh)
      : root_(std::move(root)), directory_(directory), refresh_(std::move(refresh)) {}

  void update(const Members& members);
  size_t count() const { return folders_.size(); }

 private:
  struct Wanted {
    NodeModel::Makes makes = NodeModel::Makes::kTensors;
    std::vector<std::string> urls;
  };
  struct Folder {
    size_t places = 0;           // that the forwarded model has
    std::set<std::string> used;  // by these nodes, since it was loaded
    bool failed = false;         // it could not be written the last time
  };
  static std::map<std::string, Wanted> wanted(const Members& members);
  bool keep(const std::string& model, const std::vector<std::string>& urls);
  base::Status write(const std::string& model, const Folder& folder) const;
  void remove(const std::string& model) const;

  const std::string root_;
  forward::Directory& directory_;
  const Refresh refresh_;
  std::map<std::string, Folder> folders_;  // by model
};

}  // namespace weir::cluster
