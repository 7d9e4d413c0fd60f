// Dag: the nodes of a pipeline, tied to the models that are served now. Pure but for the look-up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "models/model_config.h"
#include "sched/pipeline.h"

namespace weir::models {

using FindServed =
    std::function<base::Result<std::shared_ptr<bus::Served>>(const std::string& model, const std::string& version)>;

// Executions of models and pipelines that one request to a pipeline may cost, with those inside its nodes: each of them
// takes microseconds at least, and the request is over only when all are.
inline constexpr uint32_t kMostExecutions = 1024;

struct Linked {
  msg::ModelSpec spec;  // of the pipeline as its nodes make it: the counterpart of what a model file says of itself
  sched::PipelinePlan plan;
};

// Ties inputs to outputs, and derives the pipeline's own tensors: inputs are those that the configuration declares or,
// where it declares none, those of the first node; outputs those that it declares, or the last node's. The pipeline is
// batched when all its nodes are, up to the smallest of their limits. Errors: what `find` says, with the node's name;
// INVALID_ARGUMENT for tensors that nothing makes, that are of another type or that cannot have that shape.
base::Result<Linked> link(const ModelConfig& config, const FindServed& find);

}  // namespace weir::models
