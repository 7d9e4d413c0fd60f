// cuBLASLt as the library of matmul.h. It is column-major: our out = x weight^T, row by row, is its
// out' = weight'^T x' with matrices of which each of our rows is a column.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engines/llm/cuda/matmul.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace weir::llm::cuda {
namespace {

// cudaError_t's numbers for what a status of the library says. None of these is sticky: a product that the library
// refuses costs the device nothing.
constexpr Code kOutOfMemory = 2, kNotInitialized = 3;
constexpr auto kEpilogueMask = cublasLtMatmulPreferenceAttributes_t(11);  // later headers do not have it
constexpr int kCandidates = 8;  // algorithms of a shape that are tried, the likely best first
// With fewer rows a product takes as long as its weight is read, which the library's own order knows best: a try has
// the weight in the cache.
constexpr uint32_t kTimedRows = 96;
constexpr int kTimedRuns = 3;
// Another one takes the likely best one's place where it needs this share of its time. In a try a weight may lie in the
// cache, and in a step it does not: what was a little faster here made prompts of 512 tokens a tenth slower.
constexpr float kFaster = 0.67f;

Code code_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return 0;
    case CUBLAS_STATUS_NOT_INITIALIZED: return kNotInitialized;
    case CUBLAS_STATUS_ALLOC_FAILED: return kOutOfMemory;
    case CUBLAS_STATUS_INVALID_VALUE: return kBadShape;
    default: return kRefused;  // no algorithm, another architecture, or an error of the library's own
  }
}

// The runtime's own error goes first: one that has lost the device shows up in any call.
Code failure_of(cublasStatus_t status) {
  const auto code = Code(cudaGetLastError());
  return code ? code : code_of(status);
}

// The functions of the library that are used.
#define WEIR_CUBLASLT(each)                                                                                           \
  each(Create) each(Destroy) each(Matmul) each(MatmulAlgoCheck) each(MatmulAlgoGetHeuristic) each(MatmulDescCreate)   \
      each(MatmulDescDestroy) each(MatmulDescSetAttribute) each(MatmulPreferenceCreate) each(MatmulPreferenceDestroy) \
          each(MatmulPreferenceSetAttribute) each(MatrixLayoutCreate) each(MatrixLayoutDestroy)

// Their types are the header's.
struct Functions {
#define WEIR_DECLARE(name) decltype(&::cublasLt##name) name = nullptr;
  WEIR_CUBLASLT(WEIR_DECLARE)
#undef WEIR_DECLARE
  int major = 0;
};

// These versions have the same functions, numbers of attributes and sizes of structs, as far as they are used here.
constexpr int kOldestLibrary = 11, kNewestLibrary = 13;

struct SharedLibrary {
  void* handle = nullptr;
  int major = 0;
};

// That of the version that this was built with, or else of another which the driver can run, the newest first: a
// machine may have PyTorch's alone.
SharedLibrary open_shared() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) (void)cudaGetLastError();
  std::vector<int> majors{CUBLAS_VER_MAJOR};
  for (int major = std::min(driver / 1000, kNewestLibrary); major >= kOldestLibrary; --major)
    if (major != CUBLAS_VER_MAJOR) majors.push_back(major);
  for (int major : majors)
    for (const std::string folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"})
      if (void* library = ::dlopen((folder + "libcublasLt.so." + std::to_string(major)).c_str(), RTLD_NOW | RTLD_LOCAL))
        return {library, major};
  return {};
}

// Null where the library or one of the functions is missing. Never closed.
const Functions* functions() {
  static const std::unique_ptr<Functions> all = []() -> std::unique_ptr<Functions> {
    const SharedLibrary library = open_shared();
    if (!library.handle) return nullptr;
    auto out = std::make_unique<Functions>();
    out->major = library.major;
    bool good = true;
    auto find = [&]<class F>(const char* name, F& function) {
      function = reinterpret_cast<F>(::dlsym(library.handle, name));
      good = good && function;
    };
#define WEIR_FIND(name) find("cublasLt" #name, out->name);
    WEIR_CUBLASLT(WEIR_FIND)
#undef WEIR_FIND
    return good ? std::move(out) : nullptr;
  }();
  return all.get();
}

}  // namespace

class Library {
 public:
  Library(const Functions& functions, int32_t device, void* workspace)
      : lt_(functions), device_(device), workspace_(workspace) {}
  ~Library() {
    if (handle_) lt_.Destroy(handle_);
  }

  Code open() {
    if (auto code = cudaSetDevice(device_)) return Code(code);
    const auto status = lt_.Create(&handle_);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : failure_of(status);
  }
  Code multiply(const Launch& launch, const Matmul& a);

 private:
  // Everything that the choice of an algorithm depends on.
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, bool, uint32_t>;
  struct Setup;

