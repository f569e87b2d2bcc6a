// Calls of single kernels on random operands: the operands that a row of the kernel table has at
// given sizes, and values for them. All values are doubles that the operand's type holds exactly,
// so that a call in float64 has the same input.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec {

struct Case {
  KernelId kernel{};
  // Of the letters in KernelDef::shapes, "*", and "V", the tokens that occur.
  std::map<std::string, std::int64_t> sizes;
  AttributeValues attributes{};
  bool adds = false;            // to operands that may be written or added to
  bool wide_gradients = false;  // in the type of statistics
  int operands = 0;             // without scratch; 0: all
};

// Of attention whose keys and values have the same size.
std::map<std::string, std::int64_t> attention_sizes(std::int64_t batch, std::int64_t sequence,
                                                    std::int64_t heads, std::int64_t key_heads,
                                                    std::int64_t head_size);

struct CaseOperand {
  std::string name;
  View view;
};
// In the order of the row; scratch comes last.
std::vector<CaseOperand> operands_of(const Case& c, const KernelSet& set);

Demand demand_of(const Case& c, const KernelSet& set);

using Values = std::vector<std::vector<double>>;  // by operand; scratch has none

// Inputs, each drawn by itself: what one kernel takes from another one may not be that one's.
Values draw_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random);
// Of one operand with n elements.
std::vector<double> draw_values(const Case& c, const std::string& operand, std::int64_t n,
                                std::mt19937_64& random);
// To what the types of the operands hold.
void round_values(const std::vector<CaseOperand>& operands, Values& values);

}  // namespace zplan::exec
