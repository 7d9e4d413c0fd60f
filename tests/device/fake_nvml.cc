// libnvidia-ml.so.1 without a GPU: two of them, the second of which has no power meter. Every reading of a device's
// use is one percent higher than the last.
#include <atomic>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
char devices[2];
std::atomic<unsigned> use{40};
constexpr int kNotSupported = 3;
}  // namespace

EXPORT int nvmlInit_v2() { return std::getenv("WEIR_FAKE_NVML_DOWN") ? 9 : 0; }
EXPORT int nvmlShutdown() { return 0; }
EXPORT const char* nvmlErrorString(int) { return "Driver Not Loaded"; }
EXPORT int nvmlDeviceGetCount_v2(unsigned* n) { return *n = 2, 0; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** out) { return *out = &devices[i], 0; }
EXPORT int nvmlDeviceGetUUID(void* d, char* out, unsigned size) {
  std::strncpy(out, d == &devices[0] ? "GPU-aaaa" : "GPU-bbbb", size);
  return 0;
}
EXPORT int nvmlDeviceGetName(void*, char* out, unsigned size) {
  std::strncpy(out, "Fake H100", size);
  return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void* d, Utilization* out) {
  *out = {d == &devices[0] ? use++ : 5, 20};
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
  *out = {80ull << 30, 79ull << 30, 1ull << 30};
  return 0;
}
EXPORT int nvmlDeviceGetPowerUsage(void* d, unsigned* mw) {
  if (d != &devices[0]) return kNotSupported;
  return *mw = 123'456, 0;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* d, unsigned* mw) {
  if (d != &devices[0]) return kNotSupported;
  return *mw = 700'000, 0;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* d, unsigned long long* mj) {
  if (d != &devices[0]) return kNotSupported;
  return *mj = 5'000'500, 0;
}
