// ModelTable: every model that the repository knows, with its versions and their states; makes Catalogs of them.
// Under the repository's lock, which load() gives away while an engine is made: nobody else loads, unloads or drops the
// model meanwhile, whatever becomes of other ones.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/further_names.h"
#include "models/loaded_adapters.h"
#include "models/loader.h"
#include "models/repository_lock.h"
#include "models/upload.h"
#include "sched/demand_inbox.h"

namespace weir::models {

// A version that was replaced or unloaded: to be destroyed when nobody can reach it and no Call is inside.
struct Retired {
  std::string model;
  uint64_t version = 0;
  std::shared_ptr<bus::Served> served;
  uint64_t bytes = 0;  // that it takes in memory, as Slot::bytes says
};

class AdapterTable;
class Residence;

class ModelTable {
 public:
  explicit ModelTable(RepositoryLock& lock) : lock_(lock) {}

  // The model is there, loaded or not. One that does not serve is known by the further names in `config` from now on;
  // null: its configuration cannot be read.
  void register_model(const std::string& model, const ModelConfig* config);
  // Folders of the repository that can be no models, by name, and why: rows of the index that serve nothing.
  void set_skipped(std::map<std::string, std::string> folders) { skipped_ = std::move(folders); }
  // Rows that serve nothing say LOADING from here to the end of load() or fail().
  void mark_loading(const std::string& model);
  // Builds the versions that are new or whose files changed, keeps the others as they are. What was serving goes on
  // serving where the new does not load; versions that the policy no longer names leave when all others are up.
  // kReserve: they are built to see what they are, and are not kept in memory (models/residence.h). Errors: the first
  // failure.
  enum class Into : bool { kMemory, kReserve };
  // `upload` is taken when all is well.
  base::Status load(const ModelFolder& folder, const Loader& loader, std::unique_ptr<Upload>& upload, Into into);
  void fail(const std::string& model, const std::string& reason);

  // Takes the versions out of service beside which load() found no memory for what is to take their place. False: there
  // are none. What was freed is there once they are destroyed (Publisher::destroy_retired()).
  bool make_way(const std::string& model);
  // Takes what broke out of service, unless instances are left that serve on: then load() makes it anew beside them.
  // False when it has been replaced meanwhile. `next`: what the Repository does about it, which the row says.
  enum class Next : bool { kNothing, kLoadAnew };
  bool mark_failed(const Loader::Broken& broken, Next next);

  enum class Row : bool { kKeep, kDrop };  // of the index, once it is unloaded
  void unload(const std::string& model, Row row);
  // Rebuilds the pipelines whose nodes have changed: a pipeline serves with the versions that it was built with until
  // it can be built anew, and leaves when one of its nodes is gone. Builds those that waited for their nodes.
  void relink(const Loader& loader);
  // A Retired has been destroyed. kSome: others of its version have not, as a model whose adapters go before it.
  enum class Left : bool { kNone, kSome };
  void destroyed(const Retired& what, Left left);

  bool knows(const std::string& model) const { return models_.count(model) > 0; }
  // kWhole: each of its versions, and nothing has gone wrong since they were loaded.
  enum class Serves : bool { kSome, kWhole };
  bool serves(const std::string& model, Serves what = Serves::kSome) const;
  const Upload* uploaded(const std::string& model) const;  // null: it is what its folder says
  std::vector<std::string> names() const;
  // The models that this one is a pipeline of.
  std::set<std::string> nodes(const std::string& model) const;
  // Whether some pipeline has it as a node, whether that serves or waits for its nodes.
  bool is_node(const std::string& model) const;

  // Settles whose the further names are.
  std::shared_ptr<const bus::Catalog> catalog(const std::string& default_model);
  std::vector<Retired> take_retired() { return std::exchange(retired_, {}); }

