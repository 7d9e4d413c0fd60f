#include "models/placement.h"

#include <algorithm>
#include <charconv>

namespace weir::models {
namespace {

using Kind = InstanceGroup::Kind;

// The number of a GPU; nothing for devices that are not one.
int64_t gpu_number(const std::string& device) {
  if (device == "cuda") return 0;
  if (!device.starts_with("cuda:")) return -1;
  int64_t number = -1;
  auto [end, error] = std::from_chars(device.data() + 5, device.data() + device.size(), number);
  return error == std::errc() && end == device.data() + device.size() ? number : -1;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

// OK, or why the group cannot have its devices.
base::Status usable(const InstanceGroup& group, const std::string& engine, const DeviceSupply& supply) {
  std::string asked = group.devices.empty() ? std::string("a GPU") : joined(group.devices);
  bool able = std::find(supply.engines.begin(), supply.engines.end(), engine) != supply.engines.end();
  if (!able)
    return base::failure(base::Code::kFailedPrecondition,
                         "instances on " + asked + " are asked for, but the engine '" + engine +
                             "' computes on the CPU alone; ask for KIND_CPU or KIND_AUTO, or set "
                             "models.missing_devices: cpu");
  auto missing = std::find_if(group.devices.begin(), group.devices.end(),
                              [&](const auto& d) { return gpu_number(d) >= int64_t(supply.gpus); });
  if (missing == group.devices.end() && !(group.devices.empty() && supply.gpus == 0)) return {};
  std::string there = supply.gpus == 0 ? "no GPU" : "only cuda:0 to cuda:" + std::to_string(supply.gpus - 1);
  return base::failure(base::Code::kFailedPrecondition,
                       "instances on " + (missing == group.devices.end() ? asked : *missing) +
                           " are asked for, but there is " + there +
                           " here; ask for KIND_AUTO, or set models.missing_devices: cpu");
}

}  // namespace

base::Result<std::vector<std::string>> place(const std::vector<InstanceGroup>& groups, const std::string& engine,
                                             const DeviceSupply& supply, std::vector<size_t>* of) {
  std::vector<std::string> places;
  for (const auto& group : groups) {
    auto on = group.devices;
    if (on.empty())
      for (uint32_t i = 0; i < supply.gpus; ++i) on.push_back("cuda:" + std::to_string(i));
    if (group.kind == Kind::kEngine) {
      on = {""};
    } else if (group.kind == Kind::kCpu) {
      on = {"cpu"};
    } else if (auto s = usable(group, engine, supply); !s.ok()) {
      if (group.kind == Kind::kDevices && supply.missing == DeviceSupply::Missing::kError) return s;
      on = {group.kind == Kind::kDevices ? "cpu" : ""};
    }
    for (const auto& device : on) places.insert(places.end(), group.count, device);
    if (of) of->resize(places.size(), size_t(&group - groups.data()));
  }
  return places;
}

}  // namespace weir::models
