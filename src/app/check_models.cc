// `weir check`: loads the models of a configuration, prints what became of them, serves nothing.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/banner.h"
#include "app/check_settings.h"
#include "app/engines.h"
#include "app/gpus.h"
#include "app/logs.h"
#include "app/serve.h"
#include "base/log.h"
#include "device/pool.h"
#include "net/shard.h"

namespace weir::app {
namespace {

Exit check_models(const Config& config) {
  device::Devices devices(config.device);
  device::SlabPool slabs(config.slab_budget);
  base::HostMemory host_memory;
  onnx::Runtime onnx(onnx_options(config));
  net::Shard shard(base::ShardId(0), net::Pin::kNo);  // from which origins are asked
  forward::Runtime forward;
  forward.attach(shard);
  shard.start();
  std::shared_ptr<const bus::Catalog> latest;
  models::RepositoryOptions options = repository_options(config, devices);
  // Everything, whatever is loaded later. With kDemand each is loaded, and looked at, once.
  if (options.control != models::Control::kDemand) options.control = models::Control::kNone;
  options.startup.clear();
  models::Repository repository(options, engines(onnx, forward, devices, host_memory, 0, process_options(config), {}),
                                slabs, [&](auto catalog, auto settled) {
                                  latest = std::move(catalog);
                                  settled();
                                });
  auto status = repository.start();
  repository.stop();
  shard.stop();
  shard.join();
  forward.close();
  std::printf("devices:\n%s", device_table(devices).c_str());
  std::printf("models:\n%s", model_table(*latest).c_str());
  bool bad = !status.ok();
  for (const auto* dialect : config.served())
    for (const auto& wrong : dialect->missing(*latest)) print_error("weir: " + wrong), bad = true;
  // All is loaded; what is kUnloaded all the same is no model.
  for (const auto& row : latest->index)
    bad = bad || (row.state != bus::ModelState::kReady && row.state != bus::ModelState::kUnloaded);
  latest.reset();
  return bad ? Exit::kUsage : Exit::kOk;
}

}  // namespace

Exit check(const Config& config, CheckDepth depth) {
  set_up_logs(config);
  base::log::enable(base::log::Level::kInfo, false);
  base::log::enable(base::log::Level::kWarning, false);
  if (auto status = check_settings(config); !status.ok()) {
    print_error("weir: " + status.text);
    return Exit::kUsage;
  }
  return depth == CheckDepth::kModels ? check_models(config) : Exit::kOk;
}

}  // namespace weir::app
