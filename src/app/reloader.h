// Reloader: what a running server reads again, by a thread of its own. On SIGHUP that is all that can be: settings
// (live_settings.h), certificates, keys, and the folders of models. Certificates are read when their files change, too:
// whoever renews them need not tell. Those that could not be read are tried again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/file_watch.h"
#include "app/live_settings.h"

namespace weir::app {

class Reloader {
 public:
  // All are called on the thread, and borrow what outlives it.
  struct Steps {
    std::function<base::Result<std::vector<std::string>>()> settings;  // LiveSettings::reload()
    std::function<base::Status()> certificates;
    std::function<base::Status()> keys;  // or null: there are none
    std::function<void(std::function<void()> done)> models;
  };
  // The server has just read the `certificates`. Throws std::system_error where there is no thread.
  Reloader(std::vector<std::string> certificates, Steps steps);
  ~Reloader() { stop(); }

  // Nothing is read from now on. Waits for what is being read; what `models` was given may be called later.
  void stop();

  // Reads everything again and says in the log what was read, and what needs a restart. `done` is called last, once
  // models are what is on disk, on the thread that says so; also where not everything could be read. Any thread.
  void reload(std::function<void()> done);

 private:
  void run();
  void read_all(const std::function<void()>& done);
  std::string read_files();
  void look_at_certificates();
  base::Status read_certificates(FileWatch::Seen why);
  bool read_settings();

  const Steps steps_;
  FileWatch certificates_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;                       // under mutex_
  std::vector<std::function<void()>> asked_;  // under mutex_
  std::thread thread_;
};

}  // namespace weir::app
