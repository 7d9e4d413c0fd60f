// ClusterNode: this server among other nodes: what of it src/cluster is told, and how the models of the others come
// into the repository.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cluster_jobs.h"
#include "app/cluster_sessions.h"
#include "app/config.h"
#include "cluster/cluster.h"
#include "cluster/remote_models.h"
#include "engines/forward/directory.h"
#include "models/repository.h"

namespace weir::app {

// Reads the secret. Errors: INVALID_ARGUMENT, UNIMPLEMENTED naming the setting.
base::Result<cluster::Settings> cluster_settings(const Config& config);

class ClusterNode {
 public:
  using GetCatalog = std::function<std::shared_ptr<const bus::Catalog>()>;

  // Null where cluster.nats is not set. Makes a private folder for the models of others. Throws std::runtime_error for
  // what cluster_settings() refuses, for files of cluster.tls, and where there is no place for the folder.
  // `catalog`: the latest, from any thread.
  // `memory` outlives it.
  static std::unique_ptr<ClusterNode> make(const Config& config, forward::Directory& directory,
                                           base::MemoryLedger& memory, GetCatalog catalog);
  ~ClusterNode();

  const std::string& root() const { return root_; }
  // The server listens; the repository outlives stop().
  void start(models::Repository& repository, const net::Server& server);
  // Before the store is opened: its journal is that of all nodes, if it has a folder. It is stopped before this goes.
  void share(jobs::Store& store);
  // Any thread: these are served now.
  void serve(const bus::Catalog& catalog);
  void stop();
  // Reads the files of cluster.tls again, for connections to other nodes that are made from now on; those that are
  // there stay. On an error, which says what is wrong with one, all is as it was.
  base::Status reload_tls();
  cluster::Cluster& cluster() { return *cluster_; }
  // For people: that of the cluster, and what is wrong with its jobs.
  std::string detail() const;
  ClusterSessions& sessions() { return *sessions_; }

 private:
  ClusterNode(const Config& config, cluster::Settings settings, std::string root, forward::Directory& directory,
              std::shared_ptr<net::LiveTls> tls, GetCatalog catalog, base::MemoryLedger& memory);

  const Config& config_;
  const std::string root_;
  const GetCatalog catalog_;
  const std::shared_ptr<net::LiveTls> tls_;  // null: without cluster.tls
  jobs::Store* store_ = nullptr;
  std::optional<ClusterJobs> jobs_;           // with store_
  models::Repository* repository_ = nullptr;  // from start() on
  cluster::RemoteModels remote_;              // on the cluster's thread
  std::unique_ptr<ClusterSessions> sessions_;
  std::unique_ptr<cluster::Cluster> cluster_;
};

// With the folder of `node`, behind the others; null: as they are.
models::RepositoryOptions with_cluster(models::RepositoryOptions options, const ClusterNode* node);

}  // namespace weir::app
