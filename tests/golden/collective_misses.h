// The rows of tests/golden/collective_tables_test.cpp that miss the goal, with the errors that they
// reach, rounded up to a hundredth, and why.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace zplan {

struct KnownMiss {
  std::string_view row;  // "what/device/kind/class"
  double median, tail;   // at most, as a part of the measured time
};

inline constexpr KnownMiss kKnownMisses[] = {
    // The formula, without the measured times of the device. Pieces of a transfer start in steps,
    // which the formula smooths, and groups of L40S meet over two sockets.
    {"formula/a100_sxm/all_gather/1M-64M", 0.06, 0.28},
    {"formula/b200_sxm/all_gather/1M-64M", 0.04, 0.28},
    {"formula/b300_sxm/all_gather/1M-64M", 0.05, 0.27},
    {"formula/gb300/all_reduce/1M-64M", 0.11, 0.23},
    {"formula/l40s/all_gather/64K-1M", 0.07, 0.27},
    {"formula/l40s/all_reduce/1M-64M", 0.05, 0.28},
    {"formula/l40s/all_to_all/64K-1M", 0.11, 0.52},
    {"formula/l40s/all_to_all/64M-32G", 0.04, 0.76},
    {"formula/l40s/reduce_scatter/1M-64M", 0.06, 0.27},
    {"formula/l40s/reduce_scatter/64K-1M", 0.04, 0.30},
    {"formula/l40s/reduce_scatter/64M-32G", 0.07, 0.37},
    {"formula/rtx_pro_6000_server/all_gather/64K-1M", 0.08, 0.26},
    {"formula/rtx_pro_6000_server/all_reduce/64K-1M", 0.13, 0.26},
    {"formula/rtx_pro_6000_server/all_to_all/64K-1M", 0.06, 0.50},
    {"formula/rtx_pro_6000_server/reduce_scatter/64K-1M", 0.03, 0.27},
    // Every second measured size is left out. Protocols change in steps, at sizes that the formula
    // knows roughly.
    {"interpolated/a100_sxm/all_gather/1M-64M", 0.09, 0.30},
    {"interpolated/a100_sxm/reduce_scatter/1M-64M", 0.07, 0.29},
    {"interpolated/b200_sxm/all_gather/64K-1M", 0.02, 0.29},
    {"interpolated/b200_sxm/all_reduce/1M-64M", 0.05, 0.27},
    {"interpolated/b300_sxm/all_reduce/1M-64M", 0.06, 0.28},
    {"interpolated/gb200/all_reduce/1M-64M", 0.07, 0.27},
    {"interpolated/gb300/all_reduce/1M-64M", 0.04, 0.27},
    {"interpolated/h200_sxm/all_to_all/64K-1M", 0.05, 0.32},
    {"interpolated/l40s/all_gather/64K-1M", 0.05, 0.38},
    {"interpolated/l40s/all_gather/64M-32G", 0.01, 0.43},
    {"interpolated/l40s/all_to_all/64K-1M", 0.05, 0.32},
    {"interpolated/l40s/reduce_scatter/64K-1M", 0.09, 0.35},
    {"interpolated/rtx_pro_6000_server/all_gather/64K-1M", 0.01, 0.33},
    {"interpolated/rtx_pro_6000_server/all_reduce/64K-1M", 0.05, 0.27},
    {"interpolated/rtx_pro_6000_server/all_to_all/64K-1M", 0.05, 0.43},
    {"interpolated/rtx_pro_6000_server/reduce_scatter/64K-1M", 0.02, 0.32},
    // The constants of other families: starts differ by half, those of H100 are below both of its
    // neighbours, and PCIe servers differ by what their sockets exchange.
    {"no table/a100_sxm/all_gather/1M-64M", 0.23, 0.40},
    {"no table/a100_sxm/all_gather/64K-1M", 0.15, 0.18},
    {"no table/a100_sxm/all_gather/64M-32G", 0.11, 0.16},
    {"no table/a100_sxm/all_reduce/1M-64M", 0.16, 0.37},
    {"no table/a100_sxm/all_to_all/1M-64M", 0.20, 0.32},
    {"no table/a100_sxm/reduce_scatter/1M-64M", 0.16, 0.35},
    {"no table/b200_sxm/all_gather/1M-64M", 0.09, 0.33},
    {"no table/b200_sxm/all_reduce/1M-64M", 0.10, 0.28},
    {"no table/b200_sxm/all_reduce/64K-1M", 0.13, 0.19},
    {"no table/b200_sxm/all_to_all/64K-1M", 0.14, 0.21},
    {"no table/b200_sxm/all_to_all/64M-32G", 0.12, 0.35},
    {"no table/b200_sxm/reduce_scatter/1M-64M", 0.10, 0.29},
    {"no table/b300_sxm/all_gather/1M-64M", 0.12, 0.32},
    {"no table/b300_sxm/all_reduce/1M-64M", 0.14, 0.27},
    {"no table/b300_sxm/all_reduce/64K-1M", 0.13, 0.20},
    {"no table/b300_sxm/all_to_all/64K-1M", 0.11, 0.17},
    {"no table/b300_sxm/all_to_all/64M-32G", 0.09, 0.33},
    {"no table/b300_sxm/reduce_scatter/1M-64M", 0.13, 0.28},
    {"no table/gb200/all_reduce/1M-64M", 0.09, 0.31},
    {"no table/gb200/all_to_all/64K-1M", 0.16, 0.20},
    {"no table/gb200/all_to_all/64M-32G", 0.16, 0.37},
    {"no table/gb200/reduce_scatter/64K-1M", 0.11, 0.16},
    {"no table/gb300/all_gather/64K-1M", 0.14, 0.19},
    {"no table/gb300/all_reduce/1M-64M", 0.12, 0.30},
    {"no table/gb300/all_reduce/64K-1M", 0.12, 0.18},
    {"no table/gb300/all_to_all/64K-1M", 0.14, 0.17},
    {"no table/gb300/all_to_all/64M-32G", 0.12, 0.34},
    {"no table/gb300/reduce_scatter/1M-64M", 0.13, 0.17},
    {"no table/gb300/reduce_scatter/64K-1M", 0.14, 0.21},
    {"no table/h100_sxm/all_gather/1M-64M", 0.14, 0.53},
    {"no table/h100_sxm/all_gather/64K-1M", 0.64, 0.87},
    {"no table/h100_sxm/all_reduce/1M-64M", 0.16, 0.67},
    {"no table/h100_sxm/all_reduce/64K-1M", 0.68, 0.83},
    {"no table/h100_sxm/all_reduce/64M-32G", 0.10, 0.26},
    {"no table/h100_sxm/all_to_all/1M-64M", 0.36, 0.56},
    {"no table/h100_sxm/all_to_all/64K-1M", 0.41, 0.72},
    {"no table/h100_sxm/all_to_all/64M-32G", 0.09, 0.31},
    {"no table/h100_sxm/reduce_scatter/1M-64M", 0.26, 0.82},
    {"no table/h100_sxm/reduce_scatter/64K-1M", 0.75, 0.90},
    {"no table/h200_sxm/all_gather/1M-64M", 0.17, 0.54},
    {"no table/h200_sxm/all_gather/64K-1M", 0.68, 0.94},
    {"no table/h200_sxm/all_reduce/1M-64M", 0.21, 0.62},
    {"no table/h200_sxm/all_reduce/64K-1M", 0.70, 0.82},
    {"no table/h200_sxm/all_reduce/64M-32G", 0.10, 0.28},
    {"no table/h200_sxm/all_to_all/1M-64M", 0.34, 0.66},
    {"no table/h200_sxm/all_to_all/64K-1M", 0.39, 0.54},
    {"no table/h200_sxm/all_to_all/64M-32G", 0.17, 0.37},
    {"no table/h200_sxm/reduce_scatter/1M-64M", 0.24, 0.78},
    {"no table/h200_sxm/reduce_scatter/64K-1M", 0.78, 0.90},
    {"no table/l40s/all_gather/1M-64M", 0.57, 0.90},
    {"no table/l40s/all_gather/64K-1M", 0.31, 0.83},
    {"no table/l40s/all_gather/64M-32G", 0.60, 0.90},
    {"no table/l40s/all_reduce/1M-64M", 0.57, 0.87},
    {"no table/l40s/all_reduce/64K-1M", 0.24, 0.76},
    {"no table/l40s/all_reduce/64M-32G", 0.59, 0.88},
    {"no table/l40s/all_to_all/1M-64M", 0.59, 0.85},
    {"no table/l40s/all_to_all/64K-1M", 0.50, 0.89},
    {"no table/l40s/all_to_all/64M-32G", 0.62, 0.75},
    {"no table/l40s/reduce_scatter/1M-64M", 0.55, 0.86},
    {"no table/l40s/reduce_scatter/64K-1M", 0.32, 0.84},
    {"no table/l40s/reduce_scatter/64M-32G", 0.59, 0.86},
    {"no table/rtx_pro_6000_server/all_gather/1M-64M", 1.21, 7.67},
    {"no table/rtx_pro_6000_server/all_gather/64K-1M", 0.39, 2.03},
    {"no table/rtx_pro_6000_server/all_gather/64M-32G", 1.21, 7.76},
    {"no table/rtx_pro_6000_server/all_reduce/1M-64M", 1.34, 7.94},
    {"no table/rtx_pro_6000_server/all_reduce/64K-1M", 0.55, 2.22},
    {"no table/rtx_pro_6000_server/all_reduce/64M-32G", 1.31, 8.11},
    {"no table/rtx_pro_6000_server/all_to_all/1M-64M", 1.15, 5.42},
    {"no table/rtx_pro_6000_server/all_to_all/64K-1M", 0.53, 3.22},
    {"no table/rtx_pro_6000_server/all_to_all/64M-32G", 1.50, 6.82},
    {"no table/rtx_pro_6000_server/reduce_scatter/1M-64M", 1.22, 7.77},
    {"no table/rtx_pro_6000_server/reduce_scatter/64K-1M", 0.39, 2.00},
    {"no table/rtx_pro_6000_server/reduce_scatter/64M-32G", 1.20, 7.88},
    // Tables of others. Below 1 MiB they include launches, and one size of Lambda's took twice the
    // time of its neighbours. Over two nodes LL and LL128 change at other sizes than predicted. Of
    // A100 over EFA 4 MiB fill a tree sooner than predicted. All-reduces on 64 and more GPUs of
    // Together reach 0.7 to 0.8 of their ports, those of CoreWeave 0.97. The rate of TCPX differs
    // between two sources.
    {"unseen/aws_p4de x 16/all_reduce/1M-64M", 0.06, 0.33},
    {"unseen/azure_nd_a100_v4 x 8/all_reduce/1M-64M", 0.22, 0.25},
    {"unseen/azure_nd_a100_v4 x 8/all_reduce/64K-1M", 0.37, 0.40},
    {"unseen/dstack_gcp_a3_high x 16/all_gather/1M-64M", 0.22, 0.36},
    {"unseen/dstack_gcp_a3_high x 16/all_gather/64M-32G", 0.25, 0.32},
    {"unseen/dstack_lambda_b200 x 16/all_reduce/1M-64M", 0.05, 0.42},
    {"unseen/dstack_lambda_b200 x 16/all_reduce/64K-1M", 0.11, 0.74},
    {"unseen/together_b200 x 128/all_reduce/64M-32G", 0.14, 0.24},
    {"unseen/together_b200 x 256/all_reduce/64M-32G", 0.25, 0.27},
    {"unseen/together_b200 x 512/all_reduce/64M-32G", 0.23, 0.26},
    {"unseen/together_b200 x 64/all_reduce/64M-32G", 0.13, 0.14},
    // The same of pages that print a time which a constant of the catalogue comes from.
    {"informed/aws_p5 x 16/all_reduce/1M-64M", 0.07, 0.30},
    {"informed/aws_p5 x 16/all_reduce/64K-1M", 0.14, 0.33},
    {"informed/dstack_nebius_h100 x 16/all_reduce/64K-1M", 0.13, 0.35},
    {"informed/gcp_a3_mega x 16/all_gather/64K-1M", 0.07, 0.27},
};

inline const KnownMiss* find_miss(std::string_view row) {
  const auto* const at = std::find_if(std::begin(kKnownMisses), std::end(kKnownMisses),
                                      [&](const KnownMiss& one) { return one.row == row; });
  return at == std::end(kKnownMisses) ? nullptr : at;
}

}  // namespace zplan
