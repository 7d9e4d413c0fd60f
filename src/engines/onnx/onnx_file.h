// Reads a model file and looks it over before ONNX Runtime gets it.
//
// An ONNX file is a protobuf ModelProto (onnx.proto3). The walk visits what can hold a tensor, and nothing else:
//
//   ModelProto       graph=7, training_info=20, functions=25
//   TrainingInfo     initialization=1 (graph), algorithm=2 (graph)
//   FunctionProto    node=7, attribute_proto=11
//   GraphProto       node=1, initializer=5, sparse_initializer=15, input=11, output=12
//   NodeProto        attribute=5
//   AttributeProto   t=5, g=6, tensors=10, graphs=11, sparse_tensor=22, sparse_tensors=23
//   SparseTensor     values=1, indices=2
//   TensorProto      external_data=13 -> StringStringEntryProto key=1 value=2, data_location=14 (EXTERNAL = 1)
//   ValueInfoProto   name=1, type=2 -> TypeProto tensor_type=1 -> Tensor shape=2 -> TensorShapeProto dim=1
//   Dimension        dim_value=1
//
// External data is taken only in the initializers of the model's own graph: ONNX Runtime gets those files as memory
// (external_data.h). Elsewhere, in branches, attributes and sparse tensors, the library would open the file itself, and
// a model could name any file of this machine; there it is refused.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::onnx {

struct FileSummary {
  std::vector<std::string> unranked;  // inputs and outputs of the graph without a shape: their rank is unknown
  bool varying = false;               // an input has no shape, or an unknown dimension after its first
  bool free_first = false;            // an input's first dimension is unknown
  std::vector<std::string> external;  // locations of files that hold initializers, each once
};

inline constexpr size_t kMostExternal = 10'000;  // files of one model

// INVALID_ARGUMENT when the bytes are no ModelProto, cut short, nested too deeply, or refer to external data where that
// is refused.
base::Result<FileSummary> inspect(std::string_view file);

// The same for two openings of a file only if the bytes are the same: device, inode, size, times of change.
std::string identity_of(const struct stat& info);

// One opened model file. Only a regular file of at most 2 GiB (protobuf's limit) is opened; a pipe or device is not.
class ModelFile {
 public:
  // `path` is the file, or a folder that holds model.onnx. NOT_FOUND or INVALID_ARGUMENT, without the path.
  static base::Result<ModelFile> open(const std::string& path);
  ModelFile(ModelFile&& other) noexcept;
  ~ModelFile();

  const std::string& identity() const { return identity_; }
  // All of it. INVALID_ARGUMENT when it changes meanwhile.
  base::Result<std::string> read() const;

 private:
  ModelFile(int fd, size_t size, std::string identity);
  int fd_;
  size_t size_;
  std::string identity_;
};

}  // namespace weir::onnx
