// Repositories of models whose files say what they answer.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "any_repo.h"

namespace weir::models {

// Reads its "model": the text of model.onnx is the number that it answers; "broken" does not load.
class FakeEngine final : public sched::Engine {
 public:
  FakeEngine(const LoadArgs& args, std::string text) : text_(std::move(text)) {
    spec_.platform = "fake";
    spec_.max_batch = 64;
    spec_.inputs = {{"x", msg::DType::kUint8, {1}, false, {}}};
    spec_.outputs = {{"y", msg::DType::kUint8, {1}, false, {}}};
    spec_.parameters["instance"] = std::to_string(args.instance);
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override {
    msg::Tensor out{
        "y", msg::DType::kUint8, {int64_t(batch.rows), 1}, base::Bytes::copy_of(std::string(batch.rows, text_[0]))};
    batch.outputs.push_back(std::move(out));
    return {};
  }

 private:
  msg::ModelSpec spec_;
  std::string text_;
};

inline std::atomic<int> made{0};

inline base::Result<std::unique_ptr<sched::Engine>> make_fake(const LoadArgs& args) {
  std::string text;
  std::ifstream(args.file) >> text;
  if (text == "broken" || text == "version")  // the first word of a Git LFS pointer
    return base::invalid("cannot parse " + args.file);
  if (text == "throw") throw std::runtime_error("surprise");
  ++made;
  return std::unique_ptr<sched::Engine>(new FakeEngine(args, text));
}

inline std::mutex devices_mutex;
inline std::map<std::string, std::vector<std::string>> devices_of;  // instances of builtin models; under devices_mutex

inline base::Result<std::unique_ptr<sched::Engine>> make_builtin(const LoadArgs& args) {
  if (!args.file.empty()) return base::invalid("unexpected file");
  auto device = args.wanted.parameters.find("device");
  std::lock_guard lock(devices_mutex);
  devices_of[args.wanted.name].push_back(device == args.wanted.parameters.end() ? "" : device->second);
  return std::unique_ptr<sched::Engine>(new FakeEngine(args, "b"));
}

using Change = std::function<void(RepositoryOptions&)>;

inline RepositoryOptions options_with(const Change& change) {
  RepositoryOptions options;
  if (change) change(options);
  return options;
}

inline void explicitly(RepositoryOptions& options) { options.control = Control::kExplicit; }

class Repo : public AnyRepo {
 public:
  explicit Repo(test::Disk& disk, const Change& change = {})
      : AnyRepo(disk, {{"onnx", make_fake}, {"builtin", make_builtin}}, options_with(change)) {}
};

}  // namespace weir::models
