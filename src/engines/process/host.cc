#include "engines/process/host.h"

#include <algorithm>
#include <cstring>

#include "base/attempt.h"
#include "base/memory_ledger.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostDocument = 16 << 20, kLeastAnswer = 8 + 1, kLeastTensor = 4 + 1 + 4 + 8 + 8;
constexpr auto kStopPatience = std::chrono::seconds(3);

void put_model(Writer& out, const msg::ModelSpec& spec, const HostOptions& options) {
  out.put(kProtocol);
  out.put_string(spec.name);
  out.put_string(spec.version);
  out.put_string(options.file);
  out.put_string(spec.name + "_0_" + std::to_string(options.instance));
  out.put(spec.max_batch);
  out.put(uint8_t(spec.decoupled));
  out.put(uint8_t(spec.batching.dynamic));
  out.put(uint32_t(spec.parameters.size()));
  for (const auto& [name, value] : spec.parameters) out.put_string(name), out.put_string(value);
  out.put_specs(spec.inputs);
  out.put_specs(spec.outputs);
}

// An input of several parts, whose rows lie one after the other.
TensorPlace place_input(const Request& request, size_t first, uint64_t at) {
  const auto& input = *request.inputs[first];
  TensorPlace place{input.name, input.dtype, input.shape, at, input.data.size()};
  for (size_t i = first + 1; i < first + request.parts; ++i) {
    place.shape[0] += request.inputs[i]->shape[0];
    place.size += request.inputs[i]->data.size();
  }
  return place;
}

bool adds_up(const TensorPlace& tensor) {
  const auto elements = tensor.shape.elements();
  if (!elements || tensor.dtype == msg::DType::kInvalid) return false;
  if (tensor.dtype == msg::DType::kBytes) return true;  // its strings are counted when they have been copied
  uint64_t size = 0;
  return !__builtin_mul_overflow(*elements, uint64_t(msg::size_of(tensor.dtype)), &size) && size == tensor.size;
}

// The tensor is one of the outputs that the model has.
Status check_shape(const msg::ModelSpec& model, const msg::Tensor& tensor) {
  const auto* spec = model.output(tensor.name);
  const msg::Shape wanted = model.public_shape(*spec);
  bool fits = wanted.rank() == tensor.shape.rank();
  for (size_t i = 0; fits && i < wanted.rank(); ++i) fits = wanted[i] == -1 || wanted[i] == tensor.shape[i];
  if (fits) return {};
  return failure(Code::kInternal, "model '" + model.name + "' gave output '" + tensor.name + "' with shape " +
                                      tensor.shape.text() + "; it has " + wanted.text());
}

}  // namespace

base::Result<std::unique_ptr<Host>> Host::load(const msg::ModelSpec& wanted, HostOptions options,
                                               base::SlabSource& slabs) {
  std::unique_ptr<Host> host(new Host(std::move(options), slabs));
  host->spec_ = wanted;
  const auto lock = host->hold();
  if (Status status = host->start_child(); !status.ok()) return status;
  if (Status status = host->greet(); !status.ok()) return host->end(std::move(status));
  return host;
}

Status Host::start_child() {
  ChildOptions options = options_.child;
  options.often = options_.rest, options.tick = [this] { shrink(); };
  if (options_.has_side) {
    auto side = SideChannel::open(options_.side);
    if (!side) return std::move(side).error();
    side_ = std::move(*side);
    options.side = side_->child_end(), options.watched = side_->fd();
    options.on_readable = [&side = *side_] { return side.serve(); };
    options.ended = [&side = *side_, ended = options_.child.ended](const Status& why) {
      side.ended();
      if (ended) ended(why);
    };
  }
  auto child = Child::start(std::move(options));
  if (side_) side_->close_child_end();
  if (!child) return std::move(child).error();
  child_ = std::move(*child);
  return {};
}

Host::~Host() {
  if (child_) child_->stop(std::chrono::duration_cast<std::chrono::milliseconds>(kStopPatience));
  child_.reset();  // its thread may be in shrink()
}

Status Host::end(Status why) {
  if (why.code == Code::kUnavailable && child_->over()) return child_->why();
  child_->kill(why);
  return why;
}

Status Host::grow_output(uint64_t bytes) {
  if (bytes > options_.most_answer)
    return failure(Code::kInternal, "model '" + spec_.name + "' asks for " + std::to_string(bytes) +
                                        " bytes for its answers; process_answer is " +
                                        std::to_string(options_.most_answer));
  return output_.make(*child_, bytes);
}

