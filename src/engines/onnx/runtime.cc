#include "engines/onnx/runtime.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

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

bool is_wanted(const Place& place) { return !place.loading || place.loading(); }
base::Status not_wanted() { return base::failure(base::Code::kUnavailable, "the server is shutting down"); }

}  // namespace

struct Runtime::Parts {
  // One model version as it is to be loaded.
  struct Request {
    const ModelFile& file;
    const std::string& path;
    const std::string& id;
    const Place& place;
  };

  Options options;
  mutable std::mutex mutex;  // guards the library and the maps
  std::shared_ptr<const Library> library;
  std::map<std::string, std::weak_ptr<const Session>> sessions;   // by file identity and options
  std::map<std::string, std::weak_ptr<std::mutex>> being_loaded;  // by the same, without files of external data
  std::mutex custom_ops;  // held while operators of others are registered: their code may be made for one thread

  base::Result<std::shared_ptr<const Library>> open() {
    std::lock_guard lock(mutex);
    if (library) return library;
    auto opened = open_library(library_places(options.library));
    if (opened) library = *opened;
    return opened;
  }

  // A session that was made of the same bytes is found by the model file alone, unless it has external data: then the
  // file has to be read to know which other files count.
  base::Result<SharedSession> session(const Request& request, const SessionOptions& settings) {
    const std::string key = request.file.identity() + settings.text();
    const auto turn = turn_of(key);
    std::lock_guard one_at_a_time(*turn);
    if (SharedSession alive = find(key)) return alive;
    auto contents = read_model(request.file, request.path);
    if (!contents) return contents.error();
    const std::string whole = key + contents->external.identity();
    if (SharedSession alive = find(whole)) return alive;
    auto made = make(request, settings, *contents);
    if (!made) return made;
    std::lock_guard lock(mutex);
    sessions[whole] = *made;
    return made;
  }
  // A session for one engine alone.
  base::Result<SharedSession> make(const Request& request, const SessionOptions& settings) {
    auto contents = read_model(request.file, request.path);
    if (!contents) return contents.error();
    return make(request, settings, *contents);
  }
  base::Result<SharedSession> make(const Request& request, const SessionOptions& settings,
                                   const ModelContents& contents) {
    if (!is_wanted(request.place)) return not_wanted();
    std::unique_lock one_at_a_time(custom_ops, std::defer_lock);
    if (!settings.custom_ops.empty()) one_at_a_time.lock();
    auto opened = open();
    if (!opened) return opened.error();
    auto made = Session::make(*opened, settings, contents.bytes, contents.summary, contents.external, request.id);
    if (auto intact = contents.external.intact(); !intact.ok()) return intact;
    return made;
  }
  std::shared_ptr<std::mutex> turn_of(const std::string& key) {
    std::lock_guard lock(mutex);
    std::erase_if(being_loaded, [](const auto& entry) { return entry.second.expired(); });
    auto turn = being_loaded[key].lock();
    if (!turn) being_loaded[key] = turn = std::make_shared<std::mutex>();
    return turn;
  }
  SharedSession find(const std::string& key) {
    std::lock_guard lock(mutex);
    std::erase_if(sessions, [](const auto& entry) { return entry.second.expired(); });
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

// The turns on the model's GPU, or on all of them where it has graphs: while the library captures one, CUDA takes no
// memory for any other thread. Errors: UNAVAILABLE, nobody wants the model any more.
base::Result<std::vector<std::shared_ptr<void>>> take_turns(const msg::ModelSpec& wanted, const Place& place) {
  std::vector<std::shared_ptr<void>> turns;
  if (!place.turn || !place.devices || !wanted.parameters.contains("device")) return turns;
  auto device = place.devices->find(word(wanted, "device", ""));
  if (!device || (*device)->info().index < 0) return turns;
  for (size_t i = 0; i < place.devices->cuda_count(); ++i) {
    const auto& one = place.devices->cuda(i).info();
    if (one.index != (*device)->info().index && !wants_graphs(wanted)) continue;
    turns.push_back(place.turn(one.id));
    if (!turns.back()) return not_wanted();
  }
  return turns;
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> Runtime::load(const msg::ModelSpec& wanted, const std::string& file,
                                                           base::SlabSource& slabs, const Place& place) {
  auto settings = session_options(wanted.parameters, parts_->options.session);
  if (!settings) return settings.error();
  if (wanted.max_batch > 0) settings->rows = Rows::kUpToMaxBatch;
  if (auto library = parts_->open(); !library) return library.error();
  auto opened = ModelFile::open(file);
  if (!opened) return opened.error();
  const std::string id = wanted.name + "/" + wanted.version;
  const Parts::Request request{*opened, file, id, place};
  auto turns = take_turns(wanted, place);
  if (!turns) return turns.error();
  if (wanted.parameters.count("device")) {
    auto deps = device_of(wanted, slabs, place);
    if (!deps) return deps.error();
    settings->placement.gpu = deps->device->info().index;
    auto make = [&](void* stream) {
      auto own = *settings;
      own.placement.stream = stream;
      return parts_->make(request, own);
    };
    auto engine = make_device_engine(std::move(*deps), make, [&](const auto& s) { return derive_aloud(s, wanted); });
    if (engine || engine.error().code != base::Code::kUnimplemented) return engine;
    if (wants_graphs(wanted))
      return base::failure(base::Code::kFailedPrecondition,
                           "parameter 'cuda.enable_cuda_graph': " + engine.error().text);
    base::log::info("ONNX Runtime copies the model's tensors itself",
                    {{"model", wanted.name}, {"reason", engine.error().text}});
  }
  auto session = parts_->session(request, *settings);
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
