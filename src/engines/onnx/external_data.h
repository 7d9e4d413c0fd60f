// ExternalData: files beside a model file that hold tensors of it. Exporters write them because one protobuf message,
// and so one ONNX file, is less than 2 GiB.
//
// A tensor's `location` is a path relative to the model file's folder. It is opened here and given to ONNX Runtime as
// memory, so that the library opens no file itself: names stay inside that folder, pass through no symbolic link, and
// mean regular files. The files are mapped, and are not needed once the session is made. A file that is cut short while
// its model is being loaded ends the process, as with any mapped weights: write a new file and rename it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::onnx {

class ExternalData {
 public:
  // `model` is the path of the model file, or of its folder. `names`: locations, each once. Errors: INVALID_ARGUMENT
  // for a name that leaves the folder, and NOT_FOUND, FAILED_PRECONDITION; they name the file as the model does.
  static base::Result<ExternalData> open(const std::string& model, const std::vector<std::string>& names);
  ExternalData() = default;
  ExternalData(ExternalData&& other) noexcept = default;
  ~ExternalData();

  struct File {
    std::string name;
    char* data;  // null for an empty file
    size_t size;
  };
  const std::vector<File>& files() const { return files_; }
  // Changes when one of the files does; empty without files.
  const std::string& identity() const { return identity_; }

 private:
  std::vector<File> files_;
  std::string identity_;
};

// Whether a tensor's location may be opened: relative, without "..", without what libraries give a meaning of its own.
bool is_plain_location(std::string_view location);

}  // namespace weir::onnx
