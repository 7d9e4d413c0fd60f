// ONNX Runtime with providers for GPUs that are not there: the library that FAKE_GPU_ONNXRUNTIME names, with those
// functions of its table replaced that make options of CUDA and TensorRT and their memory. A session computes on the
// CPU; memory of the GPU is the host's (tests/device/fake_module.cc). What was asked for stands in the file that
// FAKE_GPU_LOG names, one line for each call.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

struct Status;
struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*version)();
};
using Update = const char* const*;

constexpr size_t kSlots = 266;  // of API version 16
const void* table[kSlots];
const ApiBase* real = nullptr;

void note(const std::string& line) {
  if (const char* file = std::getenv("FAKE_GPU_LOG")) std::ofstream(file, std::ios::app) << line << '\n';
}

Status* create_memory(const char* name, int kind, int id, int type, void** out) {
  if (std::strcmp(name, "Cuda") == 0) note("memory Cuda " + std::to_string(id));
  using Cpu = Status* (*)(int, int, void**);
  (void)kind;
  return reinterpret_cast<Cpu>(const_cast<void*>(real->get_api(16)[69]))(0, type, out);
}

template <char provider>
Status* create(void** out) {
  *out = new std::string(1, provider);
  return nullptr;
}
template <char provider>
Status* update(std::string* options, Update keys, Update values, size_t n) {
  for (size_t i = 0; i < n; ++i) *options += std::string(" ") + keys[i] + '=' + values[i];
  return nullptr;
}
template <char provider>
Status* set_value(std::string* options, const char* key, const void* value) {
  *options += std::string(" ") + key + (value ? "=something" : "=nothing");
  return nullptr;
}
template <char provider>
Status* append(void* /*session*/, const std::string* options) {
  note("provider " + *options);
  return nullptr;
}
template <char provider>
void release(std::string* options) {
  delete options;
}

// CUDA graphs: a run that names one for the first time captures it; a later one must find its tensors where they were.
std::map<const void*, std::string> graph_of;                      // by run options
std::map<const void*, std::map<std::string, const void*>> bound;  // by binding: the place of each tensor
std::map<std::string, std::map<std::string, const void*>> captured;

template <size_t slot>
Status* bind(void* binding, const char* name, void* value) {
  void* data = nullptr;
  using Data = Status* (*)(void*, void**);
  reinterpret_cast<Data>(const_cast<void*>(real->get_api(16)[51]))(value, &data);
  bound[binding][name] = data;
  using Real = Status* (*)(void*, const char*, void*);
  return reinterpret_cast<Real>(const_cast<void*>(real->get_api(16)[slot]))(binding, name, value);
}

Status* run_bound(void* session, const void* options, void* binding) {
  if (auto graph = graph_of.find(options); graph != graph_of.end() && graph->second != "-1") {
    const auto [known, fresh] = captured.emplace(graph->second, bound[binding]);
    note("graph " + graph->second + (fresh ? " captured" : known->second == bound[binding] ? " replayed" : " moved"));
  } else if (graph != graph_of.end()) {
    note("no graph");
  }
  using Real = Status* (*)(void*, const void*, void*);
  return reinterpret_cast<Real>(const_cast<void*>(real->get_api(16)[133]))(session, options, binding);
}

Status* set_run_option(void* options, const char* key, const char* value) {
  if (std::strcmp(key, "gpu_graph_id") == 0)
    graph_of[options] = value;
  else if (std::strcmp(key, "self.test") != 0)
    note("run option " + std::string(key) + '=' + value);
  using Real = Status* (*)(void*, const char*, const char*);
  return reinterpret_cast<Real>(const_cast<void*>(real->get_api(16)[165]))(options, key, value);
}

template <class F>
void put(size_t slot, F* function) {
  table[slot] = reinterpret_cast<const void*>(function);
}

const void* const* get_api(uint32_t version) {
  const void* const* original = real->get_api(version);
  if (!original) return nullptr;
  std::copy_n(original, kSlots, table);
  put(68, create_memory);
  put(133, run_bound), put(136, bind<136>), put(137, bind<137>);
  put(165, set_run_option);
  put(170, append<'T'>), put(171, create<'T'>), put(172, update<'T'>), put(174, release<'T'>);
  put(204, append<'C'>), put(205, create<'C'>), put(206, update<'C'>), put(208, release<'C'>);
  put(261, set_value<'T'>), put(263, set_value<'C'>);
  return table;
}

const char* release_name() { return "1.17.0"; }  // no slot behind the table is read

}  // namespace

extern "C" __attribute__((visibility("default"))) const ApiBase* OrtGetApiBase() {
  static const ApiBase base{get_api, release_name};
  void* handle = ::dlopen(std::getenv("FAKE_GPU_ONNXRUNTIME"), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  using GetBase = const ApiBase* (*)();
  real = reinterpret_cast<GetBase>(::dlsym(handle, "OrtGetApiBase"))();
  return &base;
}
