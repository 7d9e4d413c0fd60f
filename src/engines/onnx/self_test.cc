#include "engines/onnx/self_test.h"

#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "engines/onnx/error.h"
#include "engines/onnx/session.h"
#include "engines/onnx/tensors.h"

namespace weir::onnx {
namespace {

using base::Status;

// y = x + x, u = s; x and y FP32[n,2], s and u BYTES[n]. tests/data/onnx/make.py writes it as self_test.onnx.
constexpr unsigned char kModel[] = {
    0x08, 0x08, 0x12, 0x04, 0x77, 0x65, 0x69, 0x72, 0x28, 0x01, 0x3a, 0x88, 0x01, 0x0a, 0x15, 0x0a, 0x01, 0x78,
    0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x1a, 0x05, 0x61, 0x64, 0x64, 0x5f, 0x79, 0x22, 0x03, 0x41, 0x64, 0x64,
    0x0a, 0x1c, 0x0a, 0x01, 0x73, 0x12, 0x01, 0x75, 0x1a, 0x0a, 0x69, 0x64, 0x65, 0x6e, 0x74, 0x69, 0x74, 0x79,
    0x5f, 0x75, 0x22, 0x08, 0x49, 0x64, 0x65, 0x6e, 0x74, 0x69, 0x74, 0x79, 0x12, 0x01, 0x74, 0x5a, 0x14, 0x0a,
    0x01, 0x78, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x0a, 0x02, 0x08,
    0x02, 0x5a, 0x10, 0x0a, 0x01, 0x73, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x08, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01,
    0x6e, 0x62, 0x14, 0x0a, 0x01, 0x79, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01,
    0x6e, 0x0a, 0x02, 0x08, 0x02, 0x62, 0x10, 0x0a, 0x01, 0x75, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x08, 0x12, 0x05,
    0x0a, 0x03, 0x12, 0x01, 0x6e, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11,
};

Status differs(const Library& library, const std::string& where) {
  return base::failure(base::Code::kFailedPrecondition, "ONNX Runtime " + library.version +
                                                            " does not behave as weir expects (" + where +
                                                            "); use a release from 1.16 on");
}

bool is(const GraphTensor& t, std::string_view name, msg::DType dtype, const msg::Shape& shape) {
  return t.name == name && t.dtype == dtype && t.shape == shape && t.first_symbol == "n";
}

bool signature_is_right(const Signature& s) {
  return s.inputs.size() == 2 && s.outputs.size() == 2 && is(s.inputs[0], "x", msg::DType::kFp32, {-1, 2}) &&
         is(s.inputs[1], "s", msg::DType::kBytes, {-1}) && is(s.outputs[0], "y", msg::DType::kFp32, {-1, 2}) &&
         is(s.outputs[1], "u", msg::DType::kBytes, {-1});
}

base::Bytes text_of(std::initializer_list<std::string_view> elements) {
  std::string data;
  for (std::string_view e : elements) msg::append_string(data, e);
  return base::Bytes::adopt(std::move(data));
}

constexpr float kNumbers[] = {1, 2, 3, 4}, kDoubles[] = {2, 4, 6, 8};

msg::Tensor numbers() {
  base::Block block(base::heap_slab(sizeof kNumbers));
  block.append(kNumbers, sizeof kNumbers);
  return {"x", msg::DType::kFp32, {2, 2}, block.freeze()};
}

msg::Tensor strings() { return {"s", msg::DType::kBytes, {2}, text_of({std::string_view("a\0b", 3), ""})}; }

// y alone, from bound inputs to a bound output.
Status run_bound(const Session& session) {
  const Library& library = session.library();
  const Api& api = library.api;
  const msg::Tensor x = numbers(), s = strings();
  alignas(64) float doubles[4] = {};
  base::Bytes copy;
  auto x_value = to_ort(library, x, copy);
  auto s_value = to_ort(library, s, copy);
  auto y_value = wrap(library, x.dtype, x.shape, reinterpret_cast<std::byte*>(doubles), sizeof doubles);
  if (!x_value || !s_value || !y_value) return differs(library, "tensors cannot be bound");
  OrtIoBinding* raw = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtRunOptions* options = nullptr;
  Status status = to_status(api, api.create_binding(session.raw(), &raw));
  Owned<OrtIoBinding> binding(raw, api.release_binding);
  auto then = [&](OrtStatus* (*call)(OrtIoBinding*, const char*, const OrtValue*), const char* name, OrtValue* value) {
    if (status.ok()) status = to_status(api, call(raw, name, value));
  };
  then(api.bind_input, "x", x_value->get());
  then(api.bind_input, "s", s_value->get());
  then(api.bind_output, "y", y_value->get());
  if (status.ok()) status = to_status(api, api.run_bound(session.raw(), session.run_options(), raw));
  if (!status.ok()) return status;
  api.clear_inputs(raw), api.clear_outputs(raw);
  status = to_status(api, api.create_memory("Cpu", AllocatorKind::kDevice, 0, MemoryKind::kDefault, &memory));
  if (memory) api.release_memory(memory);
  if (status.ok()) status = to_status(api, api.create_run_options(&options));
  Owned<OrtRunOptions> owned(options, api.release_run_options);
  if (status.ok()) status = to_status(api, api.set_run_option(options, "self.test", "1"));
  if (!status.ok()) return status;
  return std::memcmp(doubles, kDoubles, sizeof doubles) == 0 ? Status()
                                                             : differs(library, "bound numbers come out wrong");
}

Status run_model(const Session& session) {
  const Library& library = session.library();
  const msg::Tensor x = numbers(), s = strings();
  base::Bytes copy;
  auto x_value = to_ort(library, x, copy);
  auto s_value = to_ort(library, s, copy);
  if (!x_value) return x_value.error();
  if (!s_value) return s_value.error();
  const OrtValue* in[] = {x_value->get(), s_value->get()};
  const char* const in_names[] = {"x", "s"};
  const char* const out_names[] = {"y", "u"};
  OrtValue* out[2] = {};
  const Api& api = library.api;
  if (auto st = to_status(api, api.run(session.raw(), session.run_options(), in_names, in, 2, out_names, 2, out));
      !st.ok())
    return st;
  auto y = from_ort(library, {out[0], api.release_value}, base::heap());
  auto u = from_ort(library, {out[1], api.release_value}, base::heap());
  if (!y) return y.error();
  if (!u) return u.error();
  std::string_view doubles(reinterpret_cast<const char*>(kDoubles), sizeof kDoubles);
  if (y->shape != x.shape || y->data.view() != doubles) return differs(library, "numbers come out wrong");
  if (u->shape != s.shape || u->data.view() != s.data.view()) return differs(library, "strings come out wrong");
  return {};
}

}  // namespace

Status check_errors(const Api& api) {
  constexpr std::string_view kText = "self test";
  OrtStatus* status = api.create_status(ErrorCode::kNotImplemented, kText.data());
  bool right = status && api.error_code(status) == ErrorCode::kNotImplemented && api.error_message(status) == kText;
  if (status) api.release_status(status);
  if (right) return {};
  return base::failure(base::Code::kFailedPrecondition,
                       "the library given as ONNX Runtime does not report errors as "
                       "ONNX Runtime does");
}

Status self_test(const Library& library) {
  // The library outlives this call, so the session may share it without owning it.
  std::shared_ptr<const Library> borrowed(std::shared_ptr<void>(), &library);
  std::string_view model(reinterpret_cast<const char*>(kModel), sizeof kModel);
  auto summary = inspect(model);
  if (!summary) return summary.error();
  auto session = Session::make(borrowed, SessionOptions(), model, *summary, ExternalData(), "self test");
  if (!session) return differs(library, "its self-test model does not load: " + session.error().text);
  if (!signature_is_right((*session)->signature())) return differs(library, "names, types or shapes come out wrong");
  if (Status s = run_model(**session); !s.ok()) return s;
  return run_bound(**session);
}

}  // namespace weir::onnx
