#include "dialects/oip/shared_memory/shared_inputs.h"

#include <utility>

#include "base/overload.h"

namespace weir::oip {

using base::Status;

void CopyInputs::add(size_t input, const RegionRange& from, base::Block to) {
  bytes_ += size_t(from.bytes);
  copies_.push_back({input, from, std::move(to)});
}

void CopyInputs::run() {
  for (RegionCopy& copy : copies_) {
    status_ = copy.from.memory->read(copy.from.offset, {copy.to.data(), size_t(copy.from.bytes)});
    if (!status_.ok()) return;
    copy.to.resize(size_t(copy.from.bytes));
  }
}

Status CopyInputs::hand_over(std::vector<msg::Tensor>& inputs) {
  if (!status_.ok()) return status_;
  for (RegionCopy& copy : copies_) inputs[copy.input].data = copy.to.freeze();
  return {};
}

Status find_shared(const SharedRegions& regions, const wire::Request& request, const msg::Call& call,
                   InferOptions& options) {
  for (SharedInput& input : options.shared) {
    if (input.range.region.empty())
      return base::invalid("input '" + call.inputs[input.input].name +
                           "': it has parameters of shared memory but no shared_memory_region");
    if (Status status = regions.find(request, input.range); !status.ok()) return status;
  }
  for (OutputOptions& output : options.outputs)
    if (output.shared)
      if (Status status = regions.find(request, *output.shared); !status.ok()) return status;
  return {};
}

Status place_shared(base::SlabSource& slabs, Place place, msg::Call& call, const InferOptions& options,
                    std::unique_ptr<CopyInputs>& copies) {
  for (const SharedInput& input : options.shared) {
    msg::Tensor& tensor = call.inputs[input.input];
    const RegionRange& range = input.range;
    if (place == Place::kAlias && may_alias(tensor.dtype)) {
      auto memory = range.memory->alias(range.offset, range.bytes);
      if (!memory) return memory.error();
      if (memory->has_value()) {
        tensor.data = **std::move(memory);
        continue;
      }
    }
    base::Block to(slabs.take(size_t(range.bytes)));
    if (!to) return base::overloaded("there is no memory to copy a tensor out of shared memory; try again later");
    if (!copies) copies = std::make_unique<CopyInputs>();
    copies->add(input.input, range, std::move(to));
  }
  if (!copies || copies->bytes() > kLongCopy) return {};
  copies->run();
  return std::exchange(copies, nullptr)->hand_over(call.inputs);
}

Status check_shared(const InferOptions& options) {
  for (const SharedInput& input : options.shared)
    if (Status status = input.range.memory->intact(); !status.ok()) return status;
  return {};
}

}  // namespace weir::oip
