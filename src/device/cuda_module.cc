#include "device/cuda_module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace weir::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libweir_cuda.so";

base::Status no_cuda(const std::string& why) {
  return base::failure(base::Code::kFailedPrecondition, "no CUDA: " + why);
}

std::string version(int32_t number) { return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10); }

base::Status count_devices(CudaModule& module) {
  const auto& api = *module.api;
  api.driver(&module.driver);
  module.runtime = api.runtime;
  if (module.driver == 0) return no_cuda("there is no driver");
  // Within one major version a newer runtime runs on an older driver.
  if (module.driver / 1000 < module.runtime / 1000)
    return no_cuda("the driver knows CUDA " + version(module.driver) + ", " + version(module.runtime) + " is needed");
  if (auto code = api.count(&module.devices); code != 0) return no_cuda(api.words(code));
  return module.devices > 0 ? base::Status() : no_cuda("there is no device");
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
  places.push_back(folder / kFile);
  places.push_back(folder / ".." / "lib" / "weir" / kFile);
  places.push_back(folder / ".." / "device" / "cuda" / kFile);
  return places;
}

base::Result<CudaModule> open_cuda(const std::vector<std::string>& places, const char* driver_library) {
  // Asked first: a machine without a driver is the usual case and deserves the plain answer.
  if (!dlopen(driver_library, RTLD_NOW | RTLD_LOCAL)) return no_cuda(std::string(driver_library) + " not found");
  CudaModule module;
  for (const auto& place : places) {
    if (::access(place.c_str(), R_OK) != 0) continue;
    module.library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module.library) {
      const char* why = dlerror();
      return no_cuda(std::string("the module cannot be opened: ") + (why ? why : "unknown"));
    }
    module.path = place;
    break;
  }
  if (!module.library) return no_cuda("this weir comes without its module libweir_cuda.so");
  auto open = reinterpret_cast<cuda::Open>(dlsym(module.library, cuda::kEntry));
  module.api = open ? open(cuda::kAbi) : nullptr;
  if (!module.api) return no_cuda("the module libweir_cuda.so is of another build of weir");
  if (auto s = count_devices(module); !s.ok()) return s;
  return module;
}

}  // namespace weir::device
