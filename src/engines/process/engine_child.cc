#include "engines/process/engine_child.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/units.h"
#include "engines/process/document.h"
#include "engines/process/protocol.h"
#include "engines/process/received.h"
#include "engines/process/region.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;

// The server is gone, or says what this process cannot understand: nobody waits for an answer.
[[noreturn]] void leave() { ::_exit(1); }

// A region as it is mapped here, for as long as anything in it is used.
struct Mapping {
  Mapping(int fd, size_t bytes) : size(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) leave();
    data = static_cast<std::byte*>(at);
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() { ::munmap(data, size); }
  bool has(const std::byte* at) const { return at >= data && at < data + size; }

  std::byte* data = nullptr;
  size_t size;
};

// Memory of a region as a slab.
struct RegionSlab : base::Slab {
  RegionSlab(std::shared_ptr<Mapping> in, std::byte* at, size_t bytes)
      : Slab(at, bytes, [](Slab* slab) { delete static_cast<RegionSlab*>(slab); }), mapping(std::move(in)) {}
  std::shared_ptr<Mapping> mapping;
};

// Makes slabs in the output region, one behind the other; beyond its end, on the heap.
class OutputSlabs final : public base::SlabSource {
 public:
  // From the region's beginning again, unless a slab of it is still in use. `of`: who else holds the mapping.
  void begin(const std::shared_ptr<Mapping>& of) {
    const bool same = mapping_ == of, unused = of.use_count() == 2;
    mapping_ = of;
    if (!same || unused) used_ = 0;
  }
  base::Slab* take(size_t bytes) override {
    if (bytes == 0 || bytes > mapping_->size - used_) return base::heap_slab(bytes);
    auto* slab = new RegionSlab(mapping_, mapping_->data + used_, bytes);
    used_ = std::min<uint64_t>(aligned(used_ + bytes), mapping_->size);
    return slab;
  }
  uint64_t used() const { return used_; }

 private:
  std::shared_ptr<Mapping> mapping_;
  uint64_t used_ = 0;
};

class EngineChild {
 public:
  int run(const LoadEngine& load);

 private:
  Message receive();
  static void send(const Message& message);
  Message put(Type type, uint64_t number, const std::string& document, uint64_t at) const;
  base::Result<std::string> load_model(const Message& message, const LoadEngine& load);
  base::Result<std::string> guarded_load(const Message& message, const LoadEngine& load);
  void run_batch(const Message& message);
  void read_request(const Message& message, base::Slab& inputs);
  Status step();
  Message answer(const Message& message, Status status);
  std::string lay_out(uint64_t call, const Status& status, uint64_t& end) const;
  bool make_room(uint64_t bytes);

  std::shared_ptr<Mapping> input_, output_;
  OutputSlabs slabs_;
  std::unique_ptr<sched::Engine> engine_;
  uint64_t most_answer_ = base::parse_size(kMostAnswer).value();

  // One batch's.
  msg::Call call_;
  uint64_t number_ = 0;  // of its request
  sched::Batch batch_;
};

// Takes regions on the way.
Message EngineChild::receive() {
  for (;;) {
    const auto received = receive_message(kSocketFd);
    if (!received) leave();
    const Message& message = received->message;
    if (received->region < 0) return message;
    (message.type == Type::kInputRegion ? input_ : output_) = std::make_shared<Mapping>(received->region, message.size);
    ::close(received->region);
    if (message.type == Type::kOutputRegion) return message;
  }
}

void EngineChild::send(const Message& message) {
  if (::send(kSocketFd, &message, sizeof message, MSG_NOSIGNAL) != ssize_t(sizeof message)) leave();
}

Message EngineChild::put(Type type, uint64_t number, const std::string& document, uint64_t at) const {
  std::memcpy(output_->data + at, document.data(), document.size());
  return {.type = type, .number = number, .offset = at, .size = document.size()};
}

