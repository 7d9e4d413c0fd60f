// `weir check`: loads the models of a configuration, prints what became of them, serves nothing.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/access_control.h"
#include "app/banner.h"
#include "app/engines.h"
#include "app/gpus.h"
#include "app/logs.h"
#include "app/roots.h"
#include "app/serve.h"
#include "base/log.h"
#include "device/pool.h"

namespace weir::app {

Exit check_models(const Config& config) {
  set_up_logs(config);
  base::log::enable(base::log::Level::kInfo, false);
  base::log::enable(base::log::Level::kWarning, false);
  if (auto s = check_roots(config); !s.ok()) {
    print_error("weir: " + s.text);
    return Exit::kUsage;
  }
  if (auto s = AccessControl(config).open(); !s.ok()) {
    print_error("weir: " + s.text);
    return Exit::kUsage;
  }
  device::Devices devices(config.device);
  device::SlabPool slabs(config.slab_budget);
  onnx::Runtime onnx(onnx_options(config));
  std::shared_ptr<const bus::Catalog> latest;
  models::RepositoryOptions options = repository_options(config, devices);
  options.control = models::Control::kNone;  // everything, whatever is loaded later
  models::Repository repository(options, engines(onnx, devices, 0), slabs, [&](auto catalog, auto settled) {
    latest = std::move(catalog);
    settled();
  });
  auto status = repository.start();
  repository.stop();
  std::printf("devices:\n%s", device_table(devices).c_str());
  std::printf("models:\n%s", model_table(*latest).c_str());
  bool bad = !status.ok();
  for (const auto& served : config.dialects) {
    if (!served.on) continue;
    for (const auto& wrong : served.dialect->missing(*latest)) print_error("weir: " + wrong), bad = true;
  }
  for (const auto& row : latest->index) bad = bad || row.state != bus::ModelState::kReady;
  latest.reset();
  return bad ? Exit::kUsage : Exit::kOk;
}

}  // namespace weir::app
