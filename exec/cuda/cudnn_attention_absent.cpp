// A build without cuDNN: the device's attention is our own.
#include "exec/cuda/cudnn_attention.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {

struct AttentionGraph {};
struct CudnnAttention::Library {};

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;

CudnnAttention::Offer CudnnAttention::prepare(const AttentionKey&, Bytes) {
  return {.runs = false, .workspace = Bytes{0}, .note = "built without cuDNN"};
}

void CudnnAttention::run(cudaStream_t, const AttentionKey&, const AttentionPointers&) {
  ZPLAN_ASSERT(!"no plan was offered");
}

}  // namespace zplan::exec::cuda