// While a batch runs the regions are in use.
void Host::shrink() {
  const std::unique_lock lock(regions_, std::try_to_lock);
  if (!lock || spec_.decoupled || child_->over()) return;
  input_.shrink(*child_);
  output_.shrink(*child_);
}

Status Host::greet() {
  put_model(writer_, spec_, options_);
  auto sent = input_.make(*child_, writer_.text().size());
  if (sent.ok()) sent = output_.make(*child_, 0);
  if (sent.ok()) {
    std::memcpy(input_.data(), writer_.text().data(), writer_.text().size());
    sent = child_->send({.type = Type::kLoad, .size = writer_.text().size()});
  }
  // A program that cannot be started may have closed its socket before this.
  if (!sent.ok()) return sent.code == Code::kUnavailable ? child_->ended() : sent;
  const auto deadline = Clock::now() + options_.load_timeout;
  for (;;) {
    auto message = child_->receive(deadline);
    if (!message) return message.error();
    if (!*message) {
      if (options_.loading && !options_.loading()) return failure(Code::kUnavailable, "the server is shutting down");
      if (Clock::now() < deadline) continue;
      return failure(Code::kUnavailable, "model '" + spec_.name + "' was not loaded in time (process_load_timeout)");
    }
    if ((*message)->type == Type::kGrow) {
      if (auto s = grow_output((*message)->size); !s.ok()) return s;
      continue;
    }
    if ((*message)->type == Type::kReady) {
      child_->note_loaded();
      return take_ready(**message);
    }
    if ((*message)->type != Type::kFailed) return lies("a message that nobody has asked for");
    auto text = copy_document(**message);
    return text ? failure(Code::kFailedPrecondition, std::move(*text)) : text.error();
  }
}

Status Host::take_ready(const Message& message) {
  auto document = copy_document(message);
  if (!document) return document.error();
  DocumentReader in(*document);
  spec_.max_batch = in.get<uint32_t>();
  spec_.decoupled = in.get<uint8_t>() != 0;
  spec_.batching.dynamic = in.get<uint8_t>() != 0 || spec_.batching.dynamic;
  spec_.inputs = in.get_specs();
  spec_.outputs = in.get_specs();
  says_ready_ = side_ && (message.flags & kSaysReady) != 0;
  if (!in.at_end()) return lies("a description of the model that has no such form");
  for (const auto* tensors : {&spec_.inputs, &spec_.outputs})
    for (const auto& tensor : *tensors)
      if (tensor.name.empty() || tensor.dtype == msg::DType::kInvalid)
        return failure(Code::kFailedPrecondition, "a tensor of the model has no name or no type");
  if (!spec_.inputs.empty() || !spec_.outputs.empty()) return {};
  return failure(Code::kFailedPrecondition, "the model has neither inputs nor outputs: its configuration names them");
}

base::Result<bool> Host::handle(const Message& message) {
  if (message.type != Type::kGrow) return false;
  Status status = grow_output(message.size);
  if (status.code == Code::kResourceExhausted) {
    shortage_ = std::move(status);
    status = child_->send({.type = Type::kNoRoom, .size = message.size});
  }
  if (!status.ok()) return status;
  return true;
}

void Host::put_wanted(const Request& request) {
  if (request.wanted && !request.wanted->empty()) {
    writer_.put(uint32_t(std::count(request.wanted->begin(), request.wanted->end(), true)));
    for (size_t i = 0; i < request.wanted->size(); ++i)
      if ((*request.wanted)[i]) writer_.put_string(spec_.outputs[i].name);
    return;
  }
  const bool named = request.of && !request.wanted;
  writer_.put(uint32_t(named ? request.of->outputs.size() : 0));
  if (named)
    for (const auto& name : request.of->outputs) writer_.put_string(name);
}

void Host::put_request(const Request& request, uint64_t& at) {
  static const msg::Parameters kNone;
  writer_.put(request.call);
  writer_.put_string(request.of ? std::string_view(request.of->id) : std::string_view());
  writer_.put(request.rows);
  const auto timeout = request.of ? request.of->queue_timeout : base::Duration(0);
  writer_.put(uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(timeout).count()));
  writer_.put_parameters(request.of ? request.of->parameters : kNone);
  put_wanted(request);
  writer_.put(uint32_t(request.inputs.size() / request.parts));
  for (size_t i = 0; i < request.inputs.size(); i += request.parts) {
    const auto place = place_input(request, i, at);
    put_tensor(writer_, place);
    at = aligned(at + place.size);
  }
}

