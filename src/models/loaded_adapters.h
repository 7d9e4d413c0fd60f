// Adapters that come to a version of a model while it serves: those that requests bring (LoadParameters "lora_path"),
// and those that lie in the version's folder of adapters (`adapters_folder:` of model.yaml).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bus/catalog.h"
#include "models/folder.h"
#include "models/model_config.h"
#include "models/repository_lock.h"
#include "msg/adapter_loader.h"

namespace weir::models {

struct LoadedAdapter {
  msg::AdapterLoader::Source source;
  std::string root;                    // msg::ModelSpec::root
  uint64_t fingerprint = 0;            // of its files in the version's folder; 0: a request has brought it
  uint64_t bytes = 0;                  // of memory
  std::shared_ptr<const void> keep{};  // null: it is not in memory, as its model may be
  std::string reason{};                // why it cannot be; empty: it can

  bool asked_for() const { return fingerprint == 0; }
};

struct LoadedAdapters {
  std::map<std::string, LoadedAdapter> all;  // by name
  uint32_t next = msg::kFirstLoadedAdapter;  // the number of the next one

  uint64_t bytes() const;
  void leave_memory();  // once no Call is for any of them
};

// ModelFolder::fingerprint() without the files of those.
uint64_t fingerprint_without_adapters(const ModelFolder& folder, const ModelConfig& config, uint64_t version);

// Those that lie in the version's folder of adapters.
std::map<std::string, LoadedAdapter> adapters_in(const ModelFolder& folder, const ModelConfig& config,
                                                 uint64_t version);

// For a version that has just been made and serves nobody: those that the one before it had from requests, and those in
// its folder. One that fails says why; an adapter that has not changed keeps its number, for Calls that wait for the
// version. Gives the lock away.
LoadedAdapters load_again(RepositoryLock& lock, const LoadedAdapters& before,
                          const std::map<std::string, LoadedAdapter>& in_folder, const bus::Served& served);

// Loads one into the version, under the number that it has. Without the lock. Errors: UNIMPLEMENTED where the model
// takes none; those of msg::AdapterLoader.
base::Status load_into(const bus::Served& served, LoadedAdapter& adapter);

// Where the adapter lies that a request names. `path` is that of a folder below one of the roots: whole, or relative to
// a root. Errors: PERMISSION_DENIED for one outside of them, whether it is there or not; NOT_FOUND.
base::Result<msg::AdapterLoader::Source> find_adapter(const std::vector<std::string>& roots, std::string_view path);

}  // namespace weir::models
