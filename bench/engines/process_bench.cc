// Measures the hop to a model's process and back: one step of one call, beside a bare round trip of as many bytes over
// a socket pair between two processes, which no way of asking another process over a socket beats.
//
//   build/bench/engines/process_bench                          a child that copies its input (this program)
//   build/bench/engines/process_bench isolated                 an engine of the server's own, in a child and here
//   build/bench/engines/process_bench tests/data/python/completed/1/model.py [INTERPRETER]
//
// They take turns in short rounds; medians of the rounds are told, in microseconds of elapsed time.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/log.h"
#include "engines/process/document.h"
#include "engines/process/engine.h"
#include "engines/process/engine_child.h"
#include "engines/process/protocol.h"
#include "engines/process/received.h"

namespace {

using namespace weir;
using process::Message;
using process::Type;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 31, kSteps = 300;

double microseconds(Clock::duration d, int n) { return std::chrono::duration<double, std::micro>(d).count() / n; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The child: y is a copy of x.
[[noreturn]] void be_child() {
  char *input = nullptr, *output = nullptr;
  for (;;) {
    const auto received = process::receive_message(process::kSocketFd);
    if (!received || received->message.type == Type::kStop) ::_exit(0);
    const Message& message = received->message;
    process::Writer out;
    if (received->region >= 0) {
      void* data = ::mmap(nullptr, message.size, PROT_READ | PROT_WRITE, MAP_SHARED, received->region, 0);
      (message.type == Type::kInputRegion ? input : output) = static_cast<char*>(data);
      ::close(received->region);
      continue;
    }
    Type answer = Type::kReady;
    if (message.type == Type::kLoad) {
      msg::TensorSpec x, y;
      x.name = "x", y.name = "y", x.dtype = y.dtype = msg::DType::kInt32, x.shape = y.shape = {-1};
      out.put(uint32_t(0)), out.put(uint8_t(0)), out.put(uint8_t(0)), out.put_specs({x}), out.put_specs({y});
    } else {
      answer = Type::kAnswers;
      process::DocumentReader in(std::string_view(input + message.offset, message.size));
      (void)in.get<uint32_t>(), (void)in.get<uint64_t>(), (void)in.get_string(), (void)in.get<uint32_t>();
      (void)in.get<uint64_t>(), (void)in.get_parameters(), (void)in.get<uint32_t>(), (void)in.get<uint32_t>();
      auto tensor = process::get_tensor(in);
      std::memcpy(output, input + tensor.offset, tensor.size);
      tensor.name = "y", tensor.offset = 0;
      out.put(uint32_t(1)), out.put(uint64_t(0)), out.put(uint8_t(process::AnswerKind::kTensors)), out.put(uint32_t(0));
      out.put(uint32_t(1)), process::put_tensor(out, tensor);
    }
    const size_t at = size_t(4) << 10;
    std::memcpy(output + at, out.text().data(), out.text().size());
    const Message back{.type = answer, .number = message.number, .offset = at, .size = out.text().size()};
    (void)!::send(process::kSocketFd, &back, sizeof back, 0);
  }
}

// y is a copy of x.
class Copying final : public sched::Engine {
 public:
  explicit Copying(base::SlabSource& slabs) : slabs_(slabs) {
    msg::TensorSpec x, y;
    x.name = "x", y.name = "y", x.dtype = y.dtype = msg::DType::kInt32, x.shape = y.shape = {-1};
    spec_.inputs = {x}, spec_.outputs = {y}, spec_.name = "m";
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override {
    const auto& x = batch.calls.empty() || !batch.inputs.empty() ? batch.inputs[0] : batch.calls[0]->inputs[0];
    base::Block block(slabs_.take(x.data.size()));
    block.append(x.data.data(), x.data.size());
    batch.outputs.assign(1, {"y", x.dtype, x.shape, block.freeze()});
    return {};
  }

 private:
  base::SlabSource& slabs_;
  msg::ModelSpec spec_;
};

struct Bare {
  Bare() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) std::exit(1);
    if (::fork() == 0) {
      ::close(pair[0]);
      Message message;
      while (::recv(pair[1], &message, sizeof message, 0) > 0) (void)!::send(pair[1], &message, sizeof message, 0);
      ::_exit(0);
    }
    ::close(pair[1]);
    fd = pair[0];
  }
  double round() const {
    Message message;
    const auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i)
      if (::send(fd, &message, sizeof message, 0) < 0 || ::recv(fd, &message, sizeof message, 0) < 0) std::exit(1);
    return microseconds(Clock::now() - start, kSteps);
  }
  int fd = -1;
};

double step(sched::Engine& engine, sched::Batch& batch) {
  const auto start = Clock::now();
  for (int i = 0; i < kSteps; ++i) {
    batch.answers.clear();
    batch.outputs.clear();
    auto status = engine.step(batch);
    if (status.ok() && !batch.answers.empty() && !batch.answers[0]) status = batch.answers[0].error();
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.text.c_str());
    std::exit(1);
  }
  return microseconds(Clock::now() - start, kSteps);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "child") be_child();
  if (what == "engine-child")
    return process::run_engine([](const auto&, const auto&, base::SlabSource& slabs) {
      return base::Result<std::unique_ptr<sched::Engine>>(std::make_unique<Copying>(slabs));
    });
  Bare bare;
  msg::ModelSpec wanted;
  wanted.name = "m", wanted.version = "1";
  wanted.parameters["command"] = "/proc/self/exe child";
  process::Place place{base::heap(), {}, 0, {true, argc > 2 ? argv[2] : "python3", {"/proc/self/exe", "engine-child"}}};
  auto loaded = [&]() -> base::Result<process::Loaded> {
    if (what.empty()) return process::load(wanted, "", place);
    if (what != "isolated") return process::load_python(wanted, what, place);
    auto isolated = process::load_isolated(wanted, "", place);
    if (!isolated) return isolated.error();
    return process::Loaded(std::move(*isolated));
  }();
  if (!loaded) return std::fprintf(stderr, "%s\n", loaded.error().text.c_str()), 1;
  auto& engine = *std::get<0>(*loaded);
  Copying here(base::heap());
  msg::Call call;
  for (const auto& input : engine.spec().inputs)
    call.inputs.push_back({input.name, msg::DType::kInt32,
                           engine.spec().max_batch > 0 ? msg::Shape{1, 64} : msg::Shape{64},
                           base::Bytes::copy_of(std::string(256, '\0'))});
  sched::Batch batch;
  batch.calls = {&call}, batch.rows = 1;
  std::vector<double> bares, steps, inside;
  for (int round = 0; round < kRounds; ++round) {
    bares.push_back(bare.round()), steps.push_back(step(engine, batch));
    if (what == "isolated") inside.push_back(step(here, batch));
  }
  std::printf("a bare round trip %.1f us, a step %.1f us: %.1f us more\n", median(bares), median(steps),
              median(steps) - median(bares));
  if (!inside.empty()) std::printf("the same engine in this process %.2f us\n", median(inside));
}
