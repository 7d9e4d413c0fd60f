// ModelSpec: all that a dialect or a scheduler needs to know of one served model version. Immutable once published.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/generate.h"
#include "msg/tensor.h"

namespace weir::msg {

class TextCodec;
struct ModelDetails;

struct TensorSpec {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;  // without the batch dimension when ModelSpec::max_batch > 0; -1 = any
  bool optional = false;
  std::vector<std::string> labels;  // of an output that is a classification; empty when unknown
  std::string label_file;           // where those are from, as configured
  std::string format;               // of an input, as configured: "FORMAT_NHWC", …
  // An input's second type, which the engine takes as it comes (INT32 beside INT64).
  DType second_dtype = DType::kInvalid;

  bool takes(DType given) const { return given == dtype || (given == second_dtype && given != DType::kInvalid); }
};

// How many calls may wait at one level of priority, and for how long: Triton's ModelQueuePolicy.
struct QueuePolicy {
  enum class TimeoutAction : uint8_t { kReject, kDelay };
  uint32_t max_queue = 256;                               // calls; 0 = unbounded
  base::Duration queue_timeout{0};                        // of calls that bring none of their own; 0 = for ever
  bool allow_timeout_override = true;                     // a call may bring a shorter one
  TimeoutAction timeout_action = TimeoutAction::kReject;  // kDelay: runs after all others of its level

  // How long a call may wait that asks for `asked` (0: it does not ask).
  base::Duration timeout_of(base::Duration asked) const {
    bool shorter = asked.count() > 0 && (queue_timeout.count() <= 0 || asked < queue_timeout);
    return shorter && allow_timeout_override ? asked : queue_timeout;
  }
};

// How calls of one model share batches. Its own QueuePolicy is that of all levels that `levels` does not name.
struct BatchPolicy : QueuePolicy {
  bool dynamic = false;
  std::vector<uint32_t> preferred;  // ascending
  base::Duration max_delay{0};      // how long the oldest call may wait for company while the engine is idle; 0 = not
  uint32_t priority_levels = 0;     // 0 = priorities are ignored; 1 is the most urgent
  uint32_t default_priority = 0;
  bool preserve_ordering = false;          // answers leave in the order in which the queue gave the calls out
  std::map<uint32_t, QueuePolicy> levels;  // by priority
};

// The description of a model that makes tokens, or embeddings of them.
struct TextSpec {
  uint32_t max_length = 0;  // positions of one sequence, prompt and completion together
  uint32_t vocabulary = 0;  // ids are below it
  uint32_t hidden_size = 0;
  bool normalized = false;  // of an encoder: its embeddings have length 1
  uint32_t labels = 0;      // of an encoder that is a classifier: how many scores it gives; 0: it gives embeddings
  std::vector<uint32_t> eos_ids;
  Sampling defaults;                       // of generation_config.json
  std::shared_ptr<const TextCodec> codec;  // tokenizer and chat template; null only for encoders of ids

  // Set for a model of another server that takes conversations as messages (engines/forward, `api: chat`). Its tokens
  // are bytes here, and that server does what templates, grammars of calls and vision towers do for other models.
  struct RemoteChat {
    // How the server is told whether the model is to think: not at all, by variables of its template, by
    // reasoning_effort.
    enum class Thinking : uint8_t { kUntold, kVariables, kEffort } thinking = Thinking::kUntold;
  };
  std::optional<RemoteChat> remote_chat;

  // Concept readouts; empty when the model has none.
  std::vector<std::string> concepts;
  std::vector<uint32_t> readout_layers;
  std::string readout_dtype;  // "float32", "bfloat16"

  // Images; only models with a vision tower.
  struct Vision {
    uint32_t start_id = 0, pad_id = 0, end_id = 0;
    // Pads that this image takes. INVALID_ARGUMENT for what cannot be decoded or is too large. Any thread; looks at the
    // image's header only.
    std::function<base::Result<uint32_t>(std::string_view data, std::string_view mime)> features;
  };
  std::optional<Vision> vision;
};

// Which versions of a model are served.
struct VersionPolicy {
  enum class Kind : uint8_t { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  uint32_t latest = 1;
  std::vector<uint64_t> specific;

  // Those of the versions present (ascending) that are to be served, ascending.
  std::vector<uint64_t> choose(const std::vector<uint64_t>& present) const;
};

// One model of a pipeline: the model's tensor names -> the pipeline's.
struct PipelineStep {
  std::string model;
  std::string version;  // empty = the newest that is served
  std::map<std::string, std::string> inputs, outputs;
};

// Fields of the configuration that nothing but OIP's ModelConfig reports.
struct AsConfigured {
  VersionPolicy versions;
  std::string file;                     // in the version's folder; empty = the engine's usual one
  std::vector<std::string> devices;     // of each instance: "cuda:0", "cpu", or "" where the engine chose
  std::vector<PipelineStep> steps;      // of a pipeline
  std::optional<BatchPolicy> batching;  // as written, also where no batch can form; nothing where nothing is written
  std::string as_triton;  // the whole of it, a serialized inference.ModelConfig; empty where it was not in that form
};

struct ModelSpec {
  std::string name;
  std::string version;     // "1", "2", …
  std::string engine;      // "onnx", "identity"
  std::string platform;    // "onnxruntime_onnx", …, shown to clients
  uint32_t max_batch = 0;  // 0: the model has no batch dimension; shapes are whole
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  BatchPolicy batching;
  uint32_t instances = 1;
  bool decoupled = false;    // may answer one call with any number of Outputs
  bool any_tensors = false;  // takes whatever inputs come (identity): inputs and outputs are then not checked
  std::map<std::string, std::string> parameters;
  // Calls whose rows differ in shape, or in their optional inputs, share batches: nothing is staged, the engine reads
  // the Calls' own tensors (sched::input_of). Outputs are rows of one shape all the same.
  bool ragged = false;
  std::shared_ptr<const TextSpec> text;  // null for models of tensors alone
  // A model of tensors that makes embeddings of token ids: inputs[0] are the ids, outputs[0] is FP32 [hidden_size]. Of
  // a classifier (TextSpec::labels) outputs[0] is the scores and outputs[1] the logits, both FP32 [labels], and the
  // labels are those of outputs[0]. Null for all others; `text` is null then.
  std::shared_ptr<const TextSpec> encoder;
  // Adapters of a model that makes tokens: their folders below the version's, by name. Each is served as a model of its
  // own, whose `parent` this model is and whose Calls this model's Inbox gets; Call::adapter says which.
  std::map<std::string, std::string> adapters;
  std::string parent;  // empty: it is no adapter
  std::string root;    // of an adapter: its folder, as its configuration, or the request that loaded it, has it
  std::shared_ptr<const ModelDetails> details;  // null: nobody knows any
  AsConfigured configured;

  const TensorSpec* input(std::string_view tensor) const;
  const TensorSpec* output(std::string_view tensor) const;
  // The shape as clients see it: with a leading -1 when the model is batched.
  Shape public_shape(const TensorSpec& tensor) const;
  // The error of an output that was asked for and that the model has not made. INTERNAL; INVALID_ARGUMENT where it
  // takes any tensors, and only its client can know which there will be.
  base::Status no_output(std::string_view name) const;
};

}  // namespace weir::msg
