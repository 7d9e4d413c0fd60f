#include "device/cuda_device.h"

namespace weir::device {

using base::Status;

base::Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const cuda::Api& api, int32_t index) {
  cuda::Properties p{};
  Info info;
  info.id = "cuda:" + std::to_string(index);
  if (auto code = api.describe(index, &p); code != 0)
    return base::failure(base::Code::kUnavailable, info.id + ": " + api.words(code));
  info.name = p.name, info.bus_id = p.bus_id, info.memory = p.memory;
  info.major = uint32_t(p.major), info.minor = uint32_t(p.minor);
  info.multiprocessors = uint32_t(p.multiprocessors);
  info.index = index;
  return std::unique_ptr<CudaDevice>(new CudaDevice(api, index, std::move(info)));
}

CudaDevice::CudaDevice(const cuda::Api& api, int32_t index, Info info)
    : Device(std::move(info)), api_(api), index_(index) {}

Status CudaDevice::status(cuda::Code code) {
  if (code == 0) return {};
  std::string text = info().id + ": " + api_.words(code);
  if (api_.is_out_of_memory(code)) return base::failure(base::Code::kResourceExhausted, std::move(text));
  if (!api_.is_sticky(code)) return base::failure(base::Code::kInternal, std::move(text));
  auto lost = base::try_again(base::Code::kUnavailable, std::move(text));  // the model is loaded anew
  fail(lost, Cure::kRestart);
  return lost;
}

base::Result<void*> CudaDevice::do_make(Kind kind, size_t bytes, Priority priority) {
  void* raw = nullptr;
  cuda::Code code = kind == Kind::kBuffer   ? api_.allocate(index_, bytes, &raw)
                    : kind == Kind::kStream ? api_.stream_create(index_, priority == Priority::kUrgent, &raw)
                                            : api_.event_create(index_, &raw);
  if (auto s = status(code); !s.ok()) return s;
  return raw;
}

void CudaDevice::do_free(Kind kind, void* raw) {
  status(kind == Kind::kBuffer   ? api_.free(index_, raw)
         : kind == Kind::kStream ? api_.stream_destroy(index_, raw)
         : kind == Kind::kGraph  ? api_.graph_destroy(index_, raw)
                                 : api_.event_destroy(index_, raw));
}

base::Result<Device::Memory> CudaDevice::do_memory() {
  Memory out;
  if (auto s = status(api_.memory(index_, &out.free, &out.total)); !s.ok()) return s;
  return out;
}

Status CudaDevice::do_copy(void* stream, Way way, std::span<const Copy> copies) {
  return status(api_.copy(index_, stream, way, copies.data(), copies.size()));
}
Status CudaDevice::do_record(void* event, void* stream) { return status(api_.event_record(index_, event, stream)); }
Status CudaDevice::do_wait(void* stream, void* event) { return status(api_.stream_wait(index_, stream, event)); }

base::Result<Device::Progress> CudaDevice::do_progress(void* event) {
  auto code = api_.event_query(index_, event);
  if (code == cuda::kNotYet) return Progress::kPending;
  if (auto s = status(code); !s.ok()) return s;
  return Progress::kDone;
}

Status CudaDevice::do_then(void* stream, Done& done) {
  return status(api_.then(
      index_, stream, [](void* with) { static_cast<Done*>(with)->done(); }, &done));
}

Status CudaDevice::do_run(void* stream, Work work) { return status(work(stream)); }

Status CudaDevice::do_capture(void* stream) { return status(api_.capture_begin(index_, stream)); }
base::Result<void*> CudaDevice::do_captured(void* stream) {
  void* graph = nullptr;
  if (auto s = status(api_.capture_end(index_, stream, &graph)); !s.ok()) return s;
  return graph;
}
Status CudaDevice::do_launch(void* stream, void* graph) { return status(api_.graph_launch(index_, stream, graph)); }

Status CudaDevice::do_pin(std::byte* data, size_t bytes) {
  if (auto s = status(api_.host_register(index_, data, bytes)); !s.ok()) return s;
  std::lock_guard lock(pins_mutex_);
  pins_.emplace(data, bytes);
  return {};
}

void CudaDevice::do_unpin(std::byte* data, size_t) {
  {
    std::lock_guard lock(pins_mutex_);
    pins_.erase(data);
  }
  status(api_.host_unregister(index_, data));
}

bool CudaDevice::pinned(const void* data, size_t bytes) const {
  std::lock_guard lock(pins_mutex_);
  auto* at = static_cast<std::byte*>(const_cast<void*>(data));
  auto block = pins_.upper_bound(at);
  if (block == pins_.begin()) return false;
  --block;
  size_t from = size_t(at - block->first);
  return from <= block->second && bytes <= block->second - from;
}

// The reset forgets what was registered; the memory is ours and stays.
Status CudaDevice::do_restart() {
  auto lost = [&](cuda::Code code) {
    return base::failure(base::Code::kUnavailable, info().id + " does not come back (" + api_.words(code) +
                                                       "); it takes a restart of the server");
  };
  if (auto code = api_.reset(index_); code != 0) return lost(code);
  std::lock_guard lock(pins_mutex_);
  for (auto& [data, bytes] : pins_)
    if (auto code = api_.host_register(index_, data, bytes); code != 0) return lost(code);
  return {};
}

}  // namespace weir::device
