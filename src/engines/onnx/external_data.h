// ExternalData: files beside a model file that hold tensors of it. Exporters write them because one protobuf message,
// and so one ONNX file, is less than 2 GiB.
//
// A tensor's `location` is a path relative to the model file's folder. It is opened here and given to ONNX Runtime as
// memory, so that the library opens no file itself: names stay inside that folder, pass through no symbolic link, and
// mean regular files. The files are mapped, and are not needed once the session is made. Of a file that is cut short,
// or cannot be read, while its model is being loaded the rest is zeros: intact() says so afterwards.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bus_error_guard.h"
#include "base/status.h"

namespace weir::onnx {

class ExternalData {
 public:
  // `model` is the path of the model file, or of its folder. `names`: locations, each once. Errors: INVALID_ARGUMENT
  // for a name that leaves the folder, and NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED; they name the file as
  // the model does.
  static base::Result<ExternalData> open(const std::string& model, const std::vector<std::string>& names);
  ExternalData() = default;
  ExternalData(ExternalData&& other) noexcept = default;
  ~ExternalData();

  struct File {
    std::string name;
    char* data;  // null for an empty file
    size_t size;
    std::unique_ptr<base::BusErrorGuard> guard;  // null for an empty file
  };
  const std::vector<File>& files() const { return files_; }
  // Once the session is made. Errors: UNAVAILABLE, naming a file that changed, or could not be read, meanwhile.
  base::Status intact() const;
  // Changes when one of the files does; empty without files.
  const std::string& identity() const { return identity_; }

 private:
  std::vector<File> files_;
  std::string identity_;
};

// Whether a tensor's location may be opened: relative, without "..", without what libraries give a meaning of its own.
bool is_plain_location(std::string_view location);

}  // namespace weir::onnx
