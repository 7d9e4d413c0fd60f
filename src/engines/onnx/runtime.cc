#include "engines/onnx/runtime.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "engines/onnx/engine.h"
#include "engines/onnx/external_data.h"
#include "engines/onnx/library.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/session.h"
#include "engines/onnx/signature.h"

namespace weir::onnx {

using SharedSession = std::shared_ptr<const Session>;

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
    auto bytes = file.read();
    if (!bytes) return bytes.error();
    auto summary = inspect(*bytes);
    if (!summary) return summary.error();
    auto external = ExternalData::open(path, summary->external);
    if (!external) return external.error();
    const std::string whole = key + external->identity();
    if (SharedSession alive = find(whole)) return alive;
    auto made = Session::make(library, settings, *bytes, *summary, *external, id);
    if (made) sessions[whole] = *made;
    return made;
  }
  SharedSession find(const std::string& key) const {
    auto it = sessions.find(key);
    return it == sessions.end() ? nullptr : it->second.lock();
  }
};

Runtime::Runtime(Options options) : parts_(std::make_unique<Parts>()) { parts_->options = std::move(options); }
Runtime::~Runtime() = default;

base::Result<std::unique_ptr<sched::Engine>> Runtime::load(const msg::ModelSpec& wanted, const std::string& file,
                                                           base::SlabSource& slabs) {
  auto settings = session_options(wanted.parameters, parts_->options.session);
  if (!settings) return settings.error();
  std::lock_guard lock(parts_->mutex);
  if (auto s = parts_->open(); !s.ok()) return s;
  auto opened = ModelFile::open(file);
  if (!opened) return opened.error();
  auto session = parts_->session(*opened, file, *settings, wanted.name + "/" + wanted.version);
  if (!session) return session.error();
  auto spec = derive((*session)->signature(), wanted);
  if (!spec) return spec.error();
  if (auto why = unbatched((*session)->signature(), wanted); !why.empty())
    base::log::info("model is not batched", {{"model", wanted.name}, {"reason", why}});
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