base::Result<std::string> EngineChild::load_model(const Message& message, const LoadEngine& load) {
  DocumentReader in({reinterpret_cast<const char*>(input_->data) + message.offset, message.size});
  if (in.get<uint32_t>() != kProtocol) return failure(Code::kInternal, "the server speaks another protocol");
  msg::ModelSpec wanted;
  wanted.name = in.get_string(), wanted.version = in.get_string();
  const std::string file = in.get_string();
  (void)in.get_string();  // the instance
  wanted.max_batch = in.get<uint32_t>();
  wanted.decoupled = in.get<uint8_t>() != 0, wanted.batching.dynamic = in.get<uint8_t>() != 0;
  for (uint32_t n = in.count(8); n > 0; --n) {
    std::string name = in.get_string();
    wanted.parameters[std::move(name)] = in.get_string();
  }
  wanted.inputs = in.get_specs(), wanted.outputs = in.get_specs();
  if (!in.at_end()) return failure(Code::kInternal, "the model's description has no such form");
  // The server has read it, too.
  if (auto most = wanted.parameters.find("process_answer"); most != wanted.parameters.end())
    most_answer_ = base::parse_size(most->second).value();
  auto engine = load(wanted, file, slabs_);
  if (!engine) return std::move(engine).error();
  engine_ = std::move(*engine);
  const auto& spec = engine_->spec();
  Writer ready;
  ready.put(spec.max_batch);
  ready.put(uint8_t(0));
  ready.put(uint8_t(spec.batching.dynamic));
  ready.put_specs(spec.inputs), ready.put_specs(spec.outputs);
  return ready.text();
}

base::Result<std::string> EngineChild::guarded_load(const Message& message, const LoadEngine& load) {
  try {
    return load_model(message, load);
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "there is not enough memory to load it (process_memory)");
  } catch (const std::exception& e) {
    return failure(Code::kInternal, std::string("loading failed: ") + e.what());
  }
}

// The one request of a batch. Its tensors refer to `inputs`, the whole of the region.
void EngineChild::read_request(const Message& message, base::Slab& inputs) {
  DocumentReader in({reinterpret_cast<const char*>(input_->data) + message.offset, message.size});
  if (in.count(8) != 1) leave();
  number_ = in.get<uint64_t>();
  call_.id = in.get_string();
  call_.rows = batch_.rows = in.get<uint32_t>();
  call_.queue_timeout = std::chrono::microseconds(in.get<uint64_t>());
  call_.parameters = in.get_parameters();
  const auto& spec = engine_->spec();
  batch_.wanted.clear();
  if (uint32_t n = in.count(4); n > 0) {
    batch_.wanted.assign(spec.outputs.size(), false);
    for (; n > 0; --n)
      if (const auto* output = spec.output(in.get_string())) batch_.wanted[size_t(output - spec.outputs.data())] = true;
  }
  batch_.inputs.assign(spec.inputs.size(), {});
  for (uint32_t n = in.count(4); n > 0; --n) {
    auto tensor = get_tensor(in);
    const auto* input = spec.input(tensor.name);
    if (!in.ok() || !input || tensor.offset > input_->size || tensor.size > input_->size - tensor.offset) leave();
    base::retain(&inputs);
    batch_.inputs[size_t(input - spec.inputs.data())] = {
        std::move(tensor.name), tensor.dtype, tensor.shape,
        base::Bytes(&inputs, input_->data + tensor.offset, tensor.size)};
  }
  if (!in.at_end()) leave();
  call_.inputs = batch_.inputs;
}

// As a lane guards its engine.
Status EngineChild::step() {
  try {
    return engine_->step(batch_);
  } catch (const std::bad_alloc&) {
    return base::try_again(Code::kResourceExhausted,
                           "not enough memory to run model '" + engine_->spec().name + "' (process_memory)");
  } catch (const std::exception& e) {
    return failure(Code::kInternal, "model '" + engine_->spec().name + "' failed: " + e.what());
  }
}

void EngineChild::run_batch(const Message& message) {
  auto* inputs = new RegionSlab(input_, input_->data, input_->size);
  read_request(message, *inputs);
  slabs_.begin(output_);
  batch_.calls.assign(1, &call_);
  batch_.outputs.clear(), batch_.answers.clear(), batch_.failures.clear();
  Status status = step();
  batch_.inputs.clear(), call_.inputs.clear();
  if (status.ok() && !batch_.failures.empty()) status = std::move(batch_.failures.front());
  Message answered = answer(message, std::move(status));
  batch_.outputs.clear();
  if (inputs->refs.load(std::memory_order_acquire) > 1) answered.flags |= kKept;
  base::drop(inputs);
  send(answered);
}

