// AccessControl: the keys of the configuration, kept up to date, and what clients without one may do.
//
// open() at start; then start() begins a thread that looks at auth.keys_file and auth.jwt.keys_file every second, and
// reads all files of keys when reload() asks for it. A file that has changed is read once it was the same at two looks:
// the first half of a list of keys is a list, too. One that cannot be read or has a mistake in it changes nothing, is
// logged, and is tried again at each look.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "app/config.h"
#include "app/file_watch.h"
#include "auth/authenticator.h"
#include "auth/failure_limit.h"
#include "auth/keys.h"
#include "auth/token_keys.h"
#include "base/text_file.h"

namespace weir::app {

// Those of the addresses that other machines may be able to reach: they are neither loopback nor unix sockets.
std::vector<std::string> reachable_addresses(const std::vector<std::string>& addresses);
// The addresses at which admin methods are served: admin.listen, or listen where that is empty.
const std::vector<std::string>& admin_addresses(const Config& config);

class AccessControl {
 public:
  explicit AccessControl(const Config& config) : config_(config) {}
  ~AccessControl();

  // Reads the keys, and decides what the others may do. Once, before the next three. Errors: INVALID_ARGUMENT with
  // file:line:column.
  base::Status open();
  // Null where everybody may do everything: then nobody is asked. Borrows this, and the sources of one shard; their
  // keys are this one's.
  std::unique_ptr<auth::Authenticator> make_authenticator(base::Env& env, auth::Authenticator::Sources sources) const;
  // The keys that tokens are signed with: those of auth.jwt.keys_file, or what a shard loads (app/shard_access.h).
  auth::TokenKeys& token_keys() { return token_keys_; }
  // The limits of tokens and certificates, over all shards.
  auth::Limiters& limiters() { return limiters_; }
  // The limit of what wrong tokens may cost, over all shards.
  auth::FailureLimit& failures() { return failures_; }
  // `again` is called for every reload(), on the thread; null: nothing is. Once this returns, the one from before is
  // not called any more. Any thread.
  void on_reload(std::function<void()> again) {
    std::lock_guard lock(mutex_);
    on_reload_ = std::move(again);
  }
  // `outcome` is called on the thread with every file of keys that was read again, and how that went. Before start().
  using OnRead = std::function<void(const std::string& file, const base::Status& outcome)>;
  void on_read(OnRead outcome) { on_read_ = std::move(outcome); }
  const AuthConfig& config() const { return config_.auth; }
  wire::Roles anonymous() const { return anonymous_; }
  bool has_keys() const { return has_keys_; }
  // There are files of keys, or an address of them, to read again.
  bool reads_files() const { return has_keys_ || config_.auth.jwt.on(); }

  void start();
  // One look at the files, as the thread takes it.
  void look();
  // Waits until the thread has read the files again. Errors: of the first file that could not be read, which has
  // changed nothing; UNAVAILABLE where there is no thread any more. No shard calls this.
  base::Status reload();

 private:
  base::Status open_tokens();
  base::Result<std::vector<auth::Key>> read(base::Pipes pipes);
  base::Result<dialects::OwnKeys> read_own(const dialects::Dialect& dialect, base::Pipes pipes);
  base::Status make_cluster_key();
  wire::Roles decide() const;
  bool observed_elsewhere() const;
  void watch();
  base::Status read_all();
  base::Status read_again(FileWatch::Seen why);
  base::Status read_tokens_again(FileWatch::Seen why);
  void report(const std::string& file, const base::Status& outcome) const {
    if (on_read_) on_read_(file, outcome);
  }

  const Config& config_;
  auth::Keys keys_;
  bool has_keys_ = false;  // some setting names keys
  wire::Roles anonymous_{wire::Role::kHealth, wire::Role::kMetrics, wire::Role::kInfer, wire::Role::kAdmin};
  // As last read, since a pipe is read once: those of the file of keys, and the protocols' own by dialect.
  std::vector<auth::Key> listed_;
  bool listed_piped_ = false;  // at the start; a pipe that takes the place of a file later is a mistake
  std::map<std::string_view, dialects::OwnKeys> own_keys_;
  std::optional<auth::Key> cluster_key_;         // of the calls of other nodes
  FileWatch keys_watch_{{}}, tokens_watch_{{}};  // the thread's
  auth::TokenKeys token_keys_;
  auth::Limiters limiters_;
  auth::FailureLimit failures_{base::process_key()};
  OnRead on_read_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;                // under mutex_
  uint64_t asked_ = 0, answered_ = 0;  // reload()s; under mutex_
  base::Status outcome_;               // of the last that was answered; under mutex_
  std::function<void()> on_reload_;    // under mutex_
  std::thread thread_;
};

}  // namespace weir::app