// Copies the inputs to where put_request() has said that they lie.
void Host::copy_inputs(const Request& request, uint64_t& at) const {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& data = request.inputs[i]->data;
    if (!data.empty()) std::memcpy(input_.data() + at, data.data(), data.size());
    at += data.size();
    if ((i + 1) % request.parts == 0) at = aligned(at);
  }
}

Status Host::run(uint64_t number, const std::vector<Request>& requests) {
  writer_.clear();
  writer_.put(uint32_t(requests.size()));
  uint64_t at = 0;
  for (const auto& request : requests) put_request(request, at);
  const uint64_t document = at, whole = at + writer_.text().size();
  if (kept_ || whole > input_.size())
    if (auto s = input_.make(*child_, whole); !s.ok()) return s;
  kept_ = false;
  input_.note_use(whole);
  at = 0;
  for (const auto& request : requests) copy_inputs(request, at);
  std::memcpy(input_.data() + document, writer_.text().data(), writer_.text().size());
  return child_->send({.type = Type::kRun, .number = number, .offset = document, .size = writer_.text().size()});
}

Status Host::lies(const std::string& what) const {
  return failure(Code::kInternal, "the process of model '" + spec_.name + "' sent " + what);
}

// Copied before it is looked at: the child may go on writing.
base::Result<std::string> Host::copy_document(const Message& message) const {
  if (!output_.has(message.offset, message.size) || message.size > kMostDocument)
    return lies("a document that lies outside of its memory");
  return std::string(reinterpret_cast<const char*>(output_.data()) + message.offset, message.size);
}

base::Result<std::vector<Answer>> Host::read_answers(const Message& message, size_t most) {
  auto document = copy_document(message);
  if (!document) return document.error();
  output_.note_use(message.offset + message.size);
  DocumentReader in(*document);
  std::vector<Answer> answers(in.count(kLeastAnswer));
  if (answers.size() > most) return lies("more answers than there are requests");
  for (auto& answer : answers) {
    answer.call = in.get<uint64_t>();
    auto kind = in.get<uint8_t>();
    if (kind > uint8_t(spec_.decoupled ? AnswerKind::kOneError : AnswerKind::kTensorsAndEnd))
      return lies("an answer of a kind that there is not");
    answer.kind = AnswerKind(kind);
    if (answer.kind == AnswerKind::kError || answer.kind == AnswerKind::kOneError) {
      const auto code = in.get<uint32_t>();
      answer.error = failure(code == 0 || code > 16 ? Code::kInternal : Code(code), in.get_string());
      if (answer.error.code == Code::kResourceExhausted && !shortage_.ok()) answer.error = shortage_;
    } else if (answer.kind != AnswerKind::kEnd) {
      answer.outputs.parameters = in.get_parameters();
      auto tensors = read_tensors(in);
      Status wrong = tensors ? check(*tensors) : std::move(tensors).error();
      if (!tensors && wrong.code != Code::kResourceExhausted) return wrong;
      if (wrong.ok()) {
        answer.outputs.tensors = std::move(*tensors);
        continue;
      }
      answer.kind = AnswerKind::kError, answer.refused = true;
      answer.error = std::move(wrong), answer.outputs = {};
    }
  }
  shortage_ = {};
  if (!in.at_end()) return lies("answers that have no such form");
  return answers;
}

