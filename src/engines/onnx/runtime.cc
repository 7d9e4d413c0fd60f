#include "engines/onnx/runtime.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "device/devices.h"
#include "engines/onnx/captured_graphs.h"
#include "engines/onnx/device_engine.h"
#include "engines/onnx/engine.h"
#include "engines/onnx/external_data.h"
#include "engines/onnx/library.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/session.h"
#include "engines/onnx/signature.h"

namespace weir::onnx {

using SharedSession = std::shared_ptr<const Session>;

namespace {

// A model file as it was read, with what it says of itself and the other files that it names.
struct ModelContents {
  std::string bytes;
  FileSummary summary;
  ExternalData external;
};

base::Result<ModelContents> read_model(const ModelFile& file, const std::string& path) {
  auto bytes = file.read();
  if (!bytes) return bytes.error();
  auto summary = inspect(*bytes);
  if (!summary) return summary.error();
  auto external = ExternalData::open(path, summary->external);
  if (!external) return external.error();
  return ModelContents{std::move(*bytes), std::move(*summary), std::move(*external)};
}

base::Result<SharedSession> make_session(const std::shared_ptr<const Library>& library, const SessionOptions& settings,
                                         const ModelContents& contents, const std::string& id) {
  auto made = Session::make(library, settings, contents.bytes, contents.summary, contents.external, id);
  if (auto intact = contents.external.intact(); !intact.ok()) return intact;
  return made;
}

}  // namespace

struct Runtime::Parts {
  Options options;
  mutable std::mutex mutex;  // guards the rest
  std::shared_ptr<const Library> library;
  std::map<std::string, std::weak_ptr<const Session>> sessions;  // by file identity and options

  base::Status open() {
    if (library) return {};
    auto opened = open_library(library_places(options.library));
    if (!opened) return opened.error();
    library = std::move(*opened);
    return {};
  }

  // A session that was made of the same bytes is found by the model file alone, unless it has external data: then the
  // file has to be read to know which other files count.
  base::Result<SharedSession> session(const ModelFile& file, const std::string& path, const SessionOptions& settings,
                                      const std::string& id) {
    std::erase_if(sessions, [](const auto& entry) { return entry.second.expired(); });
    const std::string key = file.identity() + settings.text();
    if (SharedSession alive = find(key)) return alive;
    auto contents = read_model(file, path);
    if (!contents) return contents.error();
    const std::string whole = key + contents->external.identity();
    if (SharedSession alive = find(whole)) return alive;
    auto made = make_session(library, settings, *contents, id);
    if (made) sessions[whole] = *made;
    return made;
  }
  // A session for one engine alone.
  base::Result<SharedSession> make(const ModelFile& file, const std::string& path, const SessionOptions& settings,
                                   const std::string& id) const {
    auto contents = read_model(file, path);
    if (!contents) return contents.error();
    return make_session(library, settings, *contents, id);
  }
  SharedSession find(const std::string& key) const {
    auto it = sessions.find(key);
    return it == sessions.end() ? nullptr : it->second.lock();
  }
};

Runtime::Runtime(Options options) : parts_(std::make_unique<Parts>()) { parts_->options = std::move(options); }
Runtime::~Runtime() = default;

namespace {

std::string word(const msg::ModelSpec& spec, const char* name, const char* otherwise) {
  auto p = spec.parameters.find(name);
  return p == spec.parameters.end() ? otherwise : p->second;
}

// The device and what its engine takes of it, from the model's parameters.
base::Result<sched::DeviceEngine::Deps> device_of(const msg::ModelSpec& wanted, base::SlabSource& slabs,
                                                  const Place& place) {
  constexpr uint64_t kMostInFlight = 8;
  auto pinned = base::parse_size(word(wanted, "pinned", "64MiB"));
  if (!pinned || *pinned == 0) return base::invalid("parameter 'pinned': a size is expected");
  auto depth = base::parse_count(word(wanted, "in_flight", "2"), kMostInFlight);
  if (!depth || *depth == 0) return base::invalid("parameter 'in_flight': a whole number from 1 to 8 is expected");
  if (!place.devices) return base::failure(base::Code::kFailedPrecondition, "there are no devices");
  auto device = place.devices->find(word(wanted, "device", ""));
  if (!device) return device.error();
  if (auto s = (*device)->restart(); !s.ok()) return s;
  sched::DeviceEngine::Deps deps;
  deps.device = *device, deps.memory = &place.devices->memory(**device), deps.slabs = &slabs;
  deps.pinned = *pinned, deps.depth = uint32_t(*depth), deps.broken = place.broken;
  return deps;
}

base::Result<msg::ModelSpec> derive_aloud(const Signature& file, const msg::ModelSpec& wanted) {
  auto spec = derive(file, wanted);
  if (!spec) return spec;
  if (auto why = unbatched(file, wanted); !why.empty())
    base::log::info("model is not batched", {{"model", wanted.name}, {"reason", why}});
  return spec;
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> Runtime::load(const msg::ModelSpec& wanted, const std::string& file,
                                                           base::SlabSource& slabs, const Place& place) {
  auto settings = session_options(wanted.parameters, parts_->options.session);
  if (!settings) return settings.error();
  std::lock_guard lock(parts_->mutex);
  if (auto s = parts_->open(); !s.ok()) return s;
  auto opened = ModelFile::open(file);
  if (!opened) return opened.error();
  const std::string id = wanted.name + "/" + wanted.version;
  if (wanted.parameters.count("device")) {
    auto deps = device_of(wanted, slabs, place);
    if (!deps) return deps.error();
    settings->placement.gpu = deps->device->info().index;
    auto make = [&](void* stream) {
      auto own = *settings;
      own.placement.stream = stream;
      return parts_->make(*opened, file, own, id);
    };
    auto engine = make_device_engine(std::move(*deps), make, [&](const auto& s) { return derive_aloud(s, wanted); });
    if (engine || engine.error().code != base::Code::kUnimplemented) return engine;
    if (wants_graphs(wanted))
      return base::failure(base::Code::kFailedPrecondition,
                           "parameter 'cuda.enable_cuda_graph': " + engine.error().text);
    base::log::info("ONNX Runtime copies the model's tensors itself",
                    {{"model", wanted.name}, {"reason", engine.error().text}});
  }
  auto session = parts_->session(*opened, file, *settings, id);
  if (!session) return session.error();
  auto spec = derive_aloud((*session)->signature(), wanted);
  if (!spec) return spec.error();
  return make_engine(std::move(*session), std::move(*spec), slabs);
}

std::string Runtime::version() const {
  std::lock_guard lock(parts_->mutex);
  return parts_->library ? parts_->library->version : std::string();
}

size_t Runtime::sessions() const {
  std::lock_guard lock(parts_->mutex);
  size_t alive = 0;
  for (const auto& [key, session] : parts_->sessions) alive += !session.expired();
  return alive;
}

}  // namespace weir::onnx
