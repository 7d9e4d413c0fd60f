// Catalog: an immutable snapshot of what is served, looked up once per Call on its shard.
//
// models/ builds a new one for every change and hands it to each shard's Bus. A Served stays alive while any snapshot
// or any Call in flight refers to it: shards count Calls in cells of their own (no contended atomics), and the owner
// waits for all cells to reach zero before it stops the lane (see Served::idle()).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/model_scope.h"
#include "base/status.h"
#include "bus/stats.h"
#include "msg/adapter_loader.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::bus {

inline constexpr size_t kMaxShards = 256;

// One model version that can be called.
struct Served {
  msg::ModelSpec spec;
  ModelStats stats;
  std::shared_ptr<msg::AdapterLoader> adapters;  // null: it takes none while it serves
  std::unique_ptr<msg::Inbox> inbox;             // after what it reads: its destructor still runs what is queued

  struct alignas(64) Cell {
    std::atomic<int64_t> calls{0};  // written by one shard only
  };
  mutable std::array<Cell, kMaxShards> in_flight;

  // No Call of any shard is inside. True for good once every shard has dropped the snapshots that name this.
  bool idle() const;
};

enum class ModelState : uint8_t {
  kUnknown,
  kReady,
  kUnavailable,
  kLoading,
  kUnloading,
  kReturning,  // it, or what it is made of, broke or is loading, and is loaded anew without anybody's asking
  kUnloaded,   // nobody has asked for it, or it was unloaded on request
};
// "READY", …: the words of OIP's repository index. It has none for kReturning and kUnloaded: those are "UNAVAILABLE",
// too.
std::string_view name(ModelState state);
// Whether the model is being loaded: a request may succeed later.
bool may_become_ready(ModelState state);

// A row of the repository index; also for versions that are not served.
struct IndexRow {
  std::string name;
  std::string version;
  ModelState state = ModelState::kUnknown;
  std::string reason;    // why it is not ready, in words for a person
  std::string parent{};  // of an adapter: its model
};

// The need of a request: what the model must be able to do.
enum class Needs : uint8_t {
  kAnything,
  kTokens,      // it makes tokens
  kEmbeddings,  // it gives embeddings of tokens: models that make tokens do, and encoders
  kText,        // the same, and it has a tokenizer
  kReadouts,    // it makes tokens, and readouts of concepts
  kScores,      // it gives scores of texts, and has a tokenizer: classifiers, rerankers
};
bool has(const msg::ModelSpec& spec, Needs needs);

// Numbers without zeros in front, in their order.
struct ByNumber {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

class Catalog {
 public:
  struct Model {
    std::map<std::string, std::shared_ptr<Served>, ByNumber> versions;  // ready ones
    Served* preferred = nullptr;  // for calls that name no version: the highest number
  };

  // The name of the model's folder, for it and for any of its further names (`names`); what is no name is itself.
  std::string_view own_name(std::string_view model) const;
  // A name of a model that has a version ready, or a further name of any.
  bool knows(std::string_view model) const { return models.contains(model) || names.contains(model); }
  // The version asked for, or the preferred one for "". Errors: PERMISSION_DENIED where `scope` has no such name,
  // whether there is such a model or not; NOT_FOUND (unknown model or version; names a near miss), UNAVAILABLE (known
  // to the repository, but not ready; says why, and is worth another try when it will be ready soon).
  base::Result<Served*> find(std::string_view model, std::string_view version) const;
  // The model that a request is for. For one that names none ("") that is `default_model`, if it has what is needed;
  // else the only model that has. Errors: those of find(); INVALID_ARGUMENT where the model that is named lacks what is
  // needed, or none is named and several have it; NOT_FOUND where none is named and none has it.
  base::Result<Served*> resolve(std::string_view model, std::string_view version, Needs needs = Needs::kAnything) const;

  // The part of it that a caller of that scope sees: the one place where the models of a key are enforced, and what all
  // lists of models are made of.
  Catalog visible_to(const base::ModelScope& visible) const;

  std::map<std::string, Model, std::less<>> models;
  std::vector<IndexRow> index;  // every model of the repository, sorted by name and version
  // Further names of models ("Qwen/Qwen3-8B") and whose they are; none is any model's own.
  std::map<std::string, std::string, std::less<>> names;
  std::string default_model;              // the setting models.default; may be empty
  std::optional<base::ModelScope> scope;  // whose part this is; nothing: all is here

 private:
  base::Result<Served*> resolve_unnamed(std::string_view version, Needs needs) const;
};

}  // namespace weir::bus
