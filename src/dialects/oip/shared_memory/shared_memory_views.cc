#include "dialects/oip/shared_memory/shared_memory_views.h"

namespace weir::oip {

namespace pb = inference;
using base::Status;

Status register_system(OipState& state, const wire::Request& request,
                       const pb::SystemSharedMemoryRegisterRequest& wanted) {
  RegionRecord record{RegionKind::kSystem, wanted.name(), wanted.key(), wanted.offset(), 0, wanted.byte_size()};
  return state.regions.add(request, std::move(record));
}

Status register_cuda(OipState& state, const wire::Request& request, const pb::CudaSharedMemoryRegisterRequest& wanted) {
  if (Status status = state.regions.check(request); !status.ok()) return status;
  return base::invalid("failed to register CUDA shared memory region: '" +
                       wanted.name().substr(0, SharedRegions::kLongestName) + "', GPUs not supported");
}

Status unregister(OipState& state, const wire::Request& request, RegionKind kind, std::string_view name) {
  if (name.empty())
    state.regions.remove_all(request, kind);
  else
    state.regions.remove(request, kind, name);
  return {};
}

base::Result<pb::SystemSharedMemoryStatusResponse> system_status(OipState& state, const wire::Request& request,
                                                                 std::string_view name) {
  auto records = state.regions.list(request, RegionKind::kSystem, name);
  if (!records) return records.error();
  pb::SystemSharedMemoryStatusResponse out;
  for (const RegionRecord& record : *records) {
    auto& to = (*out.mutable_regions())[record.name];
    to.set_name(record.name);
    to.set_key(record.key);
    to.set_offset(record.offset);
    to.set_byte_size(record.bytes);
  }
  return out;
}

base::Result<pb::CudaSharedMemoryStatusResponse> cuda_status(OipState& state, const wire::Request& request,
                                                             std::string_view name) {
  auto records = state.regions.list(request, RegionKind::kCuda, name);
  if (!records) return records.error();
  pb::CudaSharedMemoryStatusResponse out;
  for (const RegionRecord& record : *records) {
    auto& to = (*out.mutable_regions())[record.name];
    to.set_name(record.name);
    to.set_device_id(record.device);
    to.set_byte_size(record.bytes);
  }
  return out;
}

}  // namespace weir::oip
