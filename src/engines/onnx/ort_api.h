// The part of ONNX Runtime's C API that weir calls, declared here because the library ships without its header.
//
// The library exports one symbol, OrtGetApiBase. It leads to OrtApi, a table of function pointers to which releases
// only ever append (https://onnxruntime.ai/docs/api/c/struct_ort_api.html, in the order of onnxruntime_c_api.h), so a
// function is known by its slot. read() picks the slots that weir needs. self_test.h calls them once at start: a table
// that differs is found there, and does not give wrong answers later.
//
// Every call that returns an OrtStatus* returns null for success; error.h turns the others into a base::Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace weir::onnx {

struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtValue;
struct OrtMemoryInfo;
struct OrtTypeInfo;
struct OrtTensorInfo;  // OrtTensorTypeAndShapeInfo
struct OrtAllocator;
struct OrtModelMetadata;
struct OrtIoBinding;
struct OrtCudaOptions;      // OrtCUDAProviderOptionsV2
struct OrtTensorrtOptions;  // OrtTensorRTProviderOptionsV2

enum class LogLevel : int { kVerbose, kInfo, kWarning, kError, kFatal };
enum class Optimization : int { kDisable = 0, kBasic = 1, kExtended = 2, kAll = 99 };
enum class Execution : int { kSequential = 0, kParallel = 1 };
enum class ErrorCode : int { kOk = 0, kFail = 1, kInvalidArgument = 2, kNotImplemented = 9 };
enum class ValueKind : int { kUnknown = 0, kTensor = 1 };
enum class AllocatorKind : int { kDevice = 0, kArena = 1 };
enum class MemoryKind : int { kDefault = 0 };

using LogFunction = void (*)(void* param, LogLevel level, const char* category, const char* id, const char* where,
                             const char* message);

struct OrtApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*version)();
};

// The version asked for; 1.16 is the first release that has it.
inline constexpr uint32_t kApiVersion = 16;
// The minor number of the first release whose table has Api::add_external_files and append_openvino; in older ones
// their slots must not be read.
inline constexpr int kExternalFilesSince = 18;

struct Api {
  OrtStatus* (*create_status)(ErrorCode, const char*);
  ErrorCode (*error_code)(const OrtStatus*);
  const char* (*error_message)(const OrtStatus*);

  OrtStatus* (*create_env)(LogFunction, void* param, LogLevel, const char* id, OrtEnv**);
  OrtStatus* (*disable_telemetry)(const OrtEnv*);

  OrtStatus* (*create_session)(const OrtEnv*, const void* model, size_t size, const OrtSessionOptions*, OrtSession**);
  OrtStatus* (*run)(OrtSession*, const OrtRunOptions*, const char* const* input_names, const OrtValue* const* inputs,
                    size_t n_inputs, const char* const* output_names, size_t n_outputs, OrtValue** outputs);

  OrtStatus* (*create_run_options)(OrtRunOptions**);
  OrtStatus* (*set_run_log_level)(OrtRunOptions*, LogLevel);

  OrtStatus* (*create_options)(OrtSessionOptions**);
  OrtStatus* (*set_execution)(OrtSessionOptions*, Execution);
  OrtStatus* (*disable_memory_pattern)(OrtSessionOptions*);
  OrtStatus* (*enable_arena)(OrtSessionOptions*);
  OrtStatus* (*disable_arena)(OrtSessionOptions*);
  OrtStatus* (*set_log_id)(OrtSessionOptions*, const char*);
  OrtStatus* (*set_optimization)(OrtSessionOptions*, Optimization);
  OrtStatus* (*set_intra_op_threads)(OrtSessionOptions*, int);
  OrtStatus* (*set_inter_op_threads)(OrtSessionOptions*, int);
  OrtStatus* (*set_option)(OrtSessionOptions*, const char* key, const char* value);

  OrtStatus* (*register_custom_ops)(OrtSessionOptions*, const char* library);  // opens it; closed with the sessions
  // From release 1.18 on (kExternalFilesSince); the memory may go when the session is made.
  OrtStatus* (*add_external_files)(OrtSessionOptions*, const char* const* names, char* const* data, const size_t* sizes,
                                   size_t n);

  OrtStatus* (*input_count)(const OrtSession*, size_t*);
  OrtStatus* (*output_count)(const OrtSession*, size_t*);
  OrtStatus* (*optional_count)(const OrtSession*, size_t*);  // inputs that have an initializer
  OrtStatus* (*input_type)(const OrtSession*, size_t, OrtTypeInfo**);
  OrtStatus* (*output_type)(const OrtSession*, size_t, OrtTypeInfo**);
  OrtStatus* (*optional_type)(const OrtSession*, size_t, OrtTypeInfo**);
  OrtStatus* (*input_name)(const OrtSession*, size_t, OrtAllocator*, char**);
  OrtStatus* (*output_name)(const OrtSession*, size_t, OrtAllocator*, char**);
  OrtStatus* (*optional_name)(const OrtSession*, size_t, OrtAllocator*, char**);

