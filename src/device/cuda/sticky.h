// The errors after which a device's context does not work any more, as numbers of cudaError_t: older toolkits do not
// know all of their names. Standard library only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace weir::device::cuda {

inline constexpr int32_t kSticky[] = {
    // The runtime's header says of these that the process must be terminated and relaunched.
    226,  // cudaErrorContained
    700,  // cudaErrorIllegalAddress
    702,  // cudaErrorLaunchTimeout
    710,  // cudaErrorAssert
    714,  // cudaErrorHardwareStackError
    715,  // cudaErrorIllegalInstruction
    716,  // cudaErrorMisalignedAddress
    717,  // cudaErrorInvalidAddressSpace
    718,  // cudaErrorInvalidPc
    719,  // cudaErrorLaunchFailure
    721,  // cudaErrorTensorMemoryLeak
    810,  // cudaErrorMpsClientTerminated
    911,  // cudaErrorExternalDevice
    // These come from hardware or a context that is gone, and every later call has them, too.
    46,   // cudaErrorDevicesUnavailable
    214,  // cudaErrorECCUncorrectable
    220,  // cudaErrorNvlinkUncorrectable
    709,  // cudaErrorContextIsDestroyed
    802,  // cudaErrorSystemNotReady
    999,  // cudaErrorUnknown
};

constexpr bool is_lost_by(int32_t code) {
  return std::find(std::begin(kSticky), std::end(kSticky), code) != std::end(kSticky);
}

}  // namespace weir::device::cuda
