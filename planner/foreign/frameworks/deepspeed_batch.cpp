#include <fmt/format.h>

#include <algorithm>

#include "planner/foreign/frameworks/deepspeed_parts.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

// TrainingArguments' per_device_train_batch_size [Transformers].
constexpr std::int64_t kTrainerMicroBatch = 8;

// As written, as the Trainer or the user says; 0: neither does.
std::int64_t batch_number(const KeysToPlan& to, const char* key, std::string_view pointer,
                          std::int64_t of_trainer) {
  ConfigReader& config = to.config;
  if (config.has(key)) return config.integer(key, 1, kMaxGlobalBatch);
  if (config.is_auto(key) && !to.around.with_trainer)
    config.add(Trouble::kError, key,
               "\"auto\" is filled in by Hugging Face's Trainer only (--with hf)");
  const bool is_asked = !pointer.empty() && to.around.asked.has(pointer);
  const std::int64_t asked = is_asked ? to.around.asked.get(pointer, std::int64_t{0}) : 0;
  return asked > 0 ? asked : config.is_auto(key) ? of_trainer : 0;
}

}  // namespace

// Any of the three numbers follows from the others.
void read_deepspeed_batch(const KeysToPlan& to) {
  const std::int64_t dp = to.plan.parallel.dp;
  std::int64_t micro =
      batch_number(to, "train_micro_batch_size_per_gpu", "/batch/micro_batch", kTrainerMicroBatch);
  std::int64_t steps = batch_number(to, "gradient_accumulation_steps", "",
                                    std::max<std::int64_t>(to.around.accumulation, 1));
  std::int64_t global = batch_number(to, "train_batch_size", "/batch/global_batch", 0);
  if (micro == 0 && global == 0) {
    micro = 1;
    to.config.add(Trouble::kError, "train_micro_batch_size_per_gpu",
                  "neither this nor train_batch_size is given; 1 is taken here");
  }
  if (micro == 0) micro = std::max<std::int64_t>(global / dp / std::max<std::int64_t>(steps, 1), 1);
  if (steps == 0) steps = global > 0 ? std::max<std::int64_t>(global / dp / micro, 1) : 1;
  if (global == 0) global = micro * steps * dp;
  if (global != micro * steps * dp)
    to.config.add(Trouble::kError, "train_batch_size",
                  fmt::format("{} is not micro-batch {} x accumulation {} x {} replicas", global,
                              micro, steps, dp));
  to.plan.batch = {.global_batch = micro * steps * dp,
                   .micro_batch = micro,
                   .sequence = to.around.asked.get("/batch/sequence", to.around.model.sequence)};
}

}  // namespace zplan
