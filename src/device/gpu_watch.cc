// NVML's functions are declared here as its reference manual gives them (driver API, stable since 2012); the library
// comes with the driver, its header need not be there.
#include "device/gpu_watch.h"

#include <dlfcn.h>
#include <pthread.h>

#include <utility>

namespace weir::device {
namespace {

constexpr unsigned kUuidSize = 96, kNameSize = 96;

base::Status none(const std::string& why) { return base::failure(base::Code::kFailedPrecondition, why); }

}  // namespace

struct GpuWatch::Nvml {
  using Return = int;  // nvmlReturn_t; 0 is success
  using Handle = struct nvmlDevice_st*;
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  struct Memory {
    unsigned long long total, free, used;
  };

  ~Nvml() {
    if (shutdown) shutdown();
    if (library) dlclose(library);
  }

  template <class F>
  bool find(F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(library, name));
    return f != nullptr;
  }
  base::Status open(const char* name);
  std::vector<base::Gpu> read() const;
  base::Gpu read(unsigned index, Handle device) const;

  void* library = nullptr;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error)(Return) = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*by_index)(unsigned, Handle*) = nullptr;
  Return (*uuid)(Handle, char*, unsigned) = nullptr;
  Return (*name)(Handle, char*, unsigned) = nullptr;
  Return (*utilization)(Handle, Utilization*) = nullptr;
  Return (*memory)(Handle, Memory*) = nullptr;
  Return (*power)(Handle, unsigned*) = nullptr;             // milliwatts
  Return (*power_limit)(Handle, unsigned*) = nullptr;       // milliwatts
  Return (*energy)(Handle, unsigned long long*) = nullptr;  // millijoules
};

base::Status GpuWatch::Nvml::open(const char* file) {
  library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) return none(std::string(file) + " not found");
  bool whole = find(init, "nvmlInit_v2") && find(error, "nvmlErrorString") && find(count, "nvmlDeviceGetCount_v2") &&
               find(by_index, "nvmlDeviceGetHandleByIndex_v2");
  if (!whole) return none(std::string(file) + " is too old");
  // Each may be missing; the numbers are then empty.
  find(uuid, "nvmlDeviceGetUUID"), find(name, "nvmlDeviceGetName");
  find(utilization, "nvmlDeviceGetUtilizationRates"), find(memory, "nvmlDeviceGetMemoryInfo");
  find(power, "nvmlDeviceGetPowerUsage"), find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(energy, "nvmlDeviceGetTotalEnergyConsumption");
  if (auto r = init(); r != 0) return none(std::string("NVML: ") + error(r));
  find(shutdown, "nvmlShutdown");  // only after init
  unsigned devices = 0;
  if (auto r = count(&devices); r != 0) return none(std::string("NVML: ") + error(r));
  return devices > 0 ? base::Status() : none("there is no GPU");
}

base::Gpu GpuWatch::Nvml::read(unsigned index, Handle device) const {
  base::Gpu gpu;
  gpu.index = index;
  char text[kUuidSize] = {};
  if (uuid && uuid(device, text, kUuidSize) == 0) gpu.uuid = text;
  if (name && name(device, text, kNameSize) == 0) gpu.name = text;
  if (Utilization u{}; utilization && utilization(device, &u) == 0)
    gpu.utilization = u.gpu / 100.0, gpu.memory_utilization = u.memory / 100.0;
  if (Memory m{}; memory && memory(device, &m) == 0) gpu.memory_used = m.used, gpu.memory_total = m.total;
  if (unsigned mw = 0; power && power(device, &mw) == 0) gpu.power = mw / 1e3;
  if (unsigned mw = 0; power_limit && power_limit(device, &mw) == 0) gpu.power_limit = mw / 1e3;
  if (unsigned long long mj = 0; energy && energy(device, &mj) == 0) gpu.energy = double(mj) / 1e3;
  return gpu;
}

std::vector<base::Gpu> GpuWatch::Nvml::read() const {
  std::vector<base::Gpu> out;
  unsigned devices = 0;
  if (count(&devices) != 0) return out;
  for (unsigned i = 0; i < devices; ++i)
    if (Handle device = nullptr; by_index(i, &device) == 0) out.push_back(read(i, device));
  return out;
}

base::Result<std::unique_ptr<GpuWatch>> GpuWatch::open(const char* library, std::chrono::milliseconds period) {
  auto nvml = std::make_unique<Nvml>();
  if (auto s = nvml->open(library); !s.ok()) return s;
  return std::unique_ptr<GpuWatch>(new GpuWatch(std::move(nvml), period));
}

GpuWatch::GpuWatch(std::unique_ptr<Nvml> nvml, std::chrono::milliseconds period)
    : nvml_(std::move(nvml)), latest_(nvml_->read()), thread_([this, period] { run(period); }) {}

GpuWatch::~GpuWatch() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::vector<base::Gpu> GpuWatch::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

void GpuWatch::run(std::chrono::milliseconds period) {
  pthread_setname_np(pthread_self(), "gpu-watch");
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return ending_; })) {
    lock.unlock();
    auto now = nvml_->read();
    lock.lock();
    latest_ = std::move(now);
  }
}

}  // namespace weir::device
