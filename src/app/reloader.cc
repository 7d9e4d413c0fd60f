#include "app/reloader.h"

#include <chrono>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"

namespace weir::app {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(2);

}  // namespace

Reloader::Reloader(std::vector<std::string> certificates, Steps steps)
    : steps_(std::move(steps)), certificates_(std::move(certificates)), thread_([this] { run(); }) {}

void Reloader::stop() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Reloader::reload(std::function<void()> done) {
  {
    std::lock_guard lock(mutex_);
    asked_.push_back(std::move(done));
  }
  changed_.notify_all();
}

void Reloader::run() {
  std::unique_lock lock(mutex_);
  auto wanted = [this] { return ending_ || !asked_.empty(); };
  while (!ending_) {
    if (certificates_.empty())
      changed_.wait(lock, wanted);
    else
      changed_.wait_for(lock, kLookEvery, wanted);
    if (ending_) return;
    auto asked = std::exchange(asked_, {});
    lock.unlock();
    for (const auto& done : asked) read_all(done);
    if (asked.empty()) (void)base::attempt("reading again", [this] { look_at_certificates(); });
    lock.lock();
  }
}

void Reloader::look_at_certificates() {
  const auto seen = certificates_.look();
  if (seen != FileWatch::Seen::kNothing && read_certificates(seen).ok())
    base::log::info("certificates were read again: their files have changed");
}

// The log has one line for each change. OpenSSL would wait at a pipe until somebody writes into it, and with it
// whatever is to be read later, and the end of the server.
base::Status Reloader::read_certificates(FileWatch::Seen why) {
  const std::string pipe = certificates_.waiting();
  auto status = pipe.empty() ? steps_.certificates() : base::invalid("'" + pipe + "' is not a regular file");
  if (status.ok())
    certificates_.took();
  else if (why == FileWatch::Seen::kChanged)
    base::log::error("certificates stay as they are", {{"reason", status.text}});
  return status;
}

// Returns whether they were read.
bool Reloader::read_settings() {
  auto others = steps_.settings();
  if (!others) {
    base::log::error("settings stay as they are", {{"reason", others.error().text}});
    return false;
  }
  std::string keys;
  for (const auto& key : *others) keys += (keys.empty() ? "" : ", ") + key;
  if (!keys.empty()) base::log::warning("settings have changed that need a restart", {{"settings", keys}});
  return true;
}

std::string Reloader::read_files() {
  std::string read = read_settings() ? "log.level, log.format, " : "";
  certificates_.skip();
  if (!certificates_.empty() && read_certificates(FileWatch::Seen::kChanged).ok()) read += "certificates, ";
  if (steps_.keys && steps_.keys().ok()) read += "keys, ";
  return read;
}

// Whoever waits for `done` would wait for good if something here threw. The models have it once that step is over.
void Reloader::read_all(const std::function<void()>& done) {
  std::string read;
  (void)base::attempt("reading again", [&] { read = read_files(); });
  const auto status = base::attempt("reading models again", [&] {
    steps_.models([read = read + "models", done] {
      base::log::info("reloaded", {{"read", read}});
      done();
    });
  });
  if (!status.ok()) done();
}

}  // namespace weir::app
