#include "engines/onnx/library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/log.h"
#include "engines/onnx/error.h"
#include "engines/onnx/self_test.h"

// Asked by LeakSanitizer, where it is built in: the library allocates a few bytes once per process and never frees
// them.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libonnxruntime.so\n"; }

namespace weir::onnx {
namespace {

namespace log = base::log;
namespace fs = std::filesystem;

constexpr const char* kFile = "libonnxruntime.so.1";

base::Status unusable(std::string why) { return base::failure(base::Code::kFailedPrecondition, std::move(why)); }

void to_log(void*, LogLevel level, const char* category, const char*, const char*, const char* message) {
  log::Level ours = level >= LogLevel::kError     ? log::Level::kError
                    : level == LogLevel::kWarning ? log::Level::kWarning
                                                  : log::Level::kVerbose;
  if (log::enabled(ours)) log::write(ours, "onnxruntime", {{"text", scrub(message)}, {"category", category}});
}

// npm's onnxruntime-node under `root`: bin/napi-v<N>/linux/<cpu>/; the newest N first.
void add_npm(std::vector<std::string>& places, const fs::path& root) {
  utsname machine{};
  uname(&machine);
  const char* cpu = std::string_view(machine.machine) == "aarch64" ? "arm64" : "x64";
  for (int napi = 9; napi >= 3; --napi)
    places.push_back(root / "node_modules/onnxruntime-node/bin" / ("napi-v" + std::to_string(napi)) / "linux" / cpu /
                     kFile);
}

std::string file_of(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / kFile).string() : path;
}

// `why` says what is wrong with the last place that has a file, or that was named.
void* open_first(const std::vector<std::string>& places, std::string& found, std::string& why) {
  for (const std::string& place : places) {
    struct stat info;
    bool bare = place.find('/') == place.npos;  // the loader looks for it
    if (!bare && stat(place.c_str(), &info) != 0) {
      log::verbose("no ONNX Runtime here", {{"path", place}});
      if (why.empty()) why = place + ": " + std::strerror(errno);
      continue;
    }
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      found = place;
      return handle;
    }
    const char* error = dlerror();
    if (bare) continue;
    why = error ? error : place + ": unknown";
    log::warning("ONNX Runtime cannot be loaded", {{"path", place}, {"why", why}});
  }
  return nullptr;
}

// Built from a checkout, whose ./dev brings the library: packages have none.
bool is_in_checkout() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error);
  for (int up = 0; !error && up < 5 && folder.has_relative_path(); ++up) {
    folder = folder.parent_path();
    std::error_code ignored;
    if (fs::exists(folder / "dev", ignored) && fs::exists(folder / "src/engines/onnx", ignored)) return true;
  }
  return false;
}

base::Status not_opened(const std::vector<std::string>& places, const std::string& why) {
  if (places.size() == 1 && !why.empty())
    return unusable("ONNX Runtime cannot be opened where engines.onnx.library or WEIR_ONNXRUNTIME names it: " + why);
  return unusable(std::string("ONNX Runtime was not found: ") + (is_in_checkout() ? "run './dev setup', or " : "") +
                  "name the library (libonnxruntime.so.1) in engines.onnx.library or in WEIR_ONNXRUNTIME");
}

base::Status start(Library& library) {
  const Api& api = library.api;
  OrtEnv* env = nullptr;
  if (auto s = to_status(api, api.create_env(to_log, nullptr, LogLevel::kWarning, "weir", &env)); !s.ok()) return s;
  library.env = {env, api.release_env};
  if (auto s = to_status(api, api.disable_telemetry(env)); !s.ok()) return s;
  OrtMemoryInfo* cpu = nullptr;
  if (auto s = to_status(api, api.cpu_memory(AllocatorKind::kArena, MemoryKind::kDefault, &cpu)); !s.ok()) return s;
  library.cpu = {cpu, api.release_memory};
  return to_status(api, api.default_allocator(&library.allocator));
}

}  // namespace

std::vector<std::string> library_places(const std::string& configured) {
  if (!configured.empty()) return {file_of(configured)};
  if (const char* set = std::getenv("WEIR_ONNXRUNTIME"); set && *set) return {file_of(set)};
  std::vector<std::string> places;
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    for (fs::path folder : {executable.parent_path(), executable.parent_path().parent_path()}) {
      places.push_back(folder / "onnxruntime" / kFile);
      add_npm(places, folder / ".cache" / "npm");
    }
  }
  if (!error)
    places.push_back(executable.parent_path().parent_path() / "lib" / "weir" / kFile);  // as packages install it
  for (const char* folder : {"/usr/local/lib", "/usr/lib"}) places.push_back(fs::path(folder) / kFile);
  places.push_back(kFile);
  return places;
}

bool has_cuda(const std::vector<std::string>& places) {
  std::error_code ignored;
  for (const auto& place : places)
    if (fs::exists(place, ignored))
      return fs::exists(fs::path(place).parent_path() / "libonnxruntime_providers_cuda.so", ignored);
  return false;
}

base::Result<std::shared_ptr<const Library>> open_library(const std::vector<std::string>& places) {
  std::string path, why;
  void* handle = open_first(places, path, why);
  if (!handle) return not_opened(places, why);
  auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (!get_base) return unusable("the library given as ONNX Runtime is another one: it has no OrtGetApiBase");
  const OrtApiBase* base = get_base();
  auto library = std::make_shared<Library>();
  library->version = base->version();
  const void* const* table = base->get_api(kApiVersion);
  if (!table) return unusable("ONNX Runtime " + library->version + " is too old: 1.16 or newer is needed");
  library->api = read(table, library->version);
  if (auto s = check_errors(library->api); !s.ok()) return s;
  if (auto s = start(*library); !s.ok()) return s;
  if (auto s = self_test(*library); !s.ok()) return s;
  log::info("ONNX Runtime opened", {{"version", library->version}, {"path", path}});
  return std::shared_ptr<const Library>(std::move(library));
}

}  // namespace weir::onnx