  OrtStatus* (*create_tensor)(OrtAllocator*, const int64_t* shape, size_t rank, int element, OrtValue**);
  OrtStatus* (*wrap_tensor)(const OrtMemoryInfo*, void* data, size_t size, const int64_t* shape, size_t rank,
                            int element, OrtValue**);  // borrows `data`
  OrtStatus* (*is_tensor)(const OrtValue*, int*);
  OrtStatus* (*tensor_data)(OrtValue*, void**);
  OrtStatus* (*string_buffer)(OrtValue*, size_t index, size_t size, char**);  // resizes the element, gives its bytes
  OrtStatus* (*strings_size)(const OrtValue*, size_t*);
  OrtStatus* (*strings)(const OrtValue*, void* out, size_t size, size_t* offsets, size_t n_offsets);

  OrtStatus* (*tensor_info_of_type)(const OrtTypeInfo*, const OrtTensorInfo**);  // borrowed; null if no tensor
  OrtStatus* (*kind_of_type)(const OrtTypeInfo*, ValueKind*);
  OrtStatus* (*element_type)(const OrtTensorInfo*, int*);
  OrtStatus* (*rank)(const OrtTensorInfo*, size_t*);
  OrtStatus* (*dims)(const OrtTensorInfo*, int64_t*, size_t);         // -1 where unknown
  OrtStatus* (*symbols)(const OrtTensorInfo*, const char**, size_t);  // "" where there is none; borrowed
  OrtStatus* (*tensor_info)(const OrtValue*, OrtTensorInfo**);

  OrtStatus* (*cpu_memory)(AllocatorKind, MemoryKind, OrtMemoryInfo**);
  OrtStatus* (*default_allocator)(OrtAllocator**);  // not to be released
  OrtStatus* (*allocator_free)(OrtAllocator*, void*);

  OrtStatus* (*create_memory)(const char* name, AllocatorKind, int id, MemoryKind, OrtMemoryInfo**);
  OrtStatus* (*create_binding)(OrtSession*, OrtIoBinding**);
  OrtStatus* (*bind_input)(OrtIoBinding*, const char* name, const OrtValue*);  // copies what lies elsewhere
  OrtStatus* (*bind_output)(OrtIoBinding*, const char* name, const OrtValue*);
  OrtStatus* (*run_bound)(OrtSession*, const OrtRunOptions*, const OrtIoBinding*);
  OrtStatus* (*set_run_option)(OrtRunOptions*, const char* key, const char* value);

  OrtStatus* (*create_cuda)(OrtCudaOptions**);
  OrtStatus* (*update_cuda)(OrtCudaOptions*, const char* const* keys, const char* const* values, size_t n);
  OrtStatus* (*set_cuda)(OrtCudaOptions*, const char* key, void* value);
  OrtStatus* (*append_cuda)(OrtSessionOptions*, const OrtCudaOptions*);
  OrtStatus* (*create_tensorrt)(OrtTensorrtOptions**);
  OrtStatus* (*update_tensorrt)(OrtTensorrtOptions*, const char* const* keys, const char* const* values, size_t n);
  OrtStatus* (*set_tensorrt)(OrtTensorrtOptions*, const char* key, void* value);
  OrtStatus* (*append_tensorrt)(OrtSessionOptions*, const OrtTensorrtOptions*);
  // From release 1.18 on.
  OrtStatus* (*append_openvino)(OrtSessionOptions*, const char* const* keys, const char* const* values, size_t n);

  OrtStatus* (*metadata)(const OrtSession*, OrtModelMetadata**);
  OrtStatus* (*producer)(const OrtModelMetadata*, OrtAllocator*, char**);
  OrtStatus* (*model_version)(const OrtModelMetadata*, int64_t*);

  void (*release_status)(OrtStatus*);
  void (*release_env)(OrtEnv*);
  void (*release_memory)(OrtMemoryInfo*);
  void (*release_session)(OrtSession*);
  void (*release_value)(OrtValue*);
  void (*release_run_options)(OrtRunOptions*);
  void (*release_type)(OrtTypeInfo*);
  void (*release_tensor_info)(OrtTensorInfo*);
  void (*release_options)(OrtSessionOptions*);
  void (*release_metadata)(OrtModelMetadata*);
  void (*release_binding)(OrtIoBinding*);
  void (*release_cuda)(OrtCudaOptions*);
  void (*release_tensorrt)(OrtTensorrtOptions*);
  void (*clear_inputs)(OrtIoBinding*);
  void (*clear_outputs)(OrtIoBinding*);
};

// `release`: "1.21.0".
Api read(const void* const* table, std::string_view release);

// Owns an object of the library, and releases it.
template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

}  // namespace weir::onnx
