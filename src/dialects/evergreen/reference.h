// References: chunks whose bytes are somewhere else. `file:` URIs name files below the configured folders; the kernel
// makes sure that none leads out of them (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). Other schemes are
// refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "dialects/evergreen/options.h"

namespace weir::evergreen {

// A file that is being read, a slice per turn of the loop. Destroying it ends the reading.
class FileLoad {
 public:
  using Done = std::function<void(FileLoad&, base::Result<base::Bytes>)>;

  // `done` is called once, later; the FileLoad may be destroyed from inside. Errors: PERMISSION_DENIED (a scheme that
  // is off), INVALID_ARGUMENT (no URI), NOT_FOUND (no such file below the folders), RESOURCE_EXHAUSTED (too large).
  static base::Result<std::unique_ptr<FileLoad>> open(base::Env& env, const References& references,
                                                      std::string_view uri, Done done);
  ~FileLoad();

  uint64_t size() const { return size_; }

  std::string node;
  int64_t seq = 0;

 private:
  FileLoad(base::Env& env, int fd, uint64_t size, Done done);
  void arm();
  void read_some();

  base::Env& env_;
  int fd_;
  base::Block block_;
  uint64_t size_;
  Done done_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::evergreen
