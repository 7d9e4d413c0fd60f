// Loads and unloads that clients and models ask for. Under the repository's lock; what "may load" is called in a job
// that loads the model named, and gives the lock away.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "models/repository_parts.h"

namespace weir::models {

class Repository::Parts::Requests {
 public:
  explicit Requests(Parts& parts) : parts_(parts), jobs_(parts.jobs), table_(parts.table) {}

  using Given = std::shared_ptr<const LoadParameters>;  // may be the files of a model, which are not to be copied

  // On the repository's thread. `done` is called with the lock, soon or later.
  void load(const std::string& name, const Given& parameters, const Asking& asking, const Done& done);
  void unload(const std::string& name, Dependents dependents, const std::string& asking, const Done& done);

 private:
  // Without a waiter the model has been claimed.
  base::Status load_for(const std::string& waiter, const std::string& name, const Given& parameters);    // may load
  base::Status load_named(const std::string& name, const Given& parameters);                             // may load
  base::Status load_uploaded(const std::string& name, const LoadParameters& parameters);                 // may load
  void load_nodes(const ModelFolder& pipeline, const ModelConfig& config, std::set<std::string>& seen);  // may load
  void load_node(const std::string& node, std::set<std::string>& seen);                                  // may load
  base::Status unload_named(const std::string& name, Dependents dependents, const std::string& asking);
  void unload_one(const std::string& name, Dependents dependents, const std::string& asking);
  bool stays(const std::string& node) const;
  void load_adapter(const std::string& name, const Given& parameters, const Done& done);
  base::Status load_adapter_of(const std::string& model, const std::string& name,
                               const LoadParameters& parameters);  // may load
  base::Status unload_adapter(const std::string& model, const std::string& name);
  base::Status check_request(const std::string& name, std::string_view verb) const;

  Parts& parts_;
  LoadJobs& jobs_;
  ModelTable& table_;
};

}  // namespace weir::models
