// EncoderEngine: an Encoder as a model of tensors.
//
//   input_ids       INT64 or INT32 [rows, n]
//   attention_mask  the same shape; 0 = not there. Without it, all ids are, but the pad ids at a row's end
//   token_type_ids  the same shape; 0 without it
//   → sentence_embedding  FP32 [rows, hidden]
//   of a classifier:  → scores, logits  FP32 [rows, labels]
//
// as ONNX exports of sentence-transformers have them. Rows of any lengths share a batch (ModelSpec::ragged): what is
// masked is not computed, so padding costs nothing, and a row's embedding is the same to the last bit in any company.
#pragma once

#include <memory>
#include <optional>

#include "engines/llm/encoder/classifier.h"
#include "engines/llm/encoder/encoder.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::llm {

struct EncoderManners {
  Pooling pooling = Pooling::kMean;
  Scale scale = Scale::kAsItIs;
  std::optional<uint32_t> pad_id;
  std::optional<Classifier> classifier;  // of one state, which `pooling` chooses
};

// Inputs, outputs, and what follows from them.
void describe_encoder(const EncoderLimits& limits, const EncoderManners& manners, msg::ModelSpec& spec);

// `spec` is described.
std::unique_ptr<sched::Engine> make_encoder_engine(msg::ModelSpec spec, std::unique_ptr<Encoder> encoder,
                                                   EncoderManners manners);

}  // namespace weir::llm
