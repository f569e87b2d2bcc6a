// A GPU that is not there, as cuDNN (9.8 and later) is told of it to plan for it. Figures: NVIDIA's
// architecture white papers of A100, H100 and Blackwell, and the table of compute capabilities in
// the CUDA C++ Programming Guide.
#pragma once

#include <cudnn_frontend.h>

#include <memory>

namespace zplan::testing_support {

struct DescribedDevice {
  int capability;     // 90: compute capability 9.0
  int processors;     // streaming multiprocessors
  int shared_memory;  // bytes that a block may opt in to
  int cache;          // bytes of the second level
};

inline constexpr DescribedDevice kH100{90, 132, 232448, 50 << 20};
inline constexpr DescribedDevice kA100{80, 108, 166912, 40 << 20};
inline constexpr DescribedDevice kB200{100, 148, 232448, 126 << 20};

// From then on it is the CUDA runtime's only device. Throws std::runtime_error with cuDNN's words.
std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_of(
    const DescribedDevice& device);

}  // namespace zplan::testing_support