  Key key_of(const Matmul& a, uint32_t rows) const;
  using Candidates = std::array<cublasLtMatmulHeuristicResult_t, kCandidates>;
  // How many there are; they can do it, the likely best first.
  int candidates(const Setup& setup, const Key& key, Candidates& out);
  const cublasLtMatmulAlgo_t* algorithm(const Launch& launch, const Setup& setup, const Matmul& a);
  int fastest(const Launch& launch, const Setup& setup, const Matmul& a, const Candidates& found, int count);
  float time(const Launch& launch, const Setup& setup, const Matmul& a, const cublasLtMatmulAlgo_t& algorithm);
  cublasStatus_t run(const Launch& launch, const Setup& setup, const Matmul& a, const cublasLtMatmulAlgo_t& algorithm);
  Code run_another(const Launch& launch, const Setup& setup, const Matmul& a);

  const Functions& lt_;
  const int32_t device_;
  void* const workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, cublasLtMatmulAlgo_t> by_bucket_, by_shape_;
  std::set<Key> refused_;  // no algorithm does these shapes
};

// A product's descriptions, as the library takes them.
struct Library::Setup {
  Setup(const Functions& functions, const Matmul& a, uint32_t rows) : lt(functions) {
    auto kind = a.into == Matmul::Into::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasOperation_t turned = CUBLAS_OP_T;
    good = lt.MatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           lt.MatrixLayoutCreate(&weight, CUDA_R_16BF, a.inputs, a.outputs, a.inputs) == CUBLAS_STATUS_SUCCESS &&
           lt.MatrixLayoutCreate(&x, CUDA_R_16BF, a.inputs, rows, a.inputs) == CUBLAS_STATUS_SUCCESS &&
           lt.MatrixLayoutCreate(&out, kind, a.outputs, rows, a.outputs) == CUBLAS_STATUS_SUCCESS &&
           set(CUBLASLT_MATMUL_DESC_TRANSA, turned);
    if (good && a.bias) {
      cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      good = set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) && set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.bias);
    }
  }
  Setup(const Setup&) = delete;
  ~Setup() {
    if (product) lt.MatmulDescDestroy(product);
    for (auto layout : {weight, x, out})
      if (layout) lt.MatrixLayoutDestroy(layout);
  }
  template <class T>
  bool set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return lt.MatmulDescSetAttribute(product, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  }

  const Functions& lt;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
  bool good = false;
};

Library::Key Library::key_of(const Matmul& a, uint32_t rows) const {
  auto all = reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.weight.data) |
             reinterpret_cast<uintptr_t>(a.out) | reinterpret_cast<uintptr_t>(a.bias) | 256;
  auto alignment = uint32_t(1) << std::countr_zero(all);
  return {rows, a.outputs, a.inputs, uint32_t(a.into), a.bias != nullptr, alignment};
}

// Sums over parts of the inputs may be made apart and added in order, never by atomic additions into the result.
int Library::candidates(const Setup& setup, const Key& key, Candidates& out) {
  cublasLtMatmulPreference_t preference = nullptr;
  if (!setup.good || lt_.MatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return 0;
  uint64_t bytes = kWorkspace;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = std::get<5>(key);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  bool good =
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes) && set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    good = good && set(attribute, alignment);
  // Version 11 looks for algorithms without a bias unless it is told, and later ones look at the product.
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  if (lt_.major == 11 && std::get<4>(key)) good = good && set(kEpilogueMask, epilogue);
  int count = 0;
  good = good && lt_.MatmulAlgoGetHeuristic(handle_, setup.product, setup.weight, setup.x, setup.out, setup.out,
                                            preference, kCandidates, out.data(), &count) == CUBLAS_STATUS_SUCCESS;
  lt_.MatmulPreferenceDestroy(preference);
  if (!good) return 0;
  auto* end = std::stable_partition(out.data(), out.data() + count,
                                    [](const auto& found) { return found.state == CUBLAS_STATUS_SUCCESS; });
  return int(end - out.data());
}

// Milliseconds of some runs; infinite where it does not run.
float Library::time(const Launch& launch, const Setup& setup, const Matmul& a, const cublasLtMatmulAlgo_t& algorithm) {
  auto stream = static_cast<cudaStream_t>(launch.stream);
  cudaEvent_t begin = nullptr, end = nullptr;
  float took = INFINITY;
  bool good = cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess &&
              run(launch, setup, a, algorithm) == CUBLAS_STATUS_SUCCESS &&
              cudaEventRecord(begin, stream) == cudaSuccess;
  for (int i = 0; i < kTimedRuns && good; ++i) good = run(launch, setup, a, algorithm) == CUBLAS_STATUS_SUCCESS;
  good = good && cudaEventRecord(end, stream) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
         cudaEventElapsedTime(&took, begin, end) == cudaSuccess;
  for (auto event : {begin, end})
    if (event) cudaEventDestroy(event);
  if (!good) (void)cudaGetLastError();
  return good ? took : INFINITY;
}

