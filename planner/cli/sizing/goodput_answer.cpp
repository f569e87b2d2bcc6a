#include "planner/cli/sizing/goodput_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

// Token numbers of up to 2^16 words take two bytes on disk, others four.
constexpr std::int64_t kTwoByteVocab = 65536;
// [Dubey24 secs 3.3.1, 3.3.4] sustained throughput of the storage of that run.
constexpr BytesPerSecond kLlamaStorage{2e12};
constexpr double kLlamaParameters = 405e9;
constexpr double kAdamCheckpoint = 14;  // bytes per parameter: 2 + 4 + 4 + 4

std::string decimal_bytes(double bytes) {
  return bytes < 1000 * kGiga ? fmt::format("{:.3g} GB", bytes / kGiga)
                              : fmt::format("{:.3g} TB", bytes / (1000 * kGiga));
}

// `source`: of how often they come and what a restart takes.
void say_failures(Sheet& out, const Goodput& found, const Failures& failures, Seconds write,
                  std::string_view source) {
  out.facts({{"mtbf_s", failures.mtbf},
             {"restart_s", failures.restart},
             {"write_s", write},
             {"interval_s", found.interval},
             {"young_interval_s", found.young},
             {"effective_share", found.effective},
             {"checkpoint_share", found.checkpointing},
             {"rework_share", found.rework},
             {"restart_share", found.restarting}});
  out.print(
      paragraph(fmt::format("Failures: one in {}; restart {}{}. Checkpoint written in {}, every {} "
                            "[Daly06 Eq. 37] ({} by Young's sqrt(2 d M) [Young74])",
                            run_words(failures.mtbf), run_words(failures.restart), source,
                            run_words(write), run_words(found.interval), run_words(found.young)),
                kIndent));
  out.print(paragraph(
      fmt::format("Time: {} useful, {} writing checkpoints, {} work done again, {} restarts "
                  "[Daly06 Eq. 20]",
                  percent(found.effective), percent(found.checkpointing), percent(found.rework),
                  percent(found.restarting)),
      kIndent));
}

void say_cost(Sheet& out, const GoodputAnswer& answer, const RunningCost& cost) {
  std::optional<double> money, energy;
  if (answer.ends()) {
    money = cost.money(answer.device_hours());
    energy = cost.megawatt_hours(answer.node_hours());
  }
  out.facts({{"money", money},
             {"price_source", cost.price ? Value(cost.price_source) : Value()},
             {"energy_mwh", energy},
             {"node_watts", cost.watts},
             {"power_source", cost.watts ? Value(cost.watts_source) : Value()}});
  if (energy)
    out.print(paragraph(fmt::format("Energy: at most {:.3g} MWh: {}, {}", *energy,
                                    count_of(answer.nodes, "node"), power_words(cost)),
                        kIndent));
  if (money)
    out.print(paragraph(fmt::format("Money: {} at {:g} a GPU-hour ({})", format_count(*money),
                                    *cost.price, cost.price_source),
                        kIndent));
}

// The first line of the answer.
std::string verdict_of(const GoodputAnswer& answer) {
  const std::string tokens = format_count(answer.tokens);
  const std::string steps = run_words(answer.step * answer.steps);
  if (!answer.ends())
    return fmt::format("{} tokens never end: {} of steps, but a failure every {}", tokens, steps,
                       run_words(answer.failures.mtbf));
  return fmt::format("{} tokens take {}: {} of steps, {} of the time useful", tokens,
                     run_words(answer.time()), steps, percent(answer.goodput.effective));
}

}  // namespace

std::string amount_words(double amount) {
  return amount < 1000 ? fmt::format("{:.3g}", amount) : format_count(amount);
}

std::string hours_words(double hours) {
  const std::string number = amount_words(hours);
  return fmt::format("{} GPU-hour{}", number, number == "1" ? "" : "s");
}

std::string run_words(Seconds time) {
  constexpr double kMinute = 60;
  if (time.value < 2 * kMinute) return format_seconds(time);
  if (time.value < 2 * kSecondsPerHour) return fmt::format("{:.1f} min", time.value / kMinute);
  if (time.value < 2 * kSecondsPerDay) return fmt::format("{:.1f} h", time.value / kSecondsPerHour);
  return fmt::format("{:.1f} days", time.value / kSecondsPerDay);
}

std::string run_words(const GoodputAnswer& answer) {
  if (answer.ends()) return run_words(answer.time());
  return fmt::format("never: a failure every {}", run_words(answer.failures.mtbf));
}

