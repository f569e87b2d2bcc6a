#include "planner/program/verify/verify.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/program/verify/communication.h"
#include "planner/program/verify/findings.h"
#include "planner/program/verify/hazards.h"
#include "planner/program/verify/operands.h"
#include "planner/program/verify/progress.h"
#include "planner/program/verify/structure.h"

namespace zplan {
namespace {

constexpr std::size_t kFindingsInMessage = 3;

// What the checks of single classes rely on.
void check_job(const Job& job, std::vector<std::string>& findings) {
  if (const auto fault = mesh_fault(job.mesh)) return findings.push_back("job: " + *fault);
  if (std::ssize(job.classes) != job.stages())
    findings.push_back("job: " + std::to_string(job.classes.size()) + " rank classes for " +
                       std::to_string(job.stages()) + " stages");
  for (const Unit& unit : job.units)
    if (unit.flat_elements != unit.shard_elements * job.mesh.size(unit.shards))
      findings.push_back("job: unit '" + unit.name + "' of " + std::to_string(unit.flat_elements) +
                         " elements in shards of " + std::to_string(unit.shard_elements) +
                         " over " + name(job.mesh, unit.shards));
  for (std::size_t i = 0; i < job.classes.size(); ++i)
    if (job.classes[i].stage != static_cast<std::int32_t>(i))
      findings.push_back("job: rank class " + std::to_string(i) + " says it is stage " +
                         std::to_string(job.classes[i].stage));
}

void append(std::vector<std::string>& all, const ClassFindings& some) {
  all.insert(all.end(), some.lines().begin(), some.lines().end());
}

}  // namespace

std::vector<std::string> verify(const Job& job) {
  std::vector<std::string> findings;
  check_job(job, findings);
  if (!findings.empty()) return findings;
  for (const RankClass& c : job.classes) {
    ClassFindings own(c.stage);
    check_structure(job, c, own);
    if (own.empty()) check_operands(job, c, own);
    append(findings, own);
  }
  if (!findings.empty()) return findings;
  for (const RankClass& c : job.classes) {
    ClassFindings own(c.stage);
    check_hazards(job, c, own);
    append(findings, own);
  }
  check_communication(job, findings);
  if (findings.empty()) check_progress(job, findings);
  return findings;
}

void verify_or_throw(const Job& job) {
  const std::vector<std::string> findings = verify(job);
  if (findings.empty()) return;
  std::string message = "the job does not verify: ";
  for (std::size_t i = 0; i < std::min(findings.size(), kFindingsInMessage); ++i)
    message += (i == 0 ? "" : "; ") + findings[i];
  if (findings.size() > kFindingsInMessage)
    message += "; and " + std::to_string(findings.size() - kFindingsInMessage) + " more";
  throw Error(ExitCode::kInternal, message);
}

}  // namespace zplan
