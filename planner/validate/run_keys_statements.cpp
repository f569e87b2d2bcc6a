// Keys of what a record is, of its hardware and of what was measured.
#include "planner/validate/run_key_rows.h"

namespace zplan {
namespace {

using namespace rows;
using enum RunKeyKind;
using enum RunKeyUse;

std::vector<RunKey> record_keys() {
  return {
      bound<&RunRecord::id>("/id", {.use = kStatement,
                                    .meaning = "a name of the record, once in a file",
                                    .example = R"("mine/llama-8b-8gpu")",
                                    .required = true,
                                    .shown = true}),
      bound<&RunRecord::group>("/group", {.use = kStatement,
                                          .meaning = "runs that statistics are made of together",
                                          .example = R"("mine")",
                                          .required = true,
                                          .shown = true}),
      bound<&RunRecord::source>("/source",
                                {.use = kStatement,
                                 .meaning = "who printed it where; no word of it is interpreted",
                                 .example = R"("measured by us, 2026-01-15")",
                                 .required = true,
                                 .shown = true}),
      fact("/confidence", kText, kStatement,
           {.meaning =
                "stored: all was read in the source; partly_recalled: not what recalled names",
            .example = R"("stored")"}),
      fact("/recalled", kTexts, kStatement,
           {.meaning = "fields from memory or assumed", .example = R"(["model/vocab"])"}),
      fact("/note", kText, kStatement,
           {.meaning = "remarks for people", .example = R"("three steps after one to warm up")"}),
  };
}

std::vector<RunKey> hardware_keys() {
  return {
      bound<&RunRecord::hardware, &RunHardware::device>(
          "/hardware/device", {.meaning = "id of a device (zplan schema zplan.devices/1)",
                               .example = R"("h100_sxm5_80gb")",
                               .required = true,
                               .shown = true}),
      bound<&RunRecord::hardware, &RunHardware::system>(
          "/hardware/system",
          {.meaning = "id of a system", .example = R"("dgx_h100")", .shown = true}),
      bound<&RunRecord::hardware, &RunHardware::gpus_per_node>(
          "/hardware/gpus_per_node",
          {.meaning = "GPUs used of each node", .example = "8", .required = true, .shown = true}),
      bound<&RunRecord::hardware, &RunHardware::nodes>(
          "/hardware/nodes",
          {.meaning = "nodes used", .example = "1", .required = true, .shown = true}),
      bound<&RunRecord::hardware, &RunHardware::gpus>(
          "/hardware/gpus",
          {.meaning = "gpus_per_node x nodes", .example = "8", .required = true, .shown = true}),
      bound<&RunRecord::hardware, &RunHardware::scale_out_gb_s_per_gpu>(
          "/hardware/scale_out_gb_s_per_gpu",
          {.meaning = "GB/s between nodes, per GPU and direction, nominal",
           .example = "25",
           .least = kAboveZero}),
      bound<&RunRecord::hardware, &RunHardware::ports_per_gpu>(
          "/hardware/ports_per_gpu",
          {.meaning = "network ports of a node over its GPUs; below 1 GPUs share them",
           .example = "0.5",
           .least = 1e-3,
           .most = 64}),
      bound<&RunRecord::hardware, &RunHardware::nvlink_domain>(
          "/hardware/nvlink_domain",
          {.meaning =
               "GPUs that share the peer link, used or not: of a node, or of nodes of a rack",
           .example = "16"}),
      fact("/hardware/network", kText, kStatement,
           {.meaning = "what joins the nodes", .example = R"("InfiniBand NDR")"}),
  };
}

std::vector<RunKey> measured_keys() {
  return {
      bound<&RunRecord::measured, &RunMeasured::step_time_s>(
          "/measured/step_time_s", {.meaning = "seconds of an optimizer step",
                                    .example = "18.8",
                                    .least = kAboveZero,
                                    .shown = true}),
      bound<&RunRecord::measured, &RunMeasured::step_time_kind>(
          "/measured/step_time_kind",
          {.use = kStatement,
           .meaning =
               "measured: printed; from_tokens_per_s ..: worked out; simulated: no machine ran it",
           .example = R"("measured")",
           .shown = true}),
      fact("/measured/printed/value", kPrinted, kStatement,
           {.meaning = "the figure that the source prints", .example = "1.5"}),
      fact("/measured/printed/unit", kText, kStatement,
           {.meaning = "its unit", .example = R"("s")"}),
      bound<&RunRecord::measured, &RunMeasured::memory_gib>("/measured/memory_gib",
                                                            {.meaning = "GiB of a GPU at the peak",
                                                             .example = "61.2",
                                                             .least = kAboveZero,
                                                             .shown = true}),
      fact("/measured/memory_gb", kNumber, kPlan,
           {.meaning = "the same in GB of 1e9 bytes: one of the two",
            .example = "65.7",
            .least = kAboveZero}),
      bound<&RunRecord::measured, &RunMeasured::memory_kind>(
          "/measured/memory_kind",
          {.meaning = "what it counts: bytes that tensors take, segments of the allocator, or all "
                      "that the device has in use",
           .example = R"("allocator_peak")",
           .words = "allocator_peak|reserved_peak|nvidia_smi",
           .shown = true}),
      bound<&RunRecord::measured, &RunMeasured::memory_rank>(
          "/measured/memory_rank",
          {.meaning = "whose GPU: of the first or last rank, or that which needs most",
           .example = R"("first")",
           .words = "first|last|highest|unknown",
           .shown = true}),
      bound<&RunRecord::measured, &RunMeasured::out_of_memory>(
          "/measured/out_of_memory", {.meaning = "the run did not fit", .example = "true"}),
      fact("/measured/out_of_memory_by_fragmentation", kFlag, kStatement,
           {.meaning = "what is free and reserved would have been enough", .example = "true"}),
      fact("/measured/also_printed", kTexts, kStatement,
           {.meaning = "other figures of the source, in its words",
            .example = R"(["321 TFLOP/s per GPU", "7,900 tokens/s per GPU"])"}),
  };
}

}  // namespace

std::vector<RunKey> statement_keys() {
  return together({record_keys(), hardware_keys(), measured_keys()});
}

}  // namespace zplan
