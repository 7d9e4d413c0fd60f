// The inputs of a request that lie in shared memory, on their way into its Call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "bus/offload_task.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

// So much is copied where the request came in: a millisecond.
inline constexpr size_t kLongCopy = size_t(4) << 20;

// Copies tensors out of shared memory.
class CopyInputs final : public bus::OffloadTask {
 public:
  // `to` has room for all of `from`.
  void add(size_t input, const RegionRange& from, base::Block to);
  size_t bytes() const { return bytes_; }
  void run() override;
  // After run(): moves what was copied to its inputs. Errors: those of SharedRegion::read().
  base::Status hand_over(std::vector<msg::Tensor>& inputs);

 private:
  struct RegionCopy {
    size_t input;
    RegionRange from;
    base::Block to;
  };
  std::vector<RegionCopy> copies_;
  size_t bytes_ = 0;
  base::Status status_;
};

// Finds the regions of all inputs and outputs that are in shared memory. Errors: those of SharedRegions::find().
base::Status find_shared(const SharedRegions& regions, const wire::Request& request, const msg::Call& call,
                         InferOptions& options);
// Fills in the inputs: they are the client's memory where they may be (shared_region.h), and copies else. `copies`:
// what is too long to be copied here, for a worker; or null. Errors: RESOURCE_EXHAUSTED; those of SharedRegion.
enum class Place : uint8_t { kAlias, kCopy };
base::Status place_shared(base::SlabSource& slabs, Place place, msg::Call& call, const InferOptions& options,
                          std::unique_ptr<CopyInputs>& copies);
// Whether the memory of all inputs was there while the model ran: what was gone has read as zeros.
base::Status check_shared(const InferOptions& options);

}  // namespace weir::oip
