#include "device/cuda_module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace weir::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libweir_cuda.so";
// Beside it, where they were built: modules of older CUDAs, which run on older drivers.
constexpr const char* kOlderFiles[] = {"libweir_cuda12.so", "libweir_cuda11.so"};

base::Status no_cuda(const std::string& why) {
  return base::failure(base::Code::kFailedPrecondition, "no CUDA: " + why);
}

std::string version(int32_t number) { return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10); }

// Within one major version a newer runtime runs on an older driver.
bool is_too_new(const CudaModule& module) { return module.driver != 0 && module.driver / 1000 < module.runtime / 1000; }

base::Status count_devices(CudaModule& module) {
  if (module.driver == 0) return no_cuda("there is no driver");
  if (is_too_new(module))
    return no_cuda("the driver knows CUDA " + version(module.driver) + ", " + version(module.runtime) + " is needed");
  if (auto code = module.api->count(&module.devices); code != 0) return no_cuda(module.api->words(code));
  return module.devices > 0 ? base::Status() : no_cuda("there is no device");
}

base::Result<CudaModule> open_module(const std::string& place) {
  CudaModule module;
  module.path = place;
  module.library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module.library) {
    const char* why = dlerror();
    return no_cuda(std::string("the module cannot be opened: ") + (why ? why : "unknown"));
  }
  auto open = reinterpret_cast<cuda::Open>(dlsym(module.library, cuda::kEntry));
  module.api = open ? open(cuda::kAbi) : nullptr;
  if (!module.api) return no_cuda("the module " + fs::path(place).filename().string() + " is of another build of weir");
  module.api->driver(&module.driver);
  module.runtime = module.api->runtime;
  return module;
}

}  // namespace

void* CudaModule::symbol(const char* name) const { return library ? dlsym(library, name) : nullptr; }

std::vector<std::string> module_places(const std::string& configured) {
  if (!configured.empty()) return {configured};
  if (const char* set = std::getenv("WEIR_CUDA_MODULE"); set && *set) return {set};
  std::vector<std::string> places;
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return {kFile};
  fs::path folder = executable.parent_path();
  for (const fs::path& at : {folder, folder / ".." / "lib" / "weir", folder / ".." / "device" / "cuda"}) {
    places.push_back(at / kFile);
    for (const char* older : kOlderFiles) places.push_back(at / older);
  }
  return places;
}

base::Result<CudaModule> open_cuda(const std::vector<std::string>& places, const char* driver_library) {
  // Asked first: a machine without a driver is the usual case and deserves the plain answer.
  if (!dlopen(driver_library, RTLD_NOW | RTLD_LOCAL)) return no_cuda(std::string(driver_library) + " not found");
  std::string passed_over;
  base::Status why = no_cuda("this weir comes without its module libweir_cuda.so");
  for (const auto& place : places) {
    if (::access(place.c_str(), R_OK) != 0) continue;
    auto module = open_module(place);
    if (!module) return module;
    module->passed_over = passed_over;
    auto status = count_devices(*module);
    if (status.ok()) return module;
    if (!is_too_new(*module)) return status;
    why = status;  // the last one is the oldest, which says what would do
    passed_over = fs::path(place).filename().string() + " needs a driver for CUDA " +
                  std::to_string(module->runtime / 1000) + ", and this one is for " + version(module->driver);
  }
  return why;
}

}  // namespace weir::device