// For some numbers of rows the library's likely best takes half as long again as another: 448 on an H100, in the shapes
// of Llama 8B.
int Library::fastest(const Launch& launch, const Setup& setup, const Matmul& a, const Candidates& found, int count) {
  std::array<float, kCandidates> times{};
  for (int i = 0; i < count; ++i) times[size_t(i)] = time(launch, setup, a, found[size_t(i)].algo);
  const auto best = std::min_element(times.begin(), times.begin() + count);
  return *best < kFaster * times[0] ? int(best - times.begin()) : 0;
}

// That of the bucket where it does for the very shape, and else one chosen for the shape.
const cublasLtMatmulAlgo_t* Library::algorithm(const Launch& launch, const Setup& setup, const Matmul& a) {
  Key shape = key_of(a, a.rows), bucket = key_of(a, row_bucket(a.rows));
  if (auto found = by_shape_.find(shape); found != by_shape_.end()) return &found->second;
  auto chosen = by_bucket_.find(bucket);
  if (chosen == by_bucket_.end()) {
    Candidates found{};
    const int count = candidates(Setup(lt_, a, row_bucket(a.rows)), bucket, found);
    const int best = a.timed && a.rows >= kTimedRows && count > 1 ? fastest(launch, setup, a, found, count) : 0;
    if (count > 0) chosen = by_bucket_.emplace(bucket, found[size_t(best)].algo).first;
  }
  cublasLtMatmulHeuristicResult_t result{};
  if (chosen != by_bucket_.end() &&
      lt_.MatmulAlgoCheck(handle_, setup.product, setup.weight, setup.x, setup.out, setup.out, &chosen->second,
                          &result) == CUBLAS_STATUS_SUCCESS &&
      result.workspaceSize <= kWorkspace)
    return &by_shape_.emplace(shape, chosen->second).first->second;
  Candidates found{};
  if (candidates(setup, shape, found) == 0) return nullptr;
  return &by_shape_.emplace(shape, found[0].algo).first->second;
}

cublasStatus_t Library::run(const Launch& launch, const Setup& setup, const Matmul& a,
                            const cublasLtMatmulAlgo_t& algorithm) {
  float scale = a.scale, old = a.into == Matmul::Into::kAddF32 ? 1 : 0;
  return lt_.Matmul(handle_, setup.product, &scale, a.weight.data, setup.weight, a.x, setup.x, &old, a.out, setup.out,
                    a.out, setup.out, &algorithm, workspace_, kWorkspace, static_cast<cudaStream_t>(launch.stream));
}

// The one that was chosen does not run: the first that does takes its place.
Code Library::run_another(const Launch& launch, const Setup& setup, const Matmul& a) {
  const Key shape = key_of(a, a.rows);
  by_shape_.erase(shape);
  Candidates found{};
  const int count = candidates(setup, shape, found);
  for (int i = 0; i < count; ++i) {
    const auto status = run(launch, setup, a, found[i].algo);
    if (status == CUBLAS_STATUS_SUCCESS) return by_shape_.emplace(shape, found[i].algo), 0;
    if (const auto code = Code(cudaGetLastError())) return code;
  }
  refused_.insert(shape);
  return kRefused;
}

Code Library::multiply(const Launch& launch, const Matmul& a) {
  if (auto code = cudaSetDevice(device_)) return Code(code);
  Setup setup(lt_, a, a.rows);
  if (!setup.good || refused_.contains(key_of(a, a.rows))) return kRefused;
  auto* chosen = algorithm(launch, setup, a);
  if (!chosen) return refused_.insert(key_of(a, a.rows)), kRefused;
  const auto status = run(launch, setup, a, *chosen);
  if (status == CUBLAS_STATUS_SUCCESS) return 0;
  const auto code = failure_of(status);
  return code == Code(kRefused) || code == Code(kBadShape) ? run_another(launch, setup, a) : code;
}

Code open_library(int32_t device, void* workspace, Library** out) {
  auto* all = functions();
  if (!all) return kNoLibrary;
  auto library = std::make_unique<Library>(*all, device, workspace);
  if (auto code = library->open()) return code;
  *out = library.release();
  return 0;
}
Code close_library(Library* library) {
  delete library;
  return 0;
}
Code library_matmul(const Launch& launch, Library& library, const Matmul& a) { return library.multiply(launch, a); }

}  // namespace weir::llm::cuda

#else

namespace weir::llm::cuda {

// The toolkit that this was built with has no cuBLASLt.
class Library {};
Code open_library(int32_t, void*, Library**) { return kNoLibrary; }
Code close_library(Library*) { return 0; }
Code library_matmul(const Launch&, Library&, const Matmul&) { return kNoLibrary; }

}  // namespace weir::llm::cuda

#endif
