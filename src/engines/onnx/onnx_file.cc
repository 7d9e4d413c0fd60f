#include "engines/onnx/onnx_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>
#include <utility>

namespace weir::onnx {
namespace {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of kBytes
};

// One message's fields in turn.
class MessageFields {
 public:
  explicit MessageFields(std::string_view message) : rest_(message) {}

  bool bad() const { return bad_; }
  // False at the end, and at the first byte that cannot be a field (then bad()).
  bool next(Field& field) {
    if (rest_.empty() || bad_) return false;
    bad_ = !take(field);
    return !bad_;
  }

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) return false;
      auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (shift < 64) out |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return true;
    }
    return false;
  }
  bool bytes(uint64_t n, std::string_view& out) {
    if (n > rest_.size()) return false;
    out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return true;
  }
  bool take(Field& field) {
    uint64_t key, length;
    if (!varint(key) || key > UINT32_MAX || key >> 3 == 0) return false;
    field = {uint32_t(key >> 3), Wire(key & 7), 0, {}};
    switch (field.wire) {
      case Wire::kVarint: return varint(field.value);
      case Wire::kFixed64: return bytes(8, field.bytes);
      case Wire::kFixed32: return bytes(4, field.bytes);
      case Wire::kBytes: return varint(length) && bytes(length, field.bytes);
    }
    return false;  // groups, which protobuf's third version has no more
  }

  std::string_view rest_;
  bool bad_ = false;
};

class Walk {
 public:
  base::Result<FileSummary> model(std::string_view message) {
    bool graph_seen = false;
    each(message, [&](const Field& f) {
      if (f.number == 7) graph_seen = true, graph(f.bytes, 0);
      if (f.number == 20) training(f.bytes);
      if (f.number == 25) function(f.bytes);
    });
    if (status_.ok() && !graph_seen) refuse("the model file is no ONNX model: it has no graph");
    if (!status_.ok()) return status_;
    return std::move(summary_);
  }

 private:
  static constexpr int kDeepest = 32;  // graphs within graphs; each level walks its bytes once more

  void refuse(const char* why) {
    if (status_.ok()) status_ = base::invalid(why);
  }

  // Calls `visit` for each field that is a message or bytes, or a varint (then `bytes` is empty).
  template <class F>
  void each(std::string_view message, F&& visit) {
    MessageFields fields(message);
    Field field;
    while (status_.ok() && fields.next(field)) visit(field);
    if (fields.bad()) refuse("the model file is damaged or cut short: it is no valid ONNX file");
  }

