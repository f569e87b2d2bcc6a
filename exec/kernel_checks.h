// What every backend checks of its kernel nodes ahead of the first step: types of operands and room
// for scratch. Each refusal names the operation.
#pragma once

#include <functional>
#include <string_view>

#include "exec/backend.h"

namespace zplan::exec {

// Whether an operand of this type fits a letter: x the kernel set's type, t that of its statistics,
// g of a gradient (x or float32; float64 of float64), s of a state (float64 of float64, else any
// narrower floating-point type), d float64, i int32, * any.
bool fits_letter(char letter, DType type, DType compute);

// Operands beyond the letters have the last one. Throws Error.
void check_types(const KernelCall& call, std::string_view letters, DType compute);
// The last operand holds the scratch. Throws Error.
void check_scratch(const KernelCall& call, Bytes needed);

// Calls body with each kernel node as it will be run; its operands have no addresses.
void for_each_kernel(const Program& program, const std::function<void(const KernelCall&)>& body);

}  // namespace zplan::exec
