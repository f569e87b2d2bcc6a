// Plants faults by a fixed seed, one at a time, and demands that each is caught: by verify, by a
// run that throws, since losses, norms or states of two steps are not those of the sound Job, since
// copies of a state differ, or by a guarded run.
// Another seed plants them elsewhere: ZPLAN_FAULT_SEED=2 bin/test_crosscheck_faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planner/core/error.h"
#include "planner/program/instances/edges.h"
#include "planner/program/instances/unroll.h"
#include "planner/program/text/text.h"
#include "planner/program/verify/verify.h"
#include "tests/crosscheck/faults/jobs.h"
#include "tests/crosscheck/faults/seeded_faults.h"
#include "tests/support/happens_before.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan::seeded {
namespace {

constexpr int kLeastOfClass = 12, kLeastOfAll = 60;

// The second step runs on what the first has left.
exec::RunResult run_serial(const Job& job, bool guard) {
  exec::RunOptions options;
  options.steps = 2;
  options.mode = exec::RunMode::kSerial;
  options.guard = guard;
  return testing_support::run_text(job, options);
}

// A sound Job in the forms that faults are planted in, and what it trains to.
class Sound {
 public:
  explicit Sound(const NamedPlan& of) : name(of.name), slack_(of.plan.slack) {
    forms_[0] = lower(of.plan, load_model(of.plan.model));
    forms_[1] = unroll(forms_[0]);
    forms_[2] = forms_[0];
    place(forms_[2]);
  }

  const Job& form(Form form) const { return forms_[static_cast<std::size_t>(form)]; }
  void place(Job& job) const { zplan::place(job, {slack_}); }
  const exec::RunResult& result() {
    if (!result_) result_ = run_serial(form(Form::kPlaced), false);
    return *result_;
  }
  // Whether a Job with other edges has accesses without order.
  bool races(const Job& changed) {
    if (!oracle_) oracle_ = std::make_unique<testing_support::RaceOracle>(form(Form::kPlaced));
    return oracle_->races(changed);
  }

  const std::string name;

 private:
  double slack_;
  std::array<Job, 3> forms_;
  std::optional<exec::RunResult> result_;
  std::unique_ptr<testing_support::RaceOracle> oracle_;
};

std::vector<std::unique_ptr<Sound>>& sound_jobs() {
  static std::vector<std::unique_ptr<Sound>> jobs = [] {
    std::vector<std::unique_ptr<Sound>> all;
    for (const NamedPlan& plan : plans()) all.push_back(std::make_unique<Sound>(plan));
    return all;
  }();
  return jobs;
}

enum class By : std::uint8_t { kVerify, kRun, kNumbers, kCopies, kGuard, kNobody };
constexpr std::array<std::string_view, 6> kByNames{"verify", "run",   "numbers",
                                                   "copies", "guard", "NOBODY"};
struct Caught {
  By by = By::kNobody;
  std::string how;
};

std::optional<Caught> catch_by_verify(const Job& job) {
  const std::vector<std::string> findings = verify(job);
  if (findings.empty()) return std::nullopt;
  return Caught{By::kVerify, findings.front()};
}

Caught catch_by_run(Sound& sound, const Job& job) {
  try {
    const exec::RunResult result = run_serial(job, false);
    const auto different =
        testing_support::difference(sound.form(Form::kPlaced), sound.result(), job, result);
    if (different) return {By::kNumbers, *different};
    if (const auto mismatch = exec::replica_mismatch(job, result.memory))
      return {By::kCopies, *mismatch};
  } catch (const Error& error) {
    return {By::kRun, error.what()};
  }
  try {
    run_serial(job, true);
  } catch (const Error& error) {
    return {By::kGuard, error.what()};
  }
  return {};
}

// A Job without addresses gets edges first, and addresses if verify accepts it so.
Caught catch_fault(Sound& sound, Job job) {
  if (!job.placed) {
    for (RankClass& c : job.classes) derive_data_edges(c.program);
    if (const auto caught = catch_by_verify(job)) return *caught;
    sound.place(job);
  }
  if (const auto caught = catch_by_verify(job)) return *caught;
  return catch_by_run(sound, job);
}

struct Fault {
  Sound* sound;
  std::size_t place;
  Change change;

