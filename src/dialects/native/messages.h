// The messages of proto/forward.proto as the server has them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "marshal/generation_params.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::native {

// A request for a sequence, before the model's own rules are applied to it.
struct SequenceRequest {
  std::string model, version, id;
  uint32_t priority = 0;
  msg::Generation generation;        // aim, tokens, images, ranges, cache_salt; not what `params` says
  marshal::GenerationParams params;  // in their ranges; `structured` is the form
  uint32_t begun = 0;                // of the tokens, from the end: those of the form that are there already

  // The bytes of text that a request with a form counts as while it waits for a worker.
  size_t weight_of_form() const;
};

inline constexpr size_t kLargestSequence = 8 << 20;  // bytes of a message without its images: read within a turn of the
                                                     // loop
// Of its images, with what is said of them: of their data alone a client sends 32 MiB.
inline constexpr size_t kMostImageBytes = (32 << 20) + (64 << 10), kMostImages = 256;
inline constexpr size_t kMostTokens = 1 << 20, kMostRanges = 1024, kMostChoices = 4096;

// Images are slices of the message. Errors: INVALID_ARGUMENT naming the field.
base::Result<SequenceRequest> read_sequence(const base::Bytes& message);

// The model's defaults with the request's values over them; a form aside. Images are where the tokens have a place for
// them. Errors: INVALID_ARGUMENT, OUT_OF_RANGE;
// FAILED_PRECONDITION where readouts are asked for and the model has none.
base::Status apply(SequenceRequest& request, const msg::TextSpec& spec);

// The pads of an image, where that does not depend on its size; 0: it does.
uint32_t pads_of_any(const msg::TextSpec::Vision& vision);

// SequenceEvents.
std::string write_token(const msg::Token& token);
std::string write_done(const msg::Done& done);
// FP32 [n].
std::string write_embedding(const msg::Tensor& tensor);

}  // namespace weir::native
