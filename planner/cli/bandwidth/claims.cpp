#include "planner/cli/bandwidth/claims.h"

#include <fmt/format.h>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "models/zero_infinity.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"

namespace zplan {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kHalf = 2;  // bytes of an element
constexpr double kSequence =
    1024;                         // [Rajbhandari21 sec 8.1]; of [Rajbhandari20] and [Ren21] assumed
constexpr double kPerLayer = 12;  // parameters of a layer over hd^2 [Rajbhandari21 Eq. 1]
constexpr double kGpusOfTable1 = 512;

double parameters(double layers, double hidden) { return kPerLayer * layers * hidden * hidden; }

// 20 bytes per parameter, as [Rajbhandari21 sec 3] counts them.
double states_of_1t() { return printed_memory(load_model("zero-infinity-1t"), {}).states_20; }

// Of its widths alone, [Rajbhandari21 Fig. 2a]'s first row.
double working_states_of_100b() {
  ModelConfig model = load_model("zero-infinity-100b");
  model.layers = 80;
  model.hidden = 10240;
  model.ffn = 4 * model.hidden;
  return printed_memory(model, {}).working_states;
}

// 25 PFLOP/s on 512 V100, without the operations of recomputation: 6 of 8.
double share_without_replay() {
  const FlopsPerSecond peak = load_cluster("dgx2").node.device.peak("fp16");
  return 25e15 / kGpusOfTable1 / peak.value * 6 / 8;
}

// Checkpoints' bytes per flop fall as 1 / hd: what a slow-down of 20.5 % at 2,048 comes to at
// 16,384 [Rajbhandari21 Fig. 6e, Eq. 11].
double slow_down_at_16k() {
  const auto intensity = [](double hidden) {
    return printed_intensities(hidden, {1, kSequence, 1}).checkpoints;
  };
  return 0.205 * intensity(2048) / intensity(16384);
}

std::string words(double value, ClaimUnit unit) {
  switch (unit) {
    case ClaimUnit::kGigabytes:
      return fmt::format("{:.1f} GB", value);
    case ClaimUnit::kGibibytes:
      return fmt::format("{:.2f} GiB", value);
    case ClaimUnit::kGpus:
      return fmt::format("{:.0f} GPUs", value);
    case ClaimUnit::kShare:
      return percent(value);
    case ClaimUnit::kBillions:
      return fmt::format("{:.1f} B", value);
    case ClaimUnit::kCount:
      break;
  }
  return fmt::format("{:g}", value);
}

}  // namespace

std::vector<Claim> paper_claims() {
  const double v100 = static_cast<double>(load_cluster("dgx2").node.device.memory.value);
  const double states = states_of_1t();
  return {
      {"[Rajbhandari21] abstract", "V100s that it takes to fit 1T parameters", 800,
       "20 B x 1.01T / memory of a V100", states / v100, ClaimUnit::kGpus, "Table 1 has it on 512",
       "zplan --model 1T --cluster dgx2x40 --zero 3 --tp 16 --pp 8 --not offload --simulations 1"},
      {"[Rajbhandari21 Table 1]", "all states of 1T on 512 V100, the memory of each", v100 / kGiga,
       "20 B x 1.01T / 512", states / kGpusOfTable1 / kGiga, ClaimUnit::kGigabytes,
       "16 B are 31.5 GB, which leaves no room for anything else",
       "zplan --model 1T --cluster dgx2x32 --tp 4 --pp 1 --zero 3 --not offload"},
      {"[Rajbhandari21] abstract", "share of the peak at 25 PFLOP/s on 512 V100", 0.40,
       "25e15 / 512 / 125e12 x 6 / 8", share_without_replay(), ClaimUnit::kShare,
       "printed with the operations of recomputation; MFU leaves them out",
       "zplan explain --model 10B --cluster dgx2 time.mfu"},
      {"[Rajbhandari21 Fig. 2a]", "working memory of model states, 80 layers of 10,240", 1.95,
       "16 hd^2 B, as in the other four rows", working_states_of_100b() / kGiB,
       ClaimUnit::kGibibytes, "20 hd^2 give what is printed",
       "zplan memory --model 10B --cluster dgx2"},
      {"[Rajbhandari21 sec 4.1]", "loads of the parameters in a micro-step", 3,
       "forward, replay; backward goes on with what was replayed", 2, ClaimUnit::kCount,
       "where a layer is gathered at a time; by operators it is nearly 3",
       "zplan bandwidth --model 10B --cluster dgx2 --zero 3 --params cpu --recompute full "
       "--gather layer"},
      {"[Rajbhandari21 Fig. 6a]", "largest model with states on the CPU of a DGX-2", 70,
       "12 x 125 x 8192^2, the shape of Table 4", parameters(125, 8192) / kGiga,
       ClaimUnit::kBillions, "16 B per parameter take 1.6 TB of its 1.5 TiB",
       "zplan max --cluster dgx2 --family infinity-cpu"},
      {"[Rajbhandari21 Fig. 6e]", "slow-down by checkpoints on the CPU at hidden 16,384", 0.19,
       "20.5 % at 2,048, 24 hd flop per byte", slow_down_at_16k(), ClaimUnit::kShare,
       "what kept copies of larger models slow is not published",
       "zplan bandwidth --model zero-infinity-50b --cluster dgx2 --activations cpu"},
      {"[Ren21 Table 1]", "bytes per parameter left on the GPU, last row", 4,
       "16 B / 8, the saving that stands beside it", 16.0 / 8, ClaimUnit::kCount,
       "2 B are the fp16 parameters", "zplan explain --model 10B --cluster dgx2 placement"},
      {"[Ren21 Table 3]", "40B with model parallelism 2, the memory of a V100", v100 / kGiga,
       "fp16 parameters alone, 2 B x 12 x 50 x 8192^2 / 2",
       kHalf * parameters(50, 8192) / 2 / kGiga, ClaimUnit::kGigabytes,
       "4 is the smallest degree that fits; 8 for 60B",
       "zplan max --cluster dgx2 --family zero-offload-tp"},
      {"[Rajbhandari20 sec 3.2]", "checkpoints of 100B, 32 sequences of 1,024", 60,
       "2 B x 32 x 1024 x 8192 x 125", kHalf * 32 * kSequence * 8192 * 125 / kGiga,
       ClaimUnit::kGigabytes, "sec 6.1 prints 33 GB of the same",
       "zplan memory --model zero-infinity-100b --cluster dgx2x4 --tp 16 --micro-batch 32 "
       "--recompute full"},
  };
}

void say_claims(Sheet& out) {
  const Value claims = each(paper_claims(), [](const Claim& claim) {
    Sheet one{{"source", claim.source},
              {"what", claim.what},
              {"printed", {claim.printed, words(claim.printed, claim.unit)}},
              {"counted", {claim.counted, words(claim.counted, claim.unit)}},
              {"formula", claim.formula},
              {"remark", claim.remark},
              {"command", claim.command}};
    one.say("{source}: {what}: {printed}", {}, kIndent);
    one.say("counted {counted}: {formula}; {remark}", {}, 2 * kIndent);
    one.print(fmt::format("{:{}}./{}\n", "", 2 * kIndent, claim.command));
    return one;
  });
  out.heading("Figures of the papers that counting contradicts, and what shows it");
  out.fact("claims", claims);
  out.show({"claims"});
}

}  // namespace zplan
