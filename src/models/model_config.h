// ModelConfig: what the configuration of one model says, whichever form it was written in: Triton's config.pbtxt
// (protobuf text format), its JSON form in a load request, or our model.yaml (models/model_yaml.h).
//
// models/config_fields.h says of each field of Triton's what becomes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "images/preprocess.h"
#include "models/placement.h"
#include "models/warm_up.h"
#include "msg/sequence.h"
#include "msg/spec.h"

namespace weir::models {

struct TensorConfig {
  msg::TensorSpec spec;               // dtype kInvalid when not said; label_file is relative to the model's folder
  bool shape_given = false;           // a scalar's shape is empty, too
  std::optional<msg::Shape> reshape;  // what the model itself has in place of spec.shape
};

// One model of a pipeline. Tensors of the pipeline have names; a model's tensor that is not mapped has its own.
struct DagNode {
  std::string name;  // empty = the model's
  std::string model;
  std::string version;                                 // empty = the newest that is served
  std::map<std::string, std::string> inputs, outputs;  // the model's name -> the pipeline's
};

struct DagConfig {
  enum class Order : uint8_t { kAsWritten, kByTensors };  // by tensors: whatever has all its inputs runs next
  Order order = Order::kAsWritten;
  std::vector<DagNode> nodes;
};

inline constexpr std::string_view kPipeline = "pipeline";  // the engine of models that are made of models
inline constexpr size_t kMostAdapters = 256;               // of one model, in its folder
inline constexpr size_t kMaxConfigBytes = 1 << 20;         // of one configuration, in either of Triton's forms
inline constexpr int kMaxConfigDepth = 32;                 // messages inside each other

// sched/preprocessed_engine.h
struct PreprocessConfig {
  std::string input;  // empty: the only one
  images::Preprocessing how;
};

struct ModelConfig {
  std::string name;                             // empty, or the folder's
  std::vector<std::string> names;               // further ones by which clients may call it: bus::Catalog::names
  std::map<std::string, std::string> adapters;  // msg::ModelSpec::adapters
  // A folder in each version's: those in it are adapters, by their names, and come and go while the model serves.
  std::string adapters_folder;
  std::string engine;  // "onnx", "identity"; empty = by the file that is there
  std::string file;    // in the version's folder; empty = the engine's usual one
  std::optional<uint32_t> max_batch;
  msg::BatchPolicy batching;
  bool batching_given = false;        // by the file, not by the defaults
  uint32_t instances = 1;             // where `groups` say nothing else
  std::vector<InstanceGroup> groups;  // which instances run on which devices
  uint32_t max_concurrency = 0;       // calls inside at once, running or in a batch's queue; 0 = any number
  std::optional<uint64_t> memory;     // bytes that a version takes; nothing: as many as its files have
  msg::VersionPolicy versions;
  std::vector<TensorConfig> inputs, outputs;
  std::optional<PreprocessConfig> preprocess;
  bool decoupled = false;
  bool response_cache = false;            // answers are kept for requests that ask the same (sched/response_cache.h)
  std::vector<double> first_response_ms;  // bounds of bus::FirstResponses, if it is decoupled; empty: the usual ones
  std::vector<WarmUpSample> warm_up;      // run by each instance before the model is served
  DagConfig dag;                          // of a pipeline
  std::shared_ptr<msg::SequenceSpec> sequence;  // null: requests stand alone
  std::optional<std::string> iterative;         // a request is a sequence of its own: process::kIterative
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> parameter_lines;  // of a model.yaml: where each of them stands, "m/model.yaml:7:3"
  // A model that runs here, too, has here whom its Calls go to beside the instances here, as parameters of engine
  // forward. Empty: there is nobody.
  std::map<std::string, std::string> origins;
  std::map<std::string, std::string> origin_lines;  // as parameter_lines
  std::vector<std::string> notes;                   // fields that were read and change nothing, and why
  std::string as_triton;                            // msg::AsConfigured

  // The instances and their devices, as place() has them, in place of `groups`; `engine` is the one that it was
  // resolved to. Errors: as place().
  base::Result<std::vector<std::string>> places(const std::string& engine, const DeviceSupply& supply,
                                                std::vector<size_t>* of = nullptr) const;

  // For the engine: what is wanted, with empty fields for it to derive.
  msg::ModelSpec wanted(std::string_view model, uint64_t version) const;
};

// `place` names the file in complaints ("digits/config.pbtxt:3:7: …"); `defaults` fill in for what is not said.
// Errors: INVALID_ARGUMENT.
base::Result<ModelConfig> parse_pbtxt(std::string_view text, std::string_view place, const msg::BatchPolicy& defaults);
// The `config` parameter of a load request: a Triton ModelConfig in proto3 JSON.
base::Result<ModelConfig> parse_config_json(std::string_view text, const msg::BatchPolicy& defaults);

// `origins` and `kind` of a model of another engine than forward are no parameters of that engine: its origins stand
// beside instances here.
void set_origins_aside(ModelConfig& config);

// A name by which clients may call a model beside its own: "Qwen/Qwen3-8B", "llama3:8b".
bool good_further_name(std::string_view name);

// Checks that do not depend on the form: name, instances, batching, duplicate tensors.
base::Status check(const ModelConfig& config, std::string_view folder_name);

}  // namespace weir::models
