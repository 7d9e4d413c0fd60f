#include "app/gpus.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/memory.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/units.h"
#include "dialects/ops/gpu_metrics.h"

namespace weir::app {
namespace {

std::string version(int32_t number) { return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10); }

std::string capability(const device::Device::Info& info) {
  return std::to_string(info.major) + '.' + std::to_string(info.minor);
}

}  // namespace

Gpus::Gpus(const Config& config) : config_(config), devices_(config.device) {
  if (auto watch = device::GpuWatch::open()) watch_ = std::move(*watch);
  if (config.device.cuda == device::DeviceOptions::Use::kOff) return;
  if (!devices_.cuda().ok()) base::log::info(devices_.cuda().text);
  if (const auto& module = devices_.module(); devices_.cuda().ok())
    base::log::info("CUDA", {{"module", module.path},
                             {"runtime", version(module.runtime)},
                             {"driver", version(module.driver)},
                             {"reason", module.passed_over.empty() ? "the newest here" : module.passed_over}});
  for (size_t i = 0; i < devices_.cuda_count(); ++i) {
    const auto& info = devices_.cuda(i).info();
    base::log::info("CUDA device", {{"device", info.id},
                                    {"name", info.name},
                                    {"memory", base::show_size(info.memory)},
                                    {"capability", capability(info)}});
  }
  pin();
}

void Gpus::pin() {
  if (devices_.cuda_count() == 0 || config_.pinned_pool == 0) return;
  if (config_.pinned_pool < 2 * config_.limits.body || config_.pinned_pool < 2 * config_.limits.message)
    throw std::runtime_error("device.pinned_pool must be at least twice limits.body and limits.message");
  const uint64_t bytes = pinned_within_memory(config_, base::available_memory());
  auto memory = devices_.slab_memory(bytes);
  if (!memory)
    return base::log::warning(
        "device.pinned_pool cannot be pinned: models on the CPU are served, from memory of the "
        "size limits.slab_budget; models on a GPU may not load",
        {{"size", base::show_size(bytes)}, {"reason", memory.error().text}});
  pinned_memory_ = std::move(*memory);
  pinned_ = bytes;
}

uint64_t Gpus::budget() const { return pinned_ > 0 ? pinned_ : config_.slab_budget; }

std::unique_ptr<device::SlabPool> Gpus::make_pool(base::MemoryLedger& ledger) {
  auto memory = pinned_memory_ ? std::move(pinned_memory_) : device::system_memory();
  return std::make_unique<device::SlabPool>(ledger, std::move(memory));
}

std::vector<base::Gpu> Gpus::latest() const { return watch_ ? watch_->latest() : std::vector<base::Gpu>(); }

void Gpus::write_families(std::string& out, const device::SlabPool& pool, Names names) {
  auto gpus = latest();
  std::vector<ops::DeviceCopies> copies;
  for (size_t i = 0; i < devices_.cuda_count(); ++i) {
    auto now = devices_.cuda(i).copied();
    copies.push_back({devices_.cuda(i).info().id, now.to_device, now.to_host, now.copies});
  }
  ops::PinnedPool pinned{pool.used(), budget()};
  ops::append_gpus(out, gpus);
  ops::append_devices(out, copies);
  if (pinned_ > 0) ops::append_pinned(out, pinned);
  if (names == Names::kOurs) return;
  ops::append_gpus_triton(out, gpus);
  if (pinned_ > 0) ops::append_pinned_triton(out, pinned);
}

bool ends_on_fault(device::DeviceOptions::OnFault setting, const ServiceNotifier& service) {
  using OnFault = device::DeviceOptions::OnFault;
  if (setting != OnFault::kAuto) return setting == OnFault::kExit;
  return service.on() || ::getpid() == 1;
}

std::string device_table(device::Devices& devices) {
  if (!devices.cuda().ok()) return "  " + devices.cuda().text + '\n';
  std::string out;
  for (size_t i = 0; i < devices.cuda_count(); ++i) {
    const auto& info = devices.cuda(i).info();
    out += "  " + info.id + "  " + info.name + ", " + base::show_size(info.memory) + ", capability " +
           capability(info) + '\n';
  }
  return out;
}

std::string cuda_json(device::Devices& devices) {
  if (!devices.cuda().ok()) return nlohmann::json{{"available", false}, {"why", devices.cuda().text}}.dump();
  auto list = nlohmann::json::array();
  for (size_t i = 0; i < devices.cuda_count(); ++i) {
    const auto& info = devices.cuda(i).info();
    list.push_back({{"id", info.id}, {"name", info.name}, {"memory", info.memory}, {"capability", capability(info)}});
  }
  return nlohmann::json{{"available", true},
                        {"driver", version(devices.module().driver)},
                        {"runtime", version(devices.module().runtime)},
                        {"module", devices.module().path},
                        {"devices", std::move(list)}}
      .dump();
}

}  // namespace weir::app