  void training(std::string_view message) {
    each(message, [&](const Field& f) {
      if (f.number == 1 || f.number == 2) graph(f.bytes, 1);
    });
  }
  void function(std::string_view message) {
    each(message, [&](const Field& f) {
      if (f.number == 7) node(f.bytes, 0);
      if (f.number == 11) attribute(f.bytes, 0);
    });
  }
  void graph(std::string_view message, int depth) {
    if (depth > kDeepest) return refuse("the model's graphs are nested too deeply");
    each(message, [&](const Field& f) {
      if (f.number == 1) node(f.bytes, depth);
      if (f.number == 5) initializer(f.bytes, depth);
      if (f.number == 15) sparse(f.bytes);
      if (depth == 0 && (f.number == 11 || f.number == 12)) value(f.bytes, f.number == 11);
    });
  }
  void node(std::string_view message, int depth) {
    each(message, [&](const Field& f) {
      if (f.number == 5) attribute(f.bytes, depth);
    });
  }
  void attribute(std::string_view message, int depth) {
    each(message, [&](const Field& f) {
      if (f.number == 5 || f.number == 10) tensor(f.bytes);
      if (f.number == 6 || f.number == 11) graph(f.bytes, depth + 1);
      if (f.number == 22 || f.number == 23) sparse(f.bytes);
    });
  }
  void sparse(std::string_view message) {
    each(message, [&](const Field& f) {
      if (f.number == 1 || f.number == 2) tensor(f.bytes);
    });
  }
  // Returns the file that the tensor's bytes are in; empty data() where they are in the message.
  std::string_view location_of(std::string_view message) {
    std::string_view location;
    bool external = false;
    each(message, [&](const Field& f) {
      if (f.number == 14) external = f.wire != Wire::kVarint || f.value != 0;
      if (f.number == 13) entry(f.bytes, location);
    });
    if (!external) return {};
    return location.data() ? location : std::string_view("");
  }
  void entry(std::string_view message, std::string_view& location) {
    std::string_view key, value("");
    each(message, [&](const Field& f) {
      if (f.number == 1) key = f.bytes;
      if (f.number == 2) value = f.bytes;
    });
    if (key == "location") location = value;
  }
  void initializer(std::string_view message, int depth) {
    if (depth > 0) return tensor(message);
    const std::string_view location = location_of(message);
    if (!location.data() || !seen_.insert(location).second) return;
    if (location.empty()) return refuse("the model keeps a tensor in another file, and does not say in which");
    if (summary_.external.size() == kMostExternal) return refuse("the model keeps tensors in more than 10000 files");
    summary_.external.emplace_back(location);
  }
  void tensor(std::string_view message) {
    if (location_of(message).data())
      refuse(
          "the model keeps tensors of a branch, an attribute or a sparse tensor in other files (external data); only "
          "those of its graph's initializers are read");
  }
  void value(std::string_view message, bool input) {
    std::string_view name;
    bool ranked = false;
    each(message, [&](const Field& f) {
      if (f.number == 1) name = f.bytes;
      if (f.number == 2) ranked = type(f.bytes, input) || ranked;
    });
    if (ranked) return;
    summary_.unranked.emplace_back(name);
    summary_.varying = summary_.varying || input;
  }
  // Whether there is a shape.
  bool type(std::string_view message, bool input) {
    bool ranked = false;
    each(message, [&](const Field& f) {
      if (f.number != 1) return;
      each(f.bytes, [&](const Field& g) {
        if (g.number == 2) ranked = true, shape(g.bytes, input);
      });
    });
    return ranked;
  }
  void shape(std::string_view message, bool input) {
    size_t i = 0;
    each(message, [&](const Field& f) {
      if (f.number != 1) return;
      bool known = false;
      each(f.bytes, [&](const Field& g) { known = known || g.number == 1; });
      if (input && !known) (i > 0 ? summary_.varying : summary_.free_first) = true;
      ++i;
    });
  }

  base::Status status_;
  FileSummary summary_;
  std::unordered_set<std::string_view> seen_;  // of summary_.external
};

constexpr off_t kLargest = off_t(1) << 31;

}  // namespace

std::string identity_of(const struct stat& info) {
  std::string out;
  for (int64_t part : {int64_t(info.st_dev), int64_t(info.st_ino), int64_t(info.st_size), int64_t(info.st_mtim.tv_sec),
                       int64_t(info.st_mtim.tv_nsec), int64_t(info.st_ctim.tv_sec), int64_t(info.st_ctim.tv_nsec)})
    out += std::to_string(part) + ':';
  return out;
}

base::Result<FileSummary> inspect(std::string_view file) {
  if (file.empty()) return base::invalid("the model file is empty");
  return Walk().model(file);
}

ModelFile::ModelFile(int fd, size_t size, std::string identity)
    : fd_(fd), size_(size), identity_(std::move(identity)) {}
ModelFile::ModelFile(ModelFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), identity_(std::move(other.identity_)) {}
ModelFile::~ModelFile() {
  if (fd_ >= 0) close(fd_);
}

base::Result<ModelFile> ModelFile::open(const std::string& path) {
  struct stat info;
  std::string file = path;
  if (stat(file.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) file += "/model.onnx";
  // Without O_NONBLOCK the opening of a pipe would wait for its writer.
  int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == EACCES) return base::failure(base::Code::kPermissionDenied, "the model file is not readable");
  if (fd < 0) return base::failure(base::Code::kNotFound, "the model file (model.onnx) is missing");
  ModelFile opened(fd, 0, {});
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return base::invalid("the model file is no regular file");
  if (info.st_size >= kLargest) return base::invalid("the model file is too large: an ONNX file is less than 2 GiB");
  opened.size_ = size_t(info.st_size);
  opened.identity_ = identity_of(info);
  return opened;
}

base::Result<std::string> ModelFile::read() const {
  std::string out(size_, '\0');
  for (size_t at = 0; at < size_;) {
    ssize_t n = pread(fd_, out.data() + at, size_ - at, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return base::invalid("the model file could not be read whole; is it being written?");
    at += size_t(n);
  }
  struct stat now;
  if (fstat(fd_, &now) != 0 || identity_of(now) != identity_)
    return base::invalid("the model file changed while it was read; is it being written?");
  return out;
}

}  // namespace weir::onnx
