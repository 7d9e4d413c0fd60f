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
    (void)base::attempt("reading again", [&] {
      for (auto& done : asked) read_all(std::move(done));
      if (asked.empty() && certificates_.look() && read_certificates().ok())
        base::log::info("certificates were read again: their files have changed");
    });
    lock.lock();
  }
}

base::Status Reloader::read_certificates() {
  auto status = steps_.certificates();
  if (!status.ok()) base::log::error("certificates stay as they are", {{"reason", status.text}});
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

void Reloader::read_all(std::function<void()> done) {
  std::string read = read_settings() ? "log.level, log.format, " : "";
  certificates_.skip();
  if (!certificates_.empty() && read_certificates().ok()) read += "certificates, ";
  if (steps_.keys) steps_.keys(), read += "keys, ";
  steps_.models([read = read + "models", done = std::move(done)] {
    base::log::info("reloaded", {{"read", read}});
    done();
  });
}

}  // namespace weir::app