// All tensors of a list lie in one slab, for which there may be no memory: RESOURCE_EXHAUSTED. Whatever is wrong about
// their bytes is the child's end.
base::Result<std::vector<msg::Tensor>> Host::read_tensors(DocumentReader& in) {
  std::vector<TensorPlace> places(in.count(kLeastTensor));
  uint64_t bytes = 0;
  for (auto& place : places) {
    place = get_tensor(in);
    if (!in.ok()) return lies("answers that have no such form");
    if (!output_.has(place.offset, place.size)) return lies("a tensor that lies outside of its memory");
    if (!adds_up(place))
      return lies("a tensor '" + place.name + "' of shape " + place.shape.text() + " with " +
                  std::to_string(place.size) + " bytes");
    if (__builtin_add_overflow(bytes, aligned(place.size), &bytes) || bytes > options_.most_answer)
      return lies("more tensors than its memory has room for");
  }
  base::Slab* slab = nullptr;
  auto taken = base::attempt("a model's tensors", [&] { slab = base::take_now(slabs_, std::max<uint64_t>(bytes, 1)); });
  if (!taken.ok()) return taken;
  base::Block block(slab);
  block.resize(bytes);
  uint64_t at = 0;
  for (const auto& place : places) {
    if (place.size > 0) std::memcpy(block.data() + at, output_.data() + place.offset, place.size);
    at += aligned(place.size);
  }
  const base::Bytes data = block.freeze();
  at = 0;
  std::vector<msg::Tensor> tensors;
  for (auto& place : places) {
    const auto bytes_of = data.slice(at, place.size);
    at += aligned(place.size);
    if (place.dtype == msg::DType::kBytes) {
      uint64_t n = 0;
      if (!msg::for_each_string(bytes_of.view(), [&](std::string_view) { ++n; }) || n != *place.shape.elements())
        return lies("a tensor '" + place.name + "' whose strings do not add up");
    }
    tensors.push_back({std::move(place.name), place.dtype, place.shape, bytes_of});
  }
  return tensors;
}

base::Result<ChildCall> Host::read_call(const Message& message) {
  auto document = copy_document(message);
  if (!document) return document.error();
  output_.note_use(message.offset + message.size);
  DocumentReader in(*document);
  ChildCall call;
  call.model = in.get_string(), call.version = in.get_string(), call.id = in.get_string();
  call.parameters = in.get_parameters();
  call.outputs.resize(in.count(4));
  for (auto& name : call.outputs) name = in.get_string();
  auto inputs = read_tensors(in);
  if (!inputs) return std::move(inputs).error();
  call.inputs = std::move(*inputs);
  if (!in.at_end()) return lies("a call that has no such form");
  return call;
}

Status Host::send_reply(uint64_t number, AnswerKind kind, const msg::Outputs& outputs, const Status& error) {
  Writer out;
  out.put(uint32_t(1));
  out.put(number);
  out.put(uint8_t(error.ok() ? kind : AnswerKind::kError));
  uint64_t at = 0;
  if (!error.ok()) {
    out.put(uint32_t(error.code));
    out.put_string(error.text);
  } else if (kind != AnswerKind::kEnd) {
    out.put_parameters(outputs.parameters);
    out.put(uint32_t(outputs.tensors.size()));
    for (const auto& tensor : outputs.tensors) {
      put_tensor(out, {tensor.name, tensor.dtype, tensor.shape, at, tensor.data.size()});
      at = aligned(at + tensor.data.size());
    }
  }
  auto region = Region::make(at + out.text().size(), error.ok() ? slabs_.ledger() : nullptr);
  if (!region) return region.error();
  uint64_t to = 0;
  for (const auto& tensor : outputs.tensors) {
    if (!tensor.data.empty()) std::memcpy(region->data() + to, tensor.data.data(), tensor.data.size());
    to = aligned(to + tensor.data.size());
  }
  std::memcpy(region->data() + at, out.text().data(), out.text().size());
  if (Status s = child_->send({.type = Type::kReplyRegion, .size = region->size()}, region->fd()); !s.ok()) return s;
  return child_->send({.type = Type::kExecuted, .number = number, .offset = at, .size = out.text().size()});
}

Status Host::check(const std::vector<msg::Tensor>& tensors) const {
  for (const auto& tensor : tensors)
    if (Status s = check(tensor); !s.ok()) return s;
  return {};
}

Status Host::check(const msg::Tensor& tensor) const {
  const auto* spec = spec_.output(tensor.name);
  const std::string who = "model '" + spec_.name + "' gave ";
  if (!spec) return failure(Code::kInternal, who + "an output '" + tensor.name + "' that it has not");
  if (tensor.dtype != spec->dtype)
    return failure(Code::kInternal, who + "output '" + tensor.name + "' as " + std::string(msg::name(tensor.dtype)) +
                                        "; it is " + std::string(msg::name(spec->dtype)));
  return options_.any_shape ? Status() : check_shape(spec_, tensor);
}

Status Host::check_shapes(const std::vector<msg::Tensor>& tensors) const {
  for (const auto& tensor : tensors)
    if (Status s = check_shape(spec_, tensor); !s.ok()) return s;
  return {};
}

}  // namespace weir::process
