#include "engines/onnx/runtime.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "engines/onnx/engine.h"
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

  base::Result<SharedSession> session(const ModelFile& file, const SessionOptions& settings, const std::string& id) {
    std::erase_if(sessions, [](const auto& entry) { return entry.second.expired(); });
    std::string key = file.identity() + settings.text();
    if (auto it = sessions.find(key); it != sessions.end())
      if (SharedSession alive = it->second.lock()) return alive;
    auto bytes = file.read();
    if (!bytes) return bytes.error();
    auto made = Session::make(library, settings, *bytes, id);
    if (made) sessions[key] = *made;
    return made;
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
  auto session = parts_->session(*opened, *settings, wanted.name + "/" + wanted.version);
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
