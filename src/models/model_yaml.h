// model.yaml: weir's own way to describe a model, beside its version folders. Every key is optional:
//
//   engine: onnx                 # by default, by the file that is there
//   file: model.onnx             # in each version's folder
//   names: [Qwen/Qwen3-8B]       # others by which clients may call the model, if no other model has them
//   adapters: {sql: adapters/sql}    # of a model that makes tokens, on the CPU: LoRA adapters as PEFT writes them
//                                # (folders in each version's folder), each served as a model of that name
//   adapters_folder: adapters    # the same of all folders in this one, by their names; they come and go while the
//                                # model serves
//   max_batch: 32                # 0 = the first dimension is not a batch
//   instances: 2                 # with `devices`: on each of them
//   devices: [cuda:0, cuda:1]    # or all (GPUs), auto (GPUs where they are there), cpu; by default as the engine likes
//   max_concurrency: 0           # calls inside at once; more wait, as many as max_queue; 0 = any number
//   memory: 2GiB                 # what a version takes of models.memory; by default as much as its files have
//   decoupled: false
//   response_cache: false        # keep answers for requests that ask the same
//   versions: latest             # latest | {latest: 2} | all | [1, 3]
//   batching: {dynamic: true, max_delay: 2ms, preferred: [8, 16], priority_levels: 3, default_priority: 2,
//              preserve_ordering: false,    # answers leave in the order in which the queue gives requests out
//              max_queue: 256, queue_timeout: 10s,    # of each level of priority
//              timeout_action: reject,      # or delay: what waited longer runs after all others of its level
//              allow_timeout_override: true,    # requests may ask for a shorter timeout
//              levels: {1: {max_queue: 16, queue_timeout: 1s, timeout_action: delay}}}    # those of one priority
//   inputs: [{name: image, type: FP32, shape: [28, 28], optional: false}]
//                                # and of images format: NCHW or NHWC; reshape: the shape in the model's file
//   outputs: [{name: probabilities, labels: labels.txt}]   # or labels: [zero, one, …]
//   preprocess:                  # clients send the bytes of a picture (PNG, JPEG, WebP) in place of an input
//     {input: data, resize: 256, crop: 224, filter: bilinear, colors: rgb, layout: nchw, scale: 0.00392156862745098,
//      mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
//                                # input: by default the only one; resize: the shorter side, or [height, width]; crop:
//                                # from the middle; filter: nearest, bilinear, bicubic or lanczos, as Pillow has them;
//                                # colors: rgb, bgr or gray; layout: nchw or nhwc; then (x * scale - mean) / std. Sizes
//                                # that are left out are the model's; transparent pixels lie on white
//   warm_up:                     # requests that each instance runs before the model is READY
//     - {name: first, rows: 8, count: 3,    # data: zero, random, or a file below the model's folder
//        inputs: {image: {type: FP32, shape: [28, 28], data: random}}}
//   origins: [http://10.0.0.7:8001]    # of engine: forward: who runs the model (engines/forward/README.md); of others:
//                                # who runs it, too, and gets what the instances here are too busy for
//   kind: oip-grpc               # and the protocol that they speak: oip-grpc, oip-rest, openai, weir
//   origin_parameters: {local_first: 8}    # of origins beside instances: what engine forward has as `parameters`
//   isolation: process           # the engine runs in a process of its own, which may fail alone; none: in the server
//   parameters: {intra_op_threads: 2}   # the engine's own; one that it does not know is an error
//
// A pipeline is a model made of others, run one after the other. A node takes each of its inputs from the pipeline's
// inputs and from what earlier nodes made, by name or as mapped (the model's name: the pipeline's):
//
//   engine: pipeline
//   dag:
//     type: sequential
//     nodes:
//       - {model: scale}
//       - {name: classify, model: digits, version: 1, inputs: {image: scaled}, outputs: {probabilities: p}}
//   outputs: [{name: p}]         # by default, those of the last node
//
// Without inputs of its own the pipeline takes those of its first node.
//
// Shapes leave the batch dimension out when the model is batched, as in config.pbtxt; -1 is any size. Unknown keys and
// wrong values are errors with file:line:column.
#pragma once

#include <string_view>

#include "models/model_config.h"

namespace weir::models {

base::Result<ModelConfig> parse_model_yaml(std::string_view text, std::string_view place,
                                           const msg::BatchPolicy& defaults);

}  // namespace weir::models
