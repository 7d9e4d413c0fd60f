#include "dialects/ops/gpu_metrics.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/metrics.h"

namespace weir::ops {
namespace {

using base::Gpu;

struct GpuFamily {
  const char* name;
  const char* type;
  const char* help;
  std::optional<double> (*value)(const Gpu&);
};

std::optional<double> number(const std::optional<uint64_t>& n) {
  return n ? std::optional<double>(double(*n)) : std::nullopt;
}

constexpr GpuFamily kOurs[] = {
    {"weir_gpu_utilization_ratio", "gauge", "Share of the last second in which the GPU ran something.",
     [](const Gpu& g) { return g.utilization; }},
    {"weir_gpu_memory_utilization_ratio", "gauge", "Share of the last second in which its memory was used.",
     [](const Gpu& g) { return g.memory_utilization; }},
    {"weir_gpu_memory_used_bytes", "gauge", "Memory in use, by everybody.",
     [](const Gpu& g) { return number(g.memory_used); }},
    {"weir_gpu_memory_total_bytes", "gauge", "Memory that the GPU has.",
     [](const Gpu& g) { return number(g.memory_total); }},
    {"weir_gpu_power_watts", "gauge", "Power drawn.", [](const Gpu& g) { return g.power; }},
    {"weir_gpu_power_limit_watts", "gauge", "Power that it may draw.", [](const Gpu& g) { return g.power_limit; }},
    {"weir_gpu_energy_joules_total", "counter", "Energy used since the driver was loaded.",
     [](const Gpu& g) { return g.energy; }},
};

constexpr GpuFamily kTritons[] = {
    {"nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)", [](const Gpu& g) { return g.utilization; }},
    {"nv_gpu_memory_total_bytes", "gauge", "GPU total memory, in bytes",
     [](const Gpu& g) { return number(g.memory_total); }},
    {"nv_gpu_memory_used_bytes", "gauge", "GPU used memory, in bytes",
     [](const Gpu& g) { return number(g.memory_used); }},
    {"nv_gpu_power_usage", "gauge", "GPU power usage in watts", [](const Gpu& g) { return g.power; }},
    {"nv_gpu_power_limit", "gauge", "GPU power management limit in watts", [](const Gpu& g) { return g.power_limit; }},
    {"nv_energy_consumption", "counter", "GPU energy consumption in joules since the Triton Server started",
     [](const Gpu& g) { return g.energy; }},
};

std::string text_of(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

void head(std::string& out, const char* name, const char* type, const char* help) {
  out += std::string("# HELP ") + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
}

void plain(std::string& out, const char* name, const char* help, uint64_t value) {
  head(out, name, "gauge", help);
  out += std::string(name) + ' ' + std::to_string(value) + '\n';
}

template <class Labels>
void append(std::string& out, std::span<const GpuFamily> families, std::span<const Gpu> gpus, Labels labels) {
  for (const auto& family : families) {
    bool any = false;
    for (const auto& gpu : gpus) {
      auto value = family.value(gpu);
      if (!value) continue;
      if (!std::exchange(any, true)) head(out, family.name, family.type, family.help);
      out += std::string(family.name) + '{' + labels(gpu) + "} " + text_of(*value) + '\n';
    }
  }
}

}  // namespace

void append_gpus(std::string& out, std::span<const Gpu> gpus) {
  append(out, kOurs, gpus, [](const Gpu& g) {
    return "gpu=\"" + std::to_string(g.index) + "\",uuid=\"" + base::escape_label(g.uuid) + "\",name=\"" +
           base::escape_label(g.name) + '"';
  });
}

void append_gpus_triton(std::string& out, std::span<const Gpu> gpus) {
  append(out, kTritons, gpus, [](const Gpu& g) { return "gpu_uuid=\"" + base::escape_label(g.uuid) + '"'; });
}

void append_devices(std::string& out, std::span<const DeviceCopies> devices) {
  if (devices.empty()) return;
  head(out, "weir_device_copy_bytes_total", "counter", "Bytes copied between host and device.");
  for (const auto& d : devices) {
    std::string start = "weir_device_copy_bytes_total{device=\"" + base::escape_label(d.device) + "\",direction=\"";
    out += start + "to_device\"} " + std::to_string(d.to_device) + '\n';
    out += start + "to_host\"} " + std::to_string(d.to_host) + '\n';
  }
  head(out, "weir_device_copies_total", "counter", "Copies, in both directions and on the device.");
  for (const auto& d : devices)
    out +=
        "weir_device_copies_total{device=\"" + base::escape_label(d.device) + "\"} " + std::to_string(d.copies) + '\n';
}

void append_pinned(std::string& out, const PinnedPool& pool) {
  plain(out, "weir_pinned_used_bytes", "Pinned memory that requests, batches and answers hold now.", pool.used);
  plain(out, "weir_pinned_total_bytes", "device.pinned_pool: all of it.", pool.total);
}

void append_pinned_triton(std::string& out, const PinnedPool& pool) {
  plain(out, "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", pool.total);
  plain(out, "nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", pool.used);
}

}  // namespace weir::ops
