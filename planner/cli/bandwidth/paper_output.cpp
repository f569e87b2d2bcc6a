#include <fmt/format.h>

#include <iterator>

#include "planner/cli/bandwidth/bandwidth.h"
#include "planner/cli/bandwidth/claims.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"

namespace zplan {
namespace {

// One panel of Fig. 3: a row per bandwidth, a column per batch or hidden size.
struct Panel {
  std::string_view key;
  std::vector<double> bandwidths;  // GB/s
  std::vector<double> sizes;
  std::string_view size;  // "bsz"
  double (*intensity)(double size);
};

const Panel kPanels[] = {
    {"parameters_and_gradients",
     {10, 20, 40, 70, 100, 200, 400, 1000},
     {1, 2, 4, 8, 16},
     "bsz",
     [](double size) {
       return printed_intensities(1, {size, kInfinitySequence, 1}).parameters;
     }},
    {"optimizer_states",
     {40, 100, 280, 500, 1000, 1500, 3000, 6000},
     {1, 2, 4, 8, 16},
     "bsz",
     [](double size) {
       return printed_intensities(1, {size, kInfinitySequence, 1}).optimizer;
     }},
    {"activation_checkpoints",
     {0.25, 0.5, 1, 2, 3, 4, 8, 16},
     {2048, 8192, 16384, 32768, 65536},
     "hd",
     [](double size) {
       return printed_intensities(size, {1, kInfinitySequence, 1}).checkpoints;
     }},
};

// {"curves": [{"bandwidth_bytes_per_s", "efficiencies": [..]}, ..]}
Sheet panel_sheet(const Panel& panel) {
  std::vector<Column> columns{{"bandwidth_bytes_per_s", "bandwidth"}};
  for (const double size : panel.sizes) {
    const std::string title = fmt::format("{} {:g}", panel.size, size);
    columns.emplace_back(title, title);
  }
  Table table(columns);
  for (const double bandwidth : panel.bandwidths) {
    const BytesPerSecond rate{bandwidth * kGiga};
    Sheet row{{"bandwidth_bytes_per_s", rate}};
    for (std::size_t i = 0; i < panel.sizes.size(); ++i)
      row.fact(columns[i + 1].key,
               share(infinity_efficiency(panel.intensity(panel.sizes[i]), rate, kInfinityPeak)));
    table.row(row);
  }
  Sheet out;
  out.table("curves", table, kIndent);
  return out;
}

Table devices_table() {
  Table table({"device", "peak_flop_per_s: peak", "slow_bytes_per_s: slow memory, each",
               "aggregate_bytes_per_s: all 512", "optimizer_efficiency: efficiency",
               "gpu_bytes_per_s: GPU to GPU", "parameters_efficiency: efficiency"});
  for (const InfinityDevice& device : kInfinityTable3) {
    const InfinityIntensities one = printed_intensities(1, {1, kInfinitySequence, 1});
    const InfinityIntensities two = printed_intensities(1, {2, kInfinitySequence, 1});
    table.row({{"device", device.name},
               {"peak_flop_per_s", device.peak},
               {"slow_bytes_per_s", device.slow_memory},
               {"aggregate_bytes_per_s", device.aggregate},
               {"optimizer_efficiency",
                share(infinity_efficiency(two.optimizer, device.aggregate, device.peak))},
               {"gpu_bytes_per_s", device.gpu_to_gpu},
               {"parameters_efficiency",
                share(infinity_efficiency(one.parameters, device.gpu_to_gpu, device.peak))}});
  }
  return table;
}

}  // namespace

Sheet paper_sheet() {
  Sheet out("zplan.bandwidth/1");
  const InfinityIntensities one = printed_intensities(1, {1, kInfinitySequence, 1});
  const BytesPerSecond half = bandwidth_for(0.5, one.parameters, kInfinityPeak);
  out.facts({{"peak_flop_per_s", kInfinityPeak},
             {"sequence", kInfinitySequence},
             {"parameters_half_bytes_per_s", half},
             {"optimizer_half_bytes_per_s", bandwidth_for(0.5, one.optimizer, kInfinityPeak)}});
  out.say(
      "Half of the peak takes {parameters_half_bytes_per_s} for parameters and gradients, "
      "{optimizer_half_bytes_per_s} for optimizer states (bsz 1)");
  out.say(
      "ZeRO-Infinity, section 4: seq {sequence}, peak {peak_flop_per_s}, no overlap, one "
      "checkpoint per layer; all bandwidth that the GPUs have together for one copy of a state");
  const std::string_view titles[] = {"Parameters and gradients (Fig. 3a): seq x bsz flop per byte",
                                     "Optimizer states (Fig. 3b): seq x bsz / 4",
                                     "Activation checkpoints (Fig. 3c): 24 hd ci"};
  for (std::size_t i = 0; i < std::size(kPanels); ++i) {
    const Sheet panel = panel_sheet(kPanels[i]);
    out.fact(kPanels[i].key, panel["curves"]);
    out.print(fmt::format("\n{}\n{}", titles[i], panel.text()));
  }
  out.heading(
      "512 devices of V100's compute and more (Table 3): bsz 2 for optimizer states, 1 for "
      "parameters");
  out.table("devices", devices_table(), kIndent);
  say_claims(out);
  return out;
}

}  // namespace zplan
