// AdapterTable: the adapters that come to the models of a ModelTable, and leave them, while these serve. Under the
// repository's lock, in a job of the model: nobody else loads or unloads it meanwhile.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "models/loaded_adapters.h"
#include "models/model_table.h"

namespace weir::models {

class AdapterTable {
 public:
  explicit AdapterTable(ModelTable& table) : table_(table) {}

  // The model that has an adapter of that name which came while it served; null: there is none.
  const std::string* owner(const std::string& adapter) const;
  // The model that a name is of; null: none.
  const std::string* model_named(const std::string& name) const;
  // The model that a request means which names none: `usual`, or the only one that takes adapters. Errors:
  // INVALID_ARGUMENT.
  base::Result<std::string> usual_model(const std::string& usual) const;

  // Loads it into all versions that serve, or none. Gives the lock away. Errors: ALREADY_EXISTS (the name is that of a
  // model, or of an adapter and kKeep), NOT_FOUND (no such model), UNAVAILABLE (it does not serve), RESOURCE_EXHAUSTED;
  // those of load_into().
  enum class Former : bool { kKeep, kReplace };
  base::Status load(const std::string& model, const std::string& adapter, const msg::AdapterLoader::Source& source,
                    const std::string& root, Former former);
  // Requests that are inside end with it. Errors: NOT_FOUND; FAILED_PRECONDITION where it lies in the model's folder.
  base::Status unload(const std::string& model, const std::string& adapter);
  // Takes what has changed in the version's folder of adapters, where nothing else of it has. Gives the lock away.
  void sync(const std::string& model, uint64_t version, const std::map<std::string, LoadedAdapter>& in_folder);

 private:
  ModelTable::Slot* slot(const std::string& model, uint64_t version);
  base::Status may_have(const std::string& model, const std::string& adapter, Former former) const;
  base::Status read(const std::string& model, uint64_t version, LoadedAdapter& adapter);
  void put(const std::string& model, uint64_t version, LoadedAdapter adapter);
  void take(const std::string& model, uint64_t version, const std::string& adapter);
  // The one that was loaded under that name before; false: none was.
  bool former_serves_on(const std::string& model, uint64_t version, const LoadedAdapter& broken);
  void drop_served(const std::string& model, uint64_t version, const std::string& adapter, uint64_t bytes);

  ModelTable& table_;
};

}  // namespace weir::models
