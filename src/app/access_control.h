// AccessControl: the keys of the configuration, kept up to date, and what clients without one may do.
//
// open() at start; then start() begins a thread that looks at auth.keys_file every second, and at all files of keys
// when reload() asks for it. A file that cannot be read or has a mistake in it changes nothing, and is logged.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "app/config.h"
#include "auth/authenticator.h"
#include "auth/keys.h"

namespace weir::app {

// The addresses of the configuration that other machines may be able to reach: those that are neither loopback nor
// unix sockets.
std::vector<std::string> reachable_addresses(const Config& config);

class AccessControl {
 public:
  explicit AccessControl(const Config& config) : config_(config) {}
  ~AccessControl();

  // Reads the keys, and decides what the others may do. Once, before the next three. Errors: INVALID_ARGUMENT with
  // file:line:column.
  base::Status open();
  // Null where everybody may do everything: then nobody is asked. Borrows this.
  std::unique_ptr<auth::Authenticator> make_authenticator(base::Env& env) const;
  wire::Roles anonymous() const { return anonymous_; }
  bool has_keys() const { return has_keys_; }

  void start();
  // Any thread, also a shard: the work is the thread's.
  void reload();

 private:
  using FileTime = std::pair<int64_t, uint64_t>;  // when it changed, in nanoseconds, and its size

  base::Result<std::vector<auth::Key>> read() const;
  FileTime file_time() const;
  wire::Roles decide() const;
  void watch();
  void read_again();

  const Config& config_;
  auth::Keys keys_;
  bool has_keys_ = false;  // some setting names keys
  wire::Roles anonymous_{wire::Role::kHealth, wire::Role::kMetrics, wire::Role::kInfer, wire::Role::kAdmin};
  FileTime read_at_{};  // of the file that was read last; the thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false, asked_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace weir::app
