#include "app/engine_child.h"

#include <cstdlib>
#include <utility>

#include "app/engines.h"
#include "app/logs.h"
#include "app/settings.h"
#include "base/log.h"
#include "engines/process/engine_child.h"

namespace weir::app {
namespace {

// The engines of a child look at these.
constexpr std::string_view kSections[] = {"engines.onnx.", "device."};

bool is_needed(const base::Setting& setting) {
  using Kind = base::Setting::ValueKind;
  if (setting.form == Kind::kTree || setting.form == Kind::kReplaced) return false;
  for (auto section : kSections)
    if (setting.key.starts_with(section)) return true;
  return false;
}

}  // namespace

std::vector<std::string> engine_command(const Config& config) {
  Config defaults;
  std::vector<std::string> command{"/proc/self/exe", kEngineChild};
  const auto rows = settings(const_cast<Config&>(config)), usual = settings(defaults);  // only get() is called
  // A child has no WEIR_ variables.
  const char *library = std::getenv("WEIR_ONNXRUNTIME"), *module = std::getenv("WEIR_CUDA_MODULE");
  if (config.onnx.library.empty() && library) command.push_back("--onnx-library=" + std::string(library));
  if (config.device.module.empty() && module) command.push_back("--device-module=" + std::string(module));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!is_needed(rows[i])) continue;
    const auto values = rows[i].get();
    if (values == usual[i].get()) continue;
    for (const auto& value : values) command.push_back(rows[i].flag_name() + "=" + value);
  }
  command.emplace_back("--");  // a model's name may begin like a flag
  return command;
}

Exit run_engine_child(const Config& config, const std::string& engine) {
  set_up_logs(config);
  base::log::enable(base::log::Level::kInfo, false);
  device::Devices devices(config.device);
  base::HostMemory host_memory;
  onnx::Runtime onnx(onnx_options(config));
  forward::Runtime forward;
  const auto makers = engines(onnx, forward, devices, host_memory, 0, config.processes, {});
  const auto maker = makers.find(engine);
  auto load = [&](msg::ModelSpec wanted, const std::string& file,
                  base::SlabSource& slabs) -> base::Result<std::unique_ptr<sched::Engine>> {
    if (maker == makers.end()) return base::failure(base::Code::kUnimplemented, "there is no engine '" + engine + "'");
    for (auto parameter : process::kIsolationParameters) wanted.parameters.erase(std::string(parameter));
    auto made = maker->second(models::LoadArgs{wanted, file, 0, slabs});
    if (!made) return std::move(made).error();
    if (auto* one = std::get_if<std::unique_ptr<sched::Engine>>(&*made)) return std::move(*one);
    return base::failure(base::Code::kUnimplemented, not_isolated(engine));
  };
  return process::run_engine(load) == 0 ? Exit::kOk : Exit::kFailed;
}

}  // namespace weir::app