GoodputAnswer find_goodput(const Job& job, double parameters, std::int64_t vocab,
                           const Cluster& cluster, Seconds period, double tokens,
                           const FailureSettings& settings) {
  const auto or_else = [](auto given, auto usual) { return given.value < 0 ? usual : given; };
  std::optional<BytesPerSecond> shared;
  if (settings.storage.value > 0) shared = settings.storage;
  const int per_node = cluster.node.devices_per_node;
  const int nodes = (job.world() + per_node - 1) / per_node;
  GoodputAnswer answer{.tokens = tokens,
                       .step = period * settings.stragglers,
                       .stragglers = settings.stragglers,
                       .checkpoint = checkpoint_bytes(job),
                       .parameters = parameters,
                       .path = checkpoint_path(cluster, nodes, shared),
                       .shared_storage = shared.has_value(),
                       .failures = {},
                       .goodput = {},
                       .devices = static_cast<double>(job.world()),
                       .nodes = nodes,
                       .read = storage_read(cluster, nodes, shared)};
  if (answer.path.rate().value <= 0)
    throw_bad_input(
        fmt::format("--storage: expected a rate (\"100 GB/s\"), since nodes of {} have no drives",
                    cluster.node.name));
  const double tokens_per_step = static_cast<double>(job.global_batch * job.sequence);
  answer.steps = std::ceil(tokens / tokens_per_step);
  answer.write = {answer.checkpoint.total() / answer.path.rate().value};
  const Seconds mtbf = or_else(settings.device_mtbf, kLlamaDeviceMtbf);
  answer.failures = {.mtbf = mtbf / answer.devices,
                     .restart = or_else(settings.restart, kUsualRestart)};
  if (settings.device_mtbf.value < 0)
    answer.failures_source = ", assumed to be as often per GPU as of the H100 of Llama 3 [Dubey24]";
  answer.goodput = goodput(answer.write, answer.failures);
  answer.data_bytes = tokens_per_step * (vocab <= kTwoByteVocab ? 2 : 4);
  answer.data_rate = {answer.data_bytes / answer.step.value};
  return answer;
}

Sheet goodput_sheet(const GoodputAnswer& answer, const RunningCost& cost,
                    const std::string& title) {
  Sheet out("zplan.goodput/1");
  out.facts({{"tokens", answer.tokens},
             {"step_s", answer.step},
             {"straggler_factor", answer.stragglers},
             {"steps", answer.steps},
             {"devices", answer.devices},
             {"days", answer.ends() ? Value(answer.days()) : Value()},
             {"days_without_failures", answer.ideal_days()},
             {"gpu_hours", answer.ends() ? Value(answer.device_hours()) : Value()},
             {"parameters", answer.parameters},
             {"checkpoint_bytes", answer.checkpoint.total()},
             {"checkpoint_parameter_bytes", answer.checkpoint.parameters},
             {"checkpoint_master_bytes", answer.checkpoint.master},
             {"checkpoint_moment_bytes", answer.checkpoint.moments},
             {"to_host_bytes_per_s", answer.path.to_host},
             {"storage_bytes_per_s", answer.path.storage},
             {"data_bytes_per_step", answer.data_bytes},
             {"data_bytes_per_s", answer.data_rate},
             {"storage_read_bytes_per_s", answer.read}});
  out.print(verdict_of(answer) + "\n");
  out.print("\n" + title + "\n");
  out.print(paragraph(
      fmt::format("Steps: {} of {}{}{}", format_count(answer.steps), format_seconds(answer.step),
                  answer.stragglers > 1 ? fmt::format(" (stragglers x {})", answer.stragglers) : "",
                  answer.ends() ? "; " + hours_words(answer.device_hours()) : ""),
      kIndent));
  out.print(paragraph(
      fmt::format(
          "Checkpoint: {}, {:.2f} bytes per parameter: parameters {}, master copy {}, "
          "moments {}; GPUs to host {}, then {} {}",
          decimal_bytes(answer.checkpoint.total()), answer.checkpoint.total() / answer.parameters,
          decimal_bytes(answer.checkpoint.parameters), decimal_bytes(answer.checkpoint.master),
          decimal_bytes(answer.checkpoint.moments), format_rate(answer.path.to_host),
          answer.shared_storage ? "shared storage" : "drives of the nodes",
          format_rate(answer.path.storage)),
      kIndent));
  say_failures(out, answer.goodput, answer.failures, answer.write, answer.failures_source);
  out.print(paragraph(fmt::format("Training data: {} a step, {}; storage reads {}",
                                  decimal_bytes(answer.data_bytes), format_rate(answer.data_rate),
                                  format_rate(answer.read)),
                      kIndent));
  say_cost(out, answer, cost);
  return out;
}

Sheet published_goodput_sheet() {
  const Seconds write{kLlamaParameters * kAdamCheckpoint / kLlamaStorage.value};
  const Failures failures{.mtbf = kLlamaDeviceMtbf / kLlamaDevices, .restart = kUsualRestart};
  const Goodput found = goodput(write, failures);
  Sheet out("zplan.goodput/1");
  out.fact("published_least_share", 0.9);
  out.print(fmt::format("Llama 3 405B: {} of 54 days useful; published: over 90 %\n\n",
                        percent(found.effective)));
  out.print(
      paragraph("419 unexpected interruptions of 16,384 H100 in 54 days [Dubey24 sec 3.3.4]; "
                "14 bytes per parameter to storage of 2 TB/s [Dubey24 sec 3.3.1]; restarts "
                "of 10 min are assumed, the report prints none",
                kIndent));
  say_failures(out, found, failures, write, "");
  return out;
}

}  // namespace zplan
