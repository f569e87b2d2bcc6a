// Schedules as text: "F0.0 F0.1 B0.0", a pass being its kind, chunk and micro-batch.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "planner/program/schedule/fold.h"
#include "planner/program/schedule/schedule.h"

namespace zplan::testing_support {

inline PassOrder order_of(const std::string& passes) {
  PassOrder order;
  std::istringstream in(passes);
  char kind = 0, dot = 0;
  std::int32_t chunk = 0, micro = 0;
  while (in >> kind >> chunk >> dot >> micro)
    order.add(static_cast<PassKind>(std::string("FBIW").find(kind)), chunk, micro);
  return order;
}

inline std::string text_of(const std::vector<Pass>& passes) {
  std::string all;
  for (const Pass& pass : passes) all += (all.empty() ? "" : " ") + text(pass);
  return all;
}

inline PipelineSchedule schedule_of(ChunkMap chunks, std::int32_t micro_batches,
                                    const std::vector<std::string>& ranks) {
  PipelineSchedule schedule{std::move(chunks), micro_batches, {}};
  for (const std::string& rank : ranks) schedule.ranks.push_back(order_of(rank));
  return schedule;
}

// "3x(F0+2 B0)@1": three iterations from micro-batch 1 on; a step other than 1 follows the count. A
// pass apart ends with "!", a forward with a backward beside it with "&", a reversed one with "~".
inline std::string text_of(const PassLoop& loop) {
  std::string body;
  for (const LoopEntry& entry : loop.body) {
    if (!body.empty()) body += ' ';
    if (const auto* inner = std::get_if<PassLoop>(&entry)) {
      body += text_of(*inner);
      continue;
    }
    const Pass& pass = std::get<Pass>(entry);
    body += letter(pass.kind) + std::to_string(pass.chunk);
    if (pass.apart) body += '!';
    if (pass.beside) body += '&';
    if (pass.reversed) body += '~';
    if (pass.micro != 0) body += '+' + std::to_string(pass.micro);
  }
  const std::string step = loop.step == 1 ? "" : "/" + std::to_string(loop.step);
  return std::to_string(loop.count) + step + "x(" + body + ")@" + std::to_string(loop.first);
}

// Also expects that the loops are all of the order.
inline std::string folded(const PassOrder& order) {
  const std::vector<PassLoop> loops = fold(order);
  EXPECT_EQ(unfold(loops), order.passes);
  std::string all;
  for (const PassLoop& loop : loops) all += (all.empty() ? "" : " ") + text_of(loop);
  return all;
}

}  // namespace zplan::testing_support
