// Which shapes, types and values a row of the kernel table is tried with, and what must come out.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "exec/measure/case_run.h"

namespace zplan::gpu {

using exec::Case;
using exec::CaseOperand;
using exec::CaseRun;
using exec::Values;

std::string describe(const Case& c);  // "T=5 k=3 n=7 adds"

// Of a row, small ones with odd sizes first. `large`: those for measuring speed instead.
std::vector<Case> cases_of(KernelId kernel, bool large);

// Inputs; what a kernel takes from another one is that one's, computed in float64.
Values consistent_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random);

// The outputs of the call in float64 on the CPU, of operands that are rounded to fp8 where the set
// casts them.
Values reference(const Case& c, const KernelSet& set, const Values& inputs);

}  // namespace zplan::gpu
