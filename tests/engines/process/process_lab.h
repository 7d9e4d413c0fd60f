// A model in a child (child_program.cc), and whom it tells that it is broken.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engines/process/engine.h"

namespace weir::process {

using base::Code;
using base::Status;
using namespace std::chrono_literals;

inline msg::Tensor floats(const std::vector<float>& values, msg::Shape shape) {
  return {"x", msg::DType::kFp32, shape,
          base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)})};
}

inline float at(const msg::Tensor& tensor, size_t i) {
  float value;
  std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
  return value;
}

inline std::string text_of(const Status& status) { return std::string(base::name(status.code)) + ": " + status.text; }

// Stands in for the loader, which hears of a broken engine.
struct Broken {
  void operator()(Status status) {
    std::lock_guard lock(mutex);
    why.push_back(std::move(status));
    changed.notify_all();
  }
  std::vector<Status> wait() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 10s, [this] { return !why.empty(); });
    return why;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Status> why;
};

struct ProcessTest : testing::Test {
  base::Result<Loaded> load(const std::string& what, msg::ModelSpec wanted = {}) {
    wanted.name = "m", wanted.version = "1";
    wanted.parameters.emplace("command", CHILD_PROGRAM + (what.empty() ? "" : " " + what));
    wanted.parameters.emplace("process_timeout", "5s");
    Place place{base::heap(), [this](Status status) { broken(std::move(status)); }};
    place.find = find, place.loading = loading;
    return process::load(wanted, "", place);
  }
  std::unique_ptr<sched::Engine> engine(const std::string& what, msg::ModelSpec wanted = {}) {
    auto loaded = load(what, std::move(wanted));
    EXPECT_TRUE(loaded) << (loaded ? "" : text_of(loaded.error()));
    return loaded ? std::move(std::get<0>(*loaded)) : nullptr;
  }
  Status step(sched::Engine& engine, size_t calls_in_batch = 1) {
    batch = {};
    calls = std::vector<msg::Call>(calls_in_batch);
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].inputs = {floats({float(i), 10}, {1, 2})};
      batch.calls.push_back(&calls[i]);
    }
    batch.rows = uint32_t(calls.size());
    return engine.step(batch);
  }
  // The outcome of one call: "" where it is answered.
  std::string outcome(sched::Engine& engine) {
    Status status = step(engine);
    if (!status.ok()) return text_of(status);
    return batch.answers[0] ? "" : text_of(batch.answers[0].error());
  }

  FindModel find;
  std::function<bool()> loading;  // Place::loading
  Broken broken;
  sched::Batch batch;
  std::vector<msg::Call> calls;
};

}  // namespace weir::process