// The document of the answer; `end`: where it goes, behind the outputs. Those that are not in the region yet get their
// places behind those that are.
std::string EngineChild::lay_out(uint64_t call, const Status& status, uint64_t& end) const {
  Writer out;
  out.put(uint32_t(1));
  out.put(call);
  out.put(uint8_t(status.ok() ? AnswerKind::kTensors : AnswerKind::kError));
  if (!status.ok()) {
    out.put(uint32_t(status.code));
    out.put_string(status.text);
    return out.text();
  }
  out.put_parameters({});
  out.put(uint32_t(std::count_if(batch_.outputs.begin(), batch_.outputs.end(),
                                 [](const auto& t) { return t.dtype != msg::DType::kInvalid; })));
  for (const auto& tensor : batch_.outputs) {
    if (tensor.dtype == msg::DType::kInvalid) continue;
    const bool there = output_->has(tensor.data.data());
    put_tensor(out, {tensor.name, tensor.dtype, tensor.shape,
                     there ? uint64_t(tensor.data.data() - output_->data) : end, tensor.data.size()});
    if (!there) end = aligned(end + tensor.data.size());
  }
  return out.text();
}

bool EngineChild::make_room(uint64_t bytes) {
  if (bytes <= output_->size) return true;
  if (bytes > most_answer_) return false;
  send({.type = Type::kGrow, .size = bytes});
  for (;;) {
    const Type type = receive().type;
    if (type == Type::kOutputRegion || type == Type::kNoRoom) return type == Type::kOutputRegion;
  }
}

Message EngineChild::answer(const Message& message, Status status) {
  uint64_t begin = slabs_.used(), end = begin;
  std::string document = lay_out(number_, status, end);
  if (end + document.size() > output_->size) {
    // In a larger region nothing lies yet: there is room for all, one behind the other.
    for (const auto& tensor : batch_.outputs) end += aligned(tensor.data.size());
    if (make_room(end + document.size())) {
      begin = end = 0;
    } else {
      const bool large = end + document.size() > most_answer_;  // else the server has no room, and says so itself
      status = failure(Code::kResourceExhausted,
                       "the answer of model '" + engine_->spec().name + "' is larger than " +
                           (large ? base::show_size(most_answer_) + " (process_answer)" : "there is memory for"));
      end = 0;
    }
    document = lay_out(number_, status, end);
  }
  uint64_t at = begin;
  for (const auto& tensor : batch_.outputs) {
    if (!status.ok() || tensor.dtype == msg::DType::kInvalid || output_->has(tensor.data.data())) continue;
    if (!tensor.data.empty()) std::memcpy(output_->data + at, tensor.data.data(), tensor.data.size());
    at = aligned(at + tensor.data.size());
  }
  return put(Type::kAnswers, message.number, document, end);
}

int EngineChild::run(const LoadEngine& load) {
  Message message = receive();
  while (message.type == Type::kOutputRegion) message = receive();
  if (message.type != Type::kLoad || !input_ || !output_) leave();
  slabs_.begin(output_);
  auto ready = guarded_load(message, load);
  constexpr size_t kMostText = 4096;
  const std::string document = ready ? *ready : ready.error().text.substr(0, kMostText);
  if (!make_room(slabs_.used() + document.size())) leave();
  send(put(ready ? Type::kReady : Type::kFailed, 0, document, slabs_.used()));
  if (!ready) return 1;
  for (;;) {
    message = receive();
    if (message.type == Type::kStop) return 0;
    if (message.type == Type::kRun) run_batch(message);
    if (message.type == Type::kOutputRegion) slabs_.begin(output_);  // the one before is used no more
  }
}

}  // namespace

int run_engine(const LoadEngine& load) { return EngineChild().run(load); }

}  // namespace weir::process