 private:
  friend class AdapterTable;
  friend class Residence;
  struct Pipeline {
    ModelFolder folder;
    ModelConfig config;
    std::vector<const bus::Served*> nodes;  // those that it was built with last, or could not be
    uint32_t executions = 1;                // of models and pipelines for one Call, itself included
  };
  struct Slot {
    bus::ModelState state = bus::ModelState::kUnavailable;
    std::string reason;
    std::shared_ptr<bus::Served> served;
    uint64_t fingerprint = 0;
    std::unique_ptr<Pipeline> pipeline;  // that serves; null: a model does, or nothing
    // Takes its place as soon as its nodes serve; null: there is none.
    std::unique_ptr<Pipeline> pending{};
    // Also while a model that may leave memory is in it: pipelines use it (models/residence.h). Null for others.
    std::shared_ptr<bus::Served> stand_in;
    bool missing = false;                                  // `served` is `stand_in`
    uint64_t bytes = 0, loaded_ms = 0;                     // in memory, as an estimate; since when (Unix time)
    bool in_the_way = false;                               // what is to take its place found no memory beside it
    std::vector<std::shared_ptr<bus::Served>> adapters{};  // of `served` (adapter_models.h), since it was published
    LoadedAdapters loaded{};                               // those that came while it served

    std::set<std::string> nodes() const;  // of both pipelines
    bool idle() const;                    // no Call is inside `served` or its adapters
    // Before what they are of, which they keep.
    void retire_adapters(const std::string& model, uint64_t version, std::vector<Retired>& to);
    void load_failed(const base::Status& why);
  };
  struct Model {
    std::map<uint64_t, Slot> versions;
    // The row of a model without versions.
    bus::ModelState state = bus::ModelState::kUnavailable;
    std::string reason;
    Row row = Row::kKeep;
    bool has_folder = false;  // in the repository
    std::unique_ptr<Upload> upload;
    std::map<std::string, std::string> skipped;  // ModelFolder::skipped
    // ModelConfig::names, and those of its adapters; another model may have them (FurtherNames).
    std::vector<std::string> names;
    std::set<std::string, std::less<>> adapters;  // of these
    void take_names(const ModelConfig& config);
    void add_adapter_name(const std::string& name);
    void add_adapter_names(const Slot& slot);
    void drop_adapter_name(const std::string& name);  // unless a version has it
    // Adapters that requests have loaded go on to versions that do not serve yet.
    void pass_on_adapters(uint64_t version);
    // Its rows and versions, under the adapter's name.
    void list_adapter(const std::string& name, const std::string& own, bus::Catalog& catalog) const;
  };

  base::Status load_versions(const ModelFolder& folder, const ModelConfig& config, const Loader& loader, Model& model,
                             Into into);
  base::Status load_version(const ModelFolder& folder, const ModelConfig& config, const Loader& loader,
                            uint64_t version, Slot& slot, Into into);
  base::Result<std::shared_ptr<bus::Served>> build(const ModelFolder& folder, const ModelConfig& config,
                                                   const Loader& loader, uint64_t version, Slot& slot);
  base::Result<std::shared_ptr<bus::Served>> build_pipeline(Pipeline& from, const Loader& loader,
                                                            uint64_t version) const;
  const Slot* serving(const std::string& model, const std::string& version) const;
  base::Result<std::shared_ptr<bus::Served>> find(const std::string& model, const std::string& version) const;
  bool contains(const std::string& model, const std::string& node, std::set<std::string>& seen) const;
  base::Result<std::vector<const bus::Served*>> nodes_of(const Pipeline& pipeline) const;
  bool relink_served(const Loader& loader, const std::string& model, uint64_t version, Slot& slot);
  bool link_pending(const Loader& loader, const std::string& model, uint64_t version, Slot& slot);
  void retire(const std::string& model, uint64_t version, Slot& slot);

  RepositoryLock& lock_;
  std::map<std::string, Model> models_;
  std::map<std::string, std::string> skipped_;
  FurtherNames further_names_;
  std::vector<Retired> retired_;
  Residence* residence_ = nullptr;           // models may be out of memory; null: all are in it
  std::map<std::string, uint64_t> leaving_;  // by model: bytes of what is retired and not destroyed
};

}  // namespace weir::models
