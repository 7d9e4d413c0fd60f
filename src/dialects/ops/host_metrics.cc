#include "dialects/ops/host_metrics.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace weir::ops {
namespace {

void gauge(std::string& out, const std::string& name, const char* help, const std::string& value) {
  out += "# HELP " + name + ' ' + help + "\n# TYPE " + name + " gauge\n" + name + ' ' + value + '\n';
}

// The rows of /proc/meminfo that matter here, in bytes.
std::map<std::string, uint64_t> memory(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  std::map<std::string, uint64_t> found;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kib;
    if (words >> name >> kib && (name == "MemTotal:" || name == "MemAvailable:")) found[name] = kib * 1024;
  }
  return found;
}

}  // namespace

HostLoad::HostLoad(std::string root) : root_(std::move(root)), last_(ticks()) {}

// The first line of /proc/stat: user nice system idle iowait irq softirq steal, since the start of the system.
HostLoad::Ticks HostLoad::ticks() const {
  std::ifstream in(root_ + "/proc/stat");
  std::string cpu;
  Ticks now;
  if (!(in >> cpu) || cpu != "cpu") return now;
  uint64_t value;
  for (int field = 0; field < 8 && in >> value; ++field) {
    now.all += value;
    if (field != 3 && field != 4) now.busy += value;
  }
  return now;
}

void HostLoad::append_triton(std::string& out) {
  if (const Ticks now = ticks(); now.all > 0) {
    std::lock_guard lock(mutex_);
    if (now.all > last_.all && now.busy >= last_.busy) {
      latest_ = double(now.busy - last_.busy) / double(now.all - last_.all);
      last_ = now;
    }
    char text[16];
    std::snprintf(text, sizeof text, "%.6f", latest_);
    gauge(out, "nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", text);
  }
  auto bytes = memory(root_);
  if (bytes.size() < 2) return;
  const uint64_t total = bytes["MemTotal:"], available = bytes["MemAvailable:"];
  gauge(out, "nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", std::to_string(total));
  gauge(out, "nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes",
        std::to_string(total > available ? total - available : 0));
}

}  // namespace weir::ops
