// The part of a request beside its tensors: parameters that steer the Call, and how its outputs are to come back. The
// same rules for JSON and protobuf.
//
//   sequence_id (int64 or string), sequence_start, sequence_end   Call::session, and kept as parameters
//   priority (uint)          Call::priority; 0, and what the model does not have = the model's default
//   timeout (int64, µs)      Call::queue_timeout; 0 = the model's default
//   binary_data_output       REST: outputs are binary unless they say otherwise
//   triton_enable_empty_final_response   streams: the end of a decoupled answer is told even when it is empty
// All other request parameters go down with the Call. Of an output: classification (k), binary_data. Of both inputs and
// outputs: shared_memory_region, shared_memory_offset, shared_memory_byte_size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "base/status.h"
#include "dialects/oip/shared_memory/shared_region.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::oip {

inline constexpr size_t kMaxInputs = 256, kMaxOutputs = 256, kMaxParameters = 256;
inline constexpr size_t kMaxClassLines = 100'000;  // of all rows: each is a string of some twenty bytes
inline constexpr size_t kMaxName = 1024;           // bytes of a tensor's or parameter's name: errors repeat them

enum class OutputForm : uint8_t { kUnsaid, kJson, kBinary };
using OutputForms = boost::container::small_vector<OutputForm, 16>;  // without an allocation for ordinary requests

struct OutputOptions {
  uint32_t classes = 0;  // top-k of them instead of the tensor; 0 = the tensor itself
  OutputForm form = OutputForm::kUnsaid;
  std::optional<RegionRange> shared;  // it goes there, and the answer has only its type and shape
};

// An input that is in shared memory: Call::inputs[input].
struct SharedInput {
  size_t input = 0;
  RegionRange range;
};

struct InferOptions {
  std::vector<OutputOptions> outputs;   // one per Call::outputs
  OutputForm form = OutputForm::kJson;  // of outputs that say nothing
  bool empty_final = false;
  std::vector<SharedInput> shared;  // ascending

  bool is_shared(size_t input) const { return !shared.empty() && find_shared(input) != nullptr; }
  const SharedInput* find_shared(size_t input) const;
};

// Refuses names that are too long. `what`: "an input's name".
base::Status check_name(std::string_view name, std::string_view what);
// "unknown datatype 'FLOAT'", without repeating what is too long.
std::string unknown_datatype(std::string_view text);

// A request parameter. Errors: INVALID_ARGUMENT naming it.
base::Status apply(msg::Call& call, InferOptions& options, std::string_view name, msg::ParamValue value);
// A parameter of a requested output.
base::Status apply(std::string_view output, OutputOptions& asked, std::string_view name, const msg::ParamValue& value);
// A parameter of the last one of Call::inputs. Those that are not about shared memory are no business of the dialect's.
base::Status apply_input(const msg::Call& call, InferOptions& options, std::string_view name, msg::ParamValue value);
// Refuses what does not go together in one output, and shared memory without a region.
base::Status check_output(std::string_view output, const OutputOptions& asked);

// Leaves in `outputs` what was asked for, in the order asked for; `forms` gets the form of each. Errors: an output that
// the model did not make.
base::Status select_outputs(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options,
                            msg::Outputs& outputs, OutputForms& forms);
// Turns what was selected by `options`, one for each (none: all as they are), into the text form of classifications
// where that was asked for, checks the data of all, and writes to shared memory what is to go there. Any thread.
// Errors: INVALID_ARGUMENT for a tensor that cannot be classified, or does not fit where it is to go;
// FAILED_PRECONDITION where that has gone; INTERNAL for a tensor that is not what it says, which is the engine's fault.
base::Status finish_outputs(const msg::ModelSpec& spec, const std::vector<OutputOptions>& options,
                            std::vector<msg::Tensor>& tensors);
// The bytes of tensors that are to be classified or to become JSON, and of long BYTES in any form, which have to be
// checked; and less of those that are only copied, to shared memory. kJsonBesideBinary: numbers as JSON count only
// where other outputs are binary, for the rest is written in pieces.
enum class Writes : uint8_t { kNoJson, kJsonBesideBinary, kJson };
size_t work_on(const std::vector<OutputOptions>& options, const std::vector<msg::Tensor>& tensors,
               const OutputForms& forms, Writes writes);

// The `k` largest values of each row, or all where there are fewer, as BYTES "score:index[:label]". kBatch: the first
// dimension counts rows. One pass over the data. Errors: INVALID_ARGUMENT for what is no number, and above
// kMaxClassLines.
enum class Rows : uint8_t { kOne, kBatch };
base::Status classify(msg::Tensor& tensor, uint32_t k, const std::vector<std::string>& labels, Rows rows);

}  // namespace weir::oip