  Job job(Form form) const {
    Job job = sound->form(form);
    change(job);
    return job;
  }
};

// Draws a Job, then a place in it, until enough are faults.
std::vector<Fault> draw(const Kind& kind, std::mt19937_64& random) {
  std::vector<std::vector<Fault>> by_job;
  for (const auto& sound : sound_jobs()) {
    const Changes changes = kind.places(sound->form(kind.form));
    if (!changes.empty()) by_job.emplace_back();
    for (std::size_t i = 0; i < changes.size(); ++i)
      by_job.back().push_back({sound.get(), i, changes[i]});
  }
  std::vector<Fault> faults;
  while (std::ssize(faults) < kind.seeds && !by_job.empty()) {
    const std::size_t j = random() % by_job.size(), i = random() % by_job[j].size();
    const Fault fault = by_job[j][i];
    by_job[j].erase(by_job[j].begin() + static_cast<std::ptrdiff_t>(i));
    if (by_job[j].empty()) by_job.erase(by_job.begin() + static_cast<std::ptrdiff_t>(j));
    if (kind.form != Form::kPlaced || fault.sound->races(fault.job(kind.form)))
      faults.push_back(fault);
  }
  return faults;
}

std::uint64_t seed() {
  const char* text = std::getenv("ZPLAN_FAULT_SEED");
  return text == nullptr ? 1 : std::stoull(text);
}

struct Tally {
  int seeded = 0;
  std::array<int, kByNames.size()> by{};
};

// Under sanitizers a part of the faults is planted, all are drawn.
Tally check_class(const std::vector<Kind>& kinds) {
  static testing_support::Thinned thinned;
  std::mt19937_64 random(seed());
  Tally tally;
  for (const Kind& kind : kinds) {
    const std::vector<Fault> faults = draw(kind, random);
    EXPECT_EQ(std::ssize(faults), kind.seeds) << kind.name << ": too few places";
    tally.seeded += static_cast<int>(faults.size());
    for (const Fault& fault : faults) {
      if (thinned.skips()) continue;
      const Caught caught = catch_fault(*fault.sound, fault.job(kind.form));
      ++tally.by[static_cast<std::size_t>(caught.by)];
      const std::string what = std::string(kind.name) + ", " + fault.sound->name + ", place " +
                               std::to_string(fault.place);
      EXPECT_NE(caught.by, By::kNobody) << what << " is caught by nobody";
      std::printf("%-60s %s: %.160s\n", what.c_str(),
                  kByNames[static_cast<std::size_t>(caught.by)].data(), caught.how.c_str());
    }
  }
  return tally;
}

void check(Class of, const std::vector<Kind>& kinds) {
  const std::string_view name = kClassNames[static_cast<std::size_t>(of)];
  for (const Kind& kind : kinds) EXPECT_EQ(kind.of, of) << kind.name;
  const Tally tally = check_class(kinds);
  EXPECT_GE(tally.seeded, kLeastOfClass) << name;
  std::printf("%.*s: %d faults", static_cast<int>(name.size()), name.data(), tally.seeded);
  for (std::size_t by = 0; by < tally.by.size(); ++by)
    std::printf(", %d by %s", tally.by[by], kByNames[by].data());
  std::printf("\n");
}

// Else whoever rejects the sound one would catch all faults.
TEST(SeededFaults, ArePlantedInSoundJobs) {
  testing_support::Thinned thinned(testing_support::one_in(3));
  for (const auto& sound : sound_jobs()) {
    if (thinned.skips()) continue;
    for (const Form form : {Form::kPlaced, Form::kUnrolled})
      EXPECT_EQ(catch_fault(*sound, sound->form(form)).how, "") << sound->name;
    Job again = sound->form(Form::kFolded);
    for (RankClass& c : again.classes) derive_data_edges(c.program);
    sound->place(again);
    EXPECT_EQ(to_text(again), to_text(sound->form(Form::kPlaced))) << sound->name;
  }
}

TEST(SeededFaults, AreSixtyAtLeast) {
  int seeds = 0;
  for (const auto& kinds :
       {order_kinds(), group_kinds(), stride_kinds(), edge_kinds(), size_kinds()})
    for (const Kind& kind : kinds) seeds += kind.seeds;
  EXPECT_GE(seeds, kLeastOfAll);
}

TEST(SeededFaults, OfScheduleOrderAreCaught) { check(Class::kOrder, order_kinds()); }
TEST(SeededFaults, OfGroupMembershipAreCaught) { check(Class::kGroup, group_kinds()); }
TEST(SeededFaults, OfStridesAreCaught) { check(Class::kStride, stride_kinds()); }
TEST(SeededFaults, OfDroppedEdgesAreCaught) { check(Class::kEdge, edge_kinds()); }
TEST(SeededFaults, OfSizesOfShardsAreCaught) { check(Class::kSize, size_kinds()); }

}  // namespace
}  // namespace zplan::seeded
