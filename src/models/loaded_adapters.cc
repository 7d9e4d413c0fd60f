#include "models/loaded_adapters.h"

#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/encoding.h"
#include "base/log.h"

namespace weir::models {
namespace {

constexpr std::string_view kAdapterConfig = "/adapter_config.json";
constexpr size_t kLongestPath = 4096, kLongestWhy = 1000;

// The part of a file's path that is the adapter's name: "adapters/sql/x" -> "sql", in the folder "adapters".
std::string_view adapter_of(std::string_view file, std::string_view folder) {
  if (file.size() <= folder.size() + 1 || !file.starts_with(folder) || file[folder.size()] != '/') return {};
  file.remove_prefix(folder.size() + 1);
  const size_t slash = file.find('/');
  return slash == file.npos ? std::string_view() : file.substr(0, slash);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// How a client may write a root: as it is configured, whole, and without links.
std::vector<std::string> spellings(const std::string& root) {
  std::error_code failed;
  std::vector<std::string> out{without_slash(root)};
  const auto whole = std::filesystem::absolute(root, failed).lexically_normal();
  if (!failed) out.push_back(without_slash(whole.string()));
  const auto real = std::filesystem::canonical(root, failed);
  if (!failed) out.push_back(real.string());
  return out;
}

// The part of a whole path below the root.
std::optional<std::string> below(const std::string& root, const std::string& path) {
  for (const auto& spelling : spellings(root))
    if (path.starts_with(spelling + '/')) return path.substr(spelling.size() + 1);
  return {};
}

}  // namespace

uint64_t LoadedAdapters::bytes() const {
  uint64_t out = 0;
  for (const auto& [name, adapter] : all) out += adapter.keep ? adapter.bytes : 0;
  return out;
}

void LoadedAdapters::leave_memory() {
  for (auto& [name, adapter] : all) adapter.keep.reset();
}

uint64_t fingerprint_without_adapters(const ModelFolder& folder, const ModelConfig& config, uint64_t version) {
  const auto files = folder.versions.find(version);
  if (config.adapters_folder.empty() || files == folder.versions.end()) return folder.fingerprint(version);
  const std::string below = config.adapters_folder + '/';
  ModelFolder base;
  base.shared = folder.shared, base.versions[version] = files->second;
  std::erase_if(base.versions[version], [&](const FileStamp& s) { return s.path.starts_with(below); });
  return base.fingerprint(version);
}

std::map<std::string, LoadedAdapter> adapters_in(const ModelFolder& folder, const ModelConfig& config,
                                                 uint64_t version) {
  std::map<std::string, LoadedAdapter> out;
  const auto files = folder.versions.find(version);
  if (config.adapters_folder.empty() || files == folder.versions.end()) return out;
  std::map<std::string, Stamps> stamps;
  for (const auto& file : files->second)
    if (auto name = adapter_of(file.path, config.adapters_folder); good_model_name(name))
      stamps[std::string(name)].push_back(file);
  for (const auto& [name, its] : stamps) {
    const std::string path = config.adapters_folder + '/' + name;
    for (const auto& file : its)
      if (file.path == path + std::string(kAdapterConfig) && out.size() < kMostAdapters && name != folder.name)
        out[name] = {{name, folder.version_path(version), path, 0}, path, fingerprint(its) | 1};
  }
  return out;
}

base::Status load_into(const bus::Served& served, LoadedAdapter& adapter) {
  if (!served.adapters)
    return base::failure(base::Code::kUnimplemented,
                         "model '" + served.spec.name +
                             "' takes no adapters: those that make tokens on the CPU do (parameters: {device: cpu})");
  auto loaded = [&]() -> base::Result<msg::AdapterLoader::Loaded> {
    try {
      return served.adapters->load(adapter.source);
    } catch (const std::bad_alloc&) {
      return base::failure(base::Code::kResourceExhausted, "there is not enough memory to load it");
    }
  }();
  if (!loaded) return {loaded.error().code, base::presentable(loaded.error().text, kLongestWhy)};
  adapter.bytes = loaded->bytes, adapter.keep = std::move(loaded->keep), adapter.reason.clear();
  return {};
}

LoadedAdapters load_again(RepositoryLock& lock, const LoadedAdapters& before,
                          const std::map<std::string, LoadedAdapter>& in_folder, const bus::Served& served) {
  LoadedAdapters out{in_folder, before.next};
  for (const auto& [name, adapter] : before.all)
    if (adapter.asked_for()) out.all.emplace(name, adapter);
  const RepositoryLock::Unlocked unlocked(lock);
  for (auto& [name, adapter] : out.all) {
    const auto old = before.all.find(name);
    const bool same = old != before.all.end() && old->second.fingerprint == adapter.fingerprint;
    adapter.source.number = same ? old->second.source.number : out.next++;
    adapter.keep.reset();
    const bool known = served.spec.adapters.contains(name);
    auto status = known ? base::failure(base::Code::kAlreadyExists, "its model's configuration has that name, too")
                        : load_into(served, adapter);
    if (status.ok()) continue;
    adapter.reason = status.text;
    base::log::warning("adapter failed to load",
                       {{"model", served.spec.name}, {"adapter", name}, {"reason", status.text}});
  }
  return out;
}

base::Result<msg::AdapterLoader::Source> find_adapter(const std::vector<std::string>& roots, std::string_view path) {
  const std::string given = without_slash(std::string(path.substr(0, kLongestPath + 1)));
  const auto outside = [] {
    return base::failure(base::Code::kPermissionDenied,
                         "the path of an adapter must lie below a folder of models.adapter_roots, without '..'");
  };
  if (given.empty() || given.size() > kLongestPath || given.find('\0') != given.npos) return outside();
  bool inside = false;
  for (const auto& root : roots) {
    const auto relative = given.front() == '/' ? below(root, given) : std::optional(given);
    if (!relative || !good_relative_path(*relative)) continue;
    inside = true;
    const auto there = check_file(root, *relative + std::string(kAdapterConfig));
    if (there.ok()) return msg::AdapterLoader::Source{"", root, *relative, 0};
    if (there.code != base::Code::kNotFound) return base::failure(there.code, base::presentable(there.text, 400));
  }
  if (!inside) return outside();
  return base::failure(base::Code::kNotFound, "No adapter found for " + base::presentable(given, 400));
}

}  // namespace weir::models
