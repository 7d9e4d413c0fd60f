// A child that runs an engine for tests: y = x + z, z is optional; "rows" is how many rows the step had, for each of
// them; "text" has one string a row. The model's parameter `what` says what else it does.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "engines/process/engine_child.h"

using namespace weir;

namespace {

msg::TensorSpec spec_of(const char* name, msg::DType dtype) {
  msg::TensorSpec spec;
  spec.name = name, spec.dtype = dtype, spec.shape = {-1};
  return spec;
}

void misbehave(const std::string& what) {
  if (what == "exit") ::_exit(3);
  if (what == "crash") {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler of its own
    ::raise(SIGSEGV);
  }
  if (what == "hang")
    for (;;) ::pause();
  if (what == "throw") throw std::runtime_error("an odd value");
  if (what == "memory") throw std::bad_alloc();
}

class Adding final : public sched::Engine {
 public:
  Adding(const msg::ModelSpec& wanted, base::SlabSource& slabs) : slabs_(slabs) {
    spec_.name = wanted.name, spec_.max_batch = 64;
    auto z = spec_of("z", msg::DType::kFp32);
    z.optional = true;
    spec_.inputs = {spec_of("x", msg::DType::kFp32), z};
    spec_.outputs = {spec_of("y", msg::DType::kFp32), spec_of("rows", msg::DType::kInt32),
                     spec_of("text", msg::DType::kBytes)};
    if (auto found = wanted.parameters.find("what"); found != wanted.parameters.end()) what_ = found->second;
  }

  const msg::ModelSpec& spec() const override { return spec_; }

  base::Status step(sched::Batch& batch) override {
    misbehave(what_);
    if (what_ == "refuse") return base::invalid("row 0 is odd");
    if (what_ == "keep" && !kept_.slab()) kept_ = batch.inputs[0].data;
    batch.outputs.assign(3, {});
    if (wants(batch, 0)) batch.outputs[0] = add(batch);
    if (wants(batch, 1)) batch.outputs[1] = rows(batch.rows);
    if (wants(batch, 2)) batch.outputs[2] = texts(batch.rows);
    return {};
  }

 private:
  static bool wants(const sched::Batch& batch, size_t output) { return batch.wanted.empty() || batch.wanted[output]; }

  // The first step's x is what "keep" answers with.
  msg::Tensor add(const sched::Batch& batch) {
    const auto& x = batch.inputs[0];
    const auto& z = batch.inputs[1];
    const auto& from = what_ == "keep" ? kept_ : x.data;
    const size_t n = from.size() / sizeof(float);
    base::Block block(what_ == "heap" ? base::heap_slab(from.size()) : slabs_.take(from.size()));
    block.resize(from.size());
    for (size_t i = 0; i < n; ++i) {
      float value, more = 1;
      std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
      if (z.dtype == msg::DType::kFp32) std::memcpy(&more, z.data.data() + i * sizeof more, sizeof more);
      value += more;
      std::memcpy(block.data() + i * sizeof value, &value, sizeof value);
    }
    return {"y", msg::DType::kFp32, x.shape, block.freeze()};
  }
  msg::Tensor rows(uint32_t n) {
    std::vector<int32_t> all(n, int32_t(n));
    return {"rows",
            msg::DType::kInt32,
            {int64_t(n), 1},
            base::Bytes::copy_of({reinterpret_cast<const char*>(all.data()), n * sizeof(int32_t)})};
  }
  msg::Tensor texts(uint32_t n) {
    std::string data;
    for (uint32_t i = 0; i < n; ++i) msg::append_string(data, "row " + std::to_string(i));
    return {"text", msg::DType::kBytes, {int64_t(n), 1}, base::Bytes::adopt(std::move(data))};
  }

  base::SlabSource& slabs_;
  msg::ModelSpec spec_;
  std::string what_;
  base::Bytes kept_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "";
  return process::run_engine([&](const msg::ModelSpec& wanted, const std::string& file,
                                 base::SlabSource& slabs) -> base::Result<std::unique_ptr<sched::Engine>> {
    if (engine != "adding") return base::invalid("no engine '" + engine + "'");
    if (file == "throw") throw std::runtime_error("an odd file");
    if (!file.empty()) return base::invalid("no file " + file);
    return std::unique_ptr<sched::Engine>(std::make_unique<Adding>(wanted, slabs));
  });
}
