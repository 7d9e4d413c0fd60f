// GpuWatch: reads the machine's GPUs once a second, through the driver's management library (NVML), which is opened at
// run time. Asking may take milliseconds, so a thread of its own does it; readers get what it saw last.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/gpu.h"
#include "base/status.h"

namespace weir::device {

class GpuWatch {
 public:
  static constexpr auto kPeriod = std::chrono::seconds(1);

  // Reads once before it returns. Errors: FAILED_PRECONDITION when there is no library or no GPU.
  static base::Result<std::unique_ptr<GpuWatch>> open(const char* library = "libnvidia-ml.so.1",
                                                      std::chrono::milliseconds period = kPeriod);
  ~GpuWatch();

  // Any thread.
  std::vector<base::Gpu> latest() const;

 private:
  struct Nvml;
  GpuWatch(std::unique_ptr<Nvml> nvml, std::chrono::milliseconds period);
  void run(std::chrono::milliseconds period);

  const std::unique_ptr<Nvml> nvml_;  // of the thread
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<base::Gpu> latest_;  // under mutex_
  bool ending_ = false;            // under mutex_
  std::thread thread_;
};

}  // namespace weir::device
