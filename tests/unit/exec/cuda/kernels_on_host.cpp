// All kernels of exec/cuda/kernels and their launches, compiled for the host.
#include "tests/support/cuda_on_host.h"

#include "exec/cuda/kernels/adamw.cu"
#include "exec/cuda/kernels/column_sums.cu"
#include "exec/cuda/kernels/cross_entropy.cu"
#include "exec/cuda/kernels/elementwise.cu"
#include "exec/cuda/kernels/embedding.cu"
#include "exec/cuda/kernels/gradient_norm.cu"
#include "exec/cuda/kernels/norm.cu"
#include "exec/cuda/kernels/partials.cu"
#include "exec/cuda/kernels/rope.cu"
#include "exec/cuda/kernels/share.cu"
#include "exec/cuda/kernels/softmax.cu"
