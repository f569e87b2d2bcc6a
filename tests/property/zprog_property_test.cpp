#include <gtest/gtest.h>
// gtest first
#include <rapidcheck/gtest.h>

#include <random>
#include <string>

#include "planner/core/error.h"
#include "planner/program/instances/unroll.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/program/text/text.h"
#include "tests/support/brute_force.h"
#include "tests/support/random_job.h"
#include "tests/support/same_stream.h"

namespace zplan {
namespace {

constexpr std::int64_t kSteps = 3;

RC_GTEST_PROP(Zprog, ReadsBackByteForByte, (std::uint64_t seed)) {
  const std::string text = to_text(random_job(seed));
  RC_ASSERT(to_text(parse_zprog(text, "random.zprog")) == text);
}

RC_GTEST_PROP(Zprog, CursorAgreesWithTheWrittenOutProgram, (std::uint64_t seed)) {
  const Program program = random_job(seed).classes[0].program;
  const ProgramIndex index(program);
  const auto all = all_instances(program, kSteps);
  Cursor cursor(index, std::nullopt);
  for (const Instance& expected : all) {
    RC_ASSERT(cursor->node == expected.node);
    RC_ASSERT(cursor->iterations == expected.iterations);
    RC_ASSERT(cursor->env.micro == expected.env.micro);
    RC_ASSERT(cursor->env.layer == expected.env.layer);
    RC_ASSERT(cursor->lane_sequence == expected.lane_sequence);
    RC_ASSERT(cursor->program_sequence == expected.program_sequence);
    cursor.advance();
  }
}

RC_GTEST_PROP(Zprog, EdgesResolveToTheInstanceTheyName, (std::uint64_t seed)) {
  const Program program = random_job(seed).classes[0].program;
  const ProgramIndex index(program);
  const auto all = all_instances(program, kSteps);
  for (const Instance& i : all) {
    const Node& owner = program.nodes[i.node];
    for (const Edge& edge : program.after(owner)) {
      const Instance* target = find_target(program, all, i, edge);
      const auto threshold = index.resolve(edge, i.iterations);
      RC_ASSERT(threshold.has_value() == (target != nullptr));
      if (target != nullptr) RC_ASSERT(threshold->completed == target->lane_sequence + 1);
    }
  }
}

RC_GTEST_PROP(Zprog, UnrollingChangesNothing, (std::uint64_t seed)) {
  const Job folded = random_job(seed);
  const Job flat = unroll(folded);
  for (std::size_t c = 0; c < folded.classes.size(); ++c) {
    expect_same_stream(folded.classes[c].program, flat.classes[c].program, kSteps);
  }
  RC_ASSERT(to_text(parse_zprog(to_text(flat), "flat.zprog")) == to_text(flat));
}

// Breaks a few places of a text: single characters, digits, whole lines.
std::string mutated(std::string text, std::uint64_t seed) {
  constexpr std::string_view kCharacters = "0123456789-+[]{}@%:,#\"\\ \n\x00\xffrwml";
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t edits = below(4) + 1; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = kCharacters[below(kCharacters.size())];
        break;
      case 1:
        text.erase(at, below(20));
        break;
      case 2:
        text.insert(at, 1, kCharacters[below(kCharacters.size())]);
        break;
      case 3: {  // a number becomes a large one
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text.insert(digit, "9223372036854775807", below(20));
        break;
      }
      default:  // a piece twice
        text.insert(at, text.substr(below(text.size()), below(200)));
    }
  }
  return text;
}

// What the parser accepts, every reader can walk; the rest it refuses with one line.
void expect_no_crash(const std::string& text) {
  Job job;
  try {
    job = parse_zprog(text, "mutated.zprog");
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
    RC_ASSERT(std::string(error.what()).find('\n') == std::string::npos);
    return;
  }
  RC_ASSERT(to_text(parse_zprog(to_text(job), "again.zprog")) == to_text(job));
  for (const RankClass& c : job.classes) {
    const ProgramIndex index(c.program);
    Cursor cursor(index, std::nullopt);
    for (int i = 0; i < 200 && !cursor.empty(); ++i, cursor.advance()) {
      const Node& node = c.program.nodes[cursor->node];
      if (node.kind == OpKind::kKernel) demand_of(c.program, node);
      for (const View& v : c.program.operands(node)) {
        const std::int32_t slots = c.program.buffers[v.buffer].slots;
        const std::int64_t slot = v.slot.at(cursor->env, slots);
        RC_ASSERT(slot >= 0 && slot < slots);
      }
      waits(index, *cursor);
    }
  }
}

RC_GTEST_PROP(Zprog, MutatedTextNeverCrashes, (std::uint64_t seed)) {
  const std::string sample = to_text(placed_sample_job());
  const std::string random = to_text(random_job(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    expect_no_crash(mutated(sample, seed + i));
    expect_no_crash(mutated(random, seed + i));
  }
}

}  // namespace
}  // namespace zplan
