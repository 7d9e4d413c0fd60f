#include "engines/onnx/ort_api.h"

#include <charconv>
#include <climits>

namespace weir::onnx {
namespace {

template <class F>
void pick(F*& function, const void* const* table, size_t slot) {
  function = reinterpret_cast<F*>(const_cast<void*>(table[slot]));
}

// 21 of "1.21.0"; INT_MAX of a later major one; 0 of what is no release.
int minor_of(std::string_view release) {
  int parts[2] = {0, 0};
  const char* at = release.data();
  const char* const end = at + release.size();
  for (int& part : parts) {
    auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc()) return 0;
    at = next < end ? next + 1 : end;
  }
  return parts[0] > 1 ? INT_MAX : parts[1];
}

void pick_session(Api& api, const void* const* t) {
  pick(api.create_session, t, 8);
  pick(api.run, t, 9);
  pick(api.create_options, t, 10);
  pick(api.create_run_options, t, 39);
  pick(api.set_run_log_level, t, 41);
  pick(api.set_execution, t, 13);
  pick(api.disable_memory_pattern, t, 17);
  pick(api.enable_arena, t, 18);
  pick(api.disable_arena, t, 19);
  pick(api.set_log_id, t, 20);
  pick(api.set_optimization, t, 23);
  pick(api.set_intra_op_threads, t, 24);
  pick(api.set_inter_op_threads, t, 25);
  pick(api.set_option, t, 130);
  pick(api.register_custom_ops, t, 228);  // API version 14
  pick(api.input_count, t, 30);
  pick(api.output_count, t, 31);
  pick(api.optional_count, t, 32);
  pick(api.input_type, t, 33);
  pick(api.output_type, t, 34);
  pick(api.optional_type, t, 35);
  pick(api.input_name, t, 36);
  pick(api.output_name, t, 37);
  pick(api.optional_name, t, 38);
  pick(api.metadata, t, 111);
  pick(api.producer, t, 112);
  pick(api.model_version, t, 117);
}

void pick_tensors(Api& api, const void* const* t) {
  pick(api.create_tensor, t, 48);
  pick(api.wrap_tensor, t, 49);
  pick(api.is_tensor, t, 50);
  pick(api.tensor_data, t, 51);
  pick(api.strings_size, t, 53);
  pick(api.strings, t, 54);
  pick(api.string_buffer, t, 252);  // API version 15
  pick(api.tensor_info_of_type, t, 55);
  pick(api.kind_of_type, t, 56);
  pick(api.element_type, t, 60);
  pick(api.rank, t, 61);
  pick(api.dims, t, 62);
  pick(api.symbols, t, 63);
  pick(api.tensor_info, t, 65);
  pick(api.cpu_memory, t, 69);
  pick(api.allocator_free, t, 76);
  pick(api.default_allocator, t, 78);
}

void pick_bindings(Api& api, const void* const* t) {
  pick(api.create_memory, t, 68);
  pick(api.run_bound, t, 133);
  pick(api.create_binding, t, 134);
  pick(api.release_binding, t, 135);
  pick(api.bind_input, t, 136);
  pick(api.bind_output, t, 137);
  pick(api.clear_inputs, t, 141);
  pick(api.clear_outputs, t, 142);
  pick(api.set_run_option, t, 165);
}

void pick_providers(Api& api, const void* const* t) {
  pick(api.append_tensorrt, t, 170);
  pick(api.create_tensorrt, t, 171);
  pick(api.update_tensorrt, t, 172);
  pick(api.release_tensorrt, t, 174);
  pick(api.append_cuda, t, 204);
  pick(api.create_cuda, t, 205);
  pick(api.update_cuda, t, 206);
  pick(api.release_cuda, t, 208);
  pick(api.set_tensorrt, t, 261);  // API version 16
  pick(api.set_cuda, t, 263);
}

void pick_releases(Api& api, const void* const* t) {
  pick(api.release_env, t, 92);
  pick(api.release_status, t, 93);
  pick(api.release_memory, t, 94);
  pick(api.release_session, t, 95);
  pick(api.release_value, t, 96);
  pick(api.release_run_options, t, 97);
  pick(api.release_type, t, 98);
  pick(api.release_tensor_info, t, 99);
  pick(api.release_options, t, 100);
  pick(api.release_metadata, t, 118);
}

}  // namespace

Api read(const void* const* table, std::string_view release) {
  Api api{};
  pick(api.create_status, table, 0);
  pick(api.error_code, table, 1);
  pick(api.error_message, table, 2);
  pick(api.create_env, table, 4);
  pick(api.disable_telemetry, table, 6);
  pick_session(api, table);
  pick_tensors(api, table);
  pick_bindings(api, table);
  pick_providers(api, table);
  pick_releases(api, table);
  if (minor_of(release) >= kExternalFilesSince) {
    pick(api.append_openvino, table, 275);
    pick(api.add_external_files, table, 279);
  }
  return api;
}

}  // namespace weir::onnx
