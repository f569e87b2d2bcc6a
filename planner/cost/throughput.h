// Throughput figures of a step time. TFLOP/s = 1e12 flop per second.
//   tokens/s           global batch x sequence / period
//   model TFLOP/s      model flop of the step (given) / period / GPUs; no recomputation
//   hardware TFLOP/s   flop of the Job's matrix products and attention / period / GPUs: what the
//                      GPUs did, recomputation included, causal attention counted half
//   MFU, HFU           each over the device's peak for the type of the matrix products
#pragma once

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan {

struct Throughput {
  double tokens_per_second = 0;
  double model_tflops_per_gpu = 0;
  double hardware_tflops_per_gpu = 0;
  double peak_tflops = 0;
  double mfu = 0;  // fractions of the peak; 0 when the job has no matrix product
  double hfu = 0;
};

Throughput throughput(const Job& job, const Cluster& cluster, Seconds period,
                      double model_flops_per_step);

}  // namespace zplan
